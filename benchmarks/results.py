"""The figures of ``docs/accuracy-and-privacy.md``: the default on the paper's data, cell by cell.

Rows are appended to a JSON-lines file as they are finished; a rerun goes on where it stopped.

    python benchmarks/results.py run rows.jsonl --seeds 3              # defaults
    python benchmarks/results.py run rows.jsonl --seeds 3 --trusted    # max_exposure 1
    python benchmarks/results.py run rows.jsonl --pattern outage --seeds 1
    python benchmarks/results.py run rows.jsonl --option season=0 --name no-season --seeds 1
    python benchmarks/results.py show rows.jsonl                       # Markdown tables
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from flfl.baselines import create
from flfl.benchmark.evaluate import training_mask
from flfl.data.datasets import load_dataset
from flfl.estimators import FLFL
from flfl.model.heads.holdout import distance_bin
from flfl.model.heads.interpolation import neighbours

DATA = ("D1_beijing_co", "D2_sst_70x1733", "D3_beijing_pm25", "D4_chongqing_so2")
CELLS = {"random": (0.1, 0.5, 0.9), "block": (0.5, 0.9), "outage": (0.5, 0.9)}


def alone_width(
    values: np.ndarray, seen: np.ndarray, tested: np.ndarray, hidden: np.ndarray
) -> float:
    """Mean width of 90 % intervals of pchip alone, calibrated on the same held-out readings."""
    known = ~np.isnan(seen)
    estimate = create("pchip").fit(np.where(tested, np.nan, seen)).estimates_
    spread = np.nanstd(seen, axis=0)
    ratio = (np.abs(estimate - values) / np.maximum(spread, 1e-9))[tested]
    where = distance_bin(neighbours(np.zeros_like(seen.T), (known & ~tested).T).nearest).T
    target = distance_bin(neighbours(np.zeros_like(seen.T), known.T).nearest).T
    quantile = np.quantile(ratio, 0.9) * np.ones(where.max() + 1)
    for b in np.unique(where[tested]):
        chosen = where[tested] == b
        if chosen.sum() > 100:
            quantile[b] = np.quantile(ratio[chosen], 0.9)
    half = quantile[np.minimum(target, len(quantile) - 1)] * spread
    return float(2 * half[hidden].mean())


def row(
    name: str, pattern: str, rate: float, seed: int, options: dict[str, Any], spike: bool
) -> dict[str, Any]:
    table, sensors = load_dataset(name)
    kept = training_mask(table, sensors, rate, pattern, seed, 12 if "sst" in name else 24)
    values = table.values.to_numpy()
    seen = table.values.where(kept.T)
    if spike:
        rng = np.random.default_rng(seed + 100)
        seen = seen.mask(kept.T & (rng.random(kept.T.shape) < 0.01), 10 * seen)
    start = time.perf_counter()
    model = FLFL(random_state=seed, **options).fit(seen, sensors=sensors)
    seconds = time.perf_counter() - start
    hidden = table.known & ~kept.T
    error = np.where(hidden, model.estimates_ - values, np.nan)
    inside = (model.lower_ <= values + 1e-9) & (values <= model.upper_ + 1e-9)
    out: dict[str, Any] = {
        "mae": float(np.nanmean(np.abs(error))),
        "rmse": float(np.sqrt(np.nanmean(error**2))),
        "coverage": float(inside[hidden].mean()),
        "width": float((model.upper_ - model.lower_)[hidden].mean()),
        "alone_width": alone_width(values, seen.to_numpy(), ~np.isnan(model.holdout_), hidden),
        "seconds": seconds,
        "rounds": model.n_rounds_,
        "exchanges": dict(model.ledger_.exchanges),
        "bytes_up": model.ledger_.bytes_up,
        "numbers_per_reading": model.ledger_.numbers / int(kept.sum()),
        "exposure_worst": float(np.nanmax(model.exposure_)),
        "rank": model.settings_.rank,
        "transform": model.settings_.transform,
        "season": model.settings_.period,
        "history": model.history_,
    }
    by_sensor = np.nanmean(np.abs(error), axis=0)
    for method in ("linear", "pchip"):
        alone = np.where(hidden, create(method).fit(seen).estimates_ - values, np.nan)
        out[method] = [float(np.nanmean(np.abs(alone))), float(np.sqrt(np.nanmean(alone**2)))]
        out[f"worse_than_{method}"] = float(
            np.mean(by_sensor > 1.02 * np.nanmean(np.abs(alone), axis=0))
        )
    return out


def run(arguments: argparse.Namespace) -> None:
    options: dict[str, Any] = {"max_exposure": 1.0} if arguments.trusted else {}
    for text in arguments.option:
        key, _, value = text.partition("=")
        options[key] = json.loads(value) if value[:1] in "0123456789" else value
    config = arguments.name or ("trusted" if arguments.trusted else "default")
    done = set()
    if arguments.rows.exists():
        for line in arguments.rows.read_text().splitlines():
            old = json.loads(line)
            done.add(tuple(old[k] for k in ("config", "data", "pattern", "rate", "seed")))
    for seed in range(arguments.seeds):
        for name in arguments.data.split(","):
            for pattern in arguments.pattern.split(","):
                for rate in (
                    map(float, arguments.rate.split(",")) if arguments.rate else CELLS[pattern]
                ):
                    key = (config, name, pattern, rate, seed)
                    if key in done:
                        continue
                    cell = dict(
                        zip(("config", "data", "pattern", "rate", "seed"), key, strict=True)
                    )
                    cell |= row(name, pattern, rate, seed, options, arguments.spike)
                    with arguments.rows.open("a") as file:
                        file.write(json.dumps(cell) + "\n")
                    print(config, name, pattern, rate, seed, f"{cell['mae']:.4f}", flush=True)


BARS = {
    "default": {
        "D1": (0.254, 0.508, 0.146, 0.323, 0.113, 0.24, 0.269, 0.542, 0.249, 0.488),
        "D2": (0.251, 0.335, 0.136, 0.187, 0.094, 0.132, 0.168, 0.23, 0.124, 0.171),
        "D3": (14.6, 26.1, 8.65, 16.7, 6.95, 14.73, 14.5, 26.4, 13.2, 24.4),
        "D4": (1.98, 4.6, 1.165, 3.1, 0.878, 2.57, 2.61, 5.55, 2.54, 5.18),
    },
    "trusted": {
        "D1": (0.243, 0.485, 0.144, 0.32, 0.112, 0.239, 0.268, 0.534, 0.24, 0.465),
        "D2": (0.234, 0.311, 0.116, 0.16, 0.074, 0.108, 0.146, 0.2, 0.118, 0.163),
        "D3": (13.9, 24.9, 8.55, 16.5, 6.88, 14.64, 14.4, 26.3, 12.6, 23.5),
        "D4": (1.96, 4.5, 1.16, 3.08, 0.876, 2.57, 2.6, 5.45, 2.3, 4.68),
    },
}
"""What the method was built to: MAE and RMSE of random 0.1, 0.5, 0.9 and block 0.5, 0.9."""
_CELLS = (("random", 0.1), ("random", 0.5), ("random", 0.9), ("block", 0.5), ("block", 0.9))


def _with_bar(config: str, data: str, pattern: str, rate: float, mae: float, rmse: float) -> str:
    """``MAE / RMSE (bars)``; a star marks a bar that is missed."""
    bars = BARS.get(config, {}).get(data)
    if bars is None or (pattern, rate) not in _CELLS:
        return f"{mae:.4g} / {rmse:.4g}"
    at = 2 * _CELLS.index((pattern, rate))
    stars = ["*" if value > bar else "" for value, bar in zip((mae, rmse), bars[at:], strict=False)]
    bar = f"{bars[at]:.4g} / {bars[at + 1]:.4g}"
    return f"{mae:.4g}{stars[0]} / {rmse:.4g}{stars[1]} ({bar})"


def show(arguments: argparse.Namespace) -> None:
    """One Markdown table for each configuration, means over its seeds."""
    rows = [json.loads(line) for line in arguments.rows.read_text().splitlines()]
    cells: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for r in rows:
        cells.setdefault((r["config"], r["data"], r["pattern"], r["rate"]), []).append(r)
    last = None
    for (config, data, pattern, rate), found in cells.items():
        if config != last:
            print(f"\n{config}\n")
            print(
                "| data | pattern | rate | seeds | MAE / RMSE (bar) | linear | pchip | coverage,"
                " lowest | width, alone's | rounds + other exchanges | numbers a reading | computed"
                " exposure | sensors > 2 % worse than pchip | s |"
            )
            print("|" + "---|" * 14)
            last = config
        mean = {
            k: float(np.mean([r[k] for r in found]))
            for k in found[0]
            if isinstance(found[0][k], float | int)
        }
        pair = {
            m: " / ".join(f"{x:.4g}" for x in np.mean([r[m] for r in found], axis=0))
            for m in ("linear", "pchip")
        }
        name = data.split("_")[0]
        exchanges = np.mean([sum(r["exchanges"].values()) - r["rounds"] for r in found])
        print(
            f"| {name} | {pattern} | {rate} | {len(found)} |"
            f" {_with_bar(config, name, pattern, rate, mean['mae'], mean['rmse'])} |"
            f" {pair['linear']} | {pair['pchip']} | {mean['coverage']:.3f},"
            f" {min(r['coverage'] for r in found):.3f} |"
            f" {mean['width']:.3g}, {mean['alone_width']:.3g} |"
            f" {max(r['rounds'] for r in found)} + {exchanges:.0f} |"
            f" {mean['numbers_per_reading']:.3f} | {mean['exposure_worst']:.2f} |"
            f" {100 * mean['worse_than_pchip']:.0f} % | {mean['seconds']:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    runner = verbs.add_parser("run")
    runner.add_argument("rows", type=Path)
    runner.add_argument("--seeds", type=int, default=1)
    runner.add_argument("--data", default=",".join(DATA))
    runner.add_argument("--pattern", default="random,block")
    runner.add_argument("--rate", default="")
    runner.add_argument("--trusted", action="store_true")
    runner.add_argument("--spike", action="store_true", help="1 %% of the readings times 10")
    runner.add_argument("--name", default="")
    runner.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    runner.set_defaults(act=run)
    shower = verbs.add_parser("show")
    shower.add_argument("rows", type=Path)
    shower.set_defaults(act=show)
    arguments = parser.parse_args()
    arguments.act(arguments)


if __name__ == "__main__":
    main()
