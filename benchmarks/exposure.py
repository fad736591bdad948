"""How much of each sensor's news an adversary can read from what really travels.

News is what the shared model leaves of a reading. For each cell (data, pattern, rate) the package
runs as it is, a tap collects the coordinator's sums, and read-outs of two families are scored
against the sites' own readings, as an R^2 a sensor; the table shows worst / median over sensors.

* a linear map that is constant in time, from the sums of (a) the last round, (b) rounds 1, 3 and
  last, (c) the last with lags -1..1, (d) both; fitted on half of the slots
* a solver that knows everything but the readings, on 1,000 slots, with (e) a Gaussian prior,
  (f) Student-t, (g) news correlated in time, all fitted on the truth; from the last round, and
  "stacked" from the first (least clipped) and the last together

"Alone" scores the same guesses by what the *other* sensors leave open of a reading (then m, which
a sensor moves too, is read as well), "bulk" by news without its spikes: the worst of (a)-(f).
"Own" is (e) on the same sums of news made independent between sensors: what a sensor's readings
give away of themselves, apart from local patterns that its neighbours show as well.
Exit status 1 if, with the guard on, (a)-(f) read more than ``max_exposure + 0.05`` of the news of
any sensor, or more than ``0.6 * max_exposure`` numbers leave for a reading in any window.

    python benchmarks/exposure.py                        # the 20 cells, defaults
    python benchmarks/exposure.py --cells D3:random:0.5,D4:block:0.9 --max-exposure 1
    python benchmarks/exposure.py --quick
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from exposure import masks_known
from exposure.readouts import features, read_out
from exposure.view import View, listen
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flfl.benchmark.evaluate import training_mask
from flfl.data.datasets import load_dataset

Array = NDArray[np.float64]

DATA = ("D1_beijing_co", "D2_sst_70x1733", "D3_beijing_pm25", "D4_chongqing_so2")
SHAPES = (("random", 0.1), ("random", 0.5), ("random", 0.9), ("block", 0.5), ("block", 0.9))
QUICK = ("germany_pm10", "random", 0.5)
JUDGED = ("last", "1,3,last", "lags", "both", "gauss", "student", "gauss*", "student*")
SHOWN = (*JUDGED[:6], "memory", *JUDGED[6:], "memory*", "own")
KINDS = ("news", "alone", "bulk")
MARGIN = 0.05

Cell = tuple[str, str, float]


def measure(view: View, slots: int = 1000, seed: int = 0) -> dict[str, Array]:
    """R^2 (M, 3) of every read-out: of news, news alone, bulk. NaN where readings are too few."""
    rng = np.random.default_rng(seed)
    targets = np.stack([view.news, view.predictive, view.clipped])
    g = [one.g for one in view.rounds]
    some = [g[n] for n in sorted({0, min(2, len(g) - 1), len(g) - 1})]
    scores = {
        "last": read_out(features(g[-1:], view, 0), targets, view.J, rng),
        "1,3,last": read_out(features(some, view, 0), targets, view.J, rng),
        "lags": read_out(features(g[-1:], view, 1), targets, view.J, rng),
        "both": read_out(features(some, view, 1), targets, view.J, rng),
        # m is published, and a sensor's own news moves it.
        "both, m": read_out(np.hstack([features(some, view, 1), view.m]), targets, view.J, rng),
    }
    length, white = masks_known.fitted_memory(view)
    first = max((view.J.shape[1] - slots) // 3, 0)
    for star, rounds in (("", view.rounds[-1:]), ("*", [view.rounds[0], view.rounds[-1]])):
        system = masks_known.stretch(view, list(rounds), first, slots)
        prior = masks_known.fitted_prior(system)
        guesses = {
            "gauss": masks_known.gaussian(system, prior),
            "student": masks_known.student(system, prior, rng),
            "memory": masks_known.correlated(system, prior, length, white),
        }
        for name, v in guesses.items():
            scores[name + star] = masks_known.score(system, view, prior, v)
        if not star:
            scores["own"] = own(system, view, rng)
    return scores


def own(system: masks_known.Stretch, view: View, rng: np.random.Generator) -> Array:
    """R^2 (M, 3) of the Gaussian solver on independent news; the last two columns are empty."""
    system = masks_known.rolled(system, rng)
    prior = masks_known.fitted_prior(system)
    scores = masks_known.score(system, view, prior, masks_known.gaussian(system, prior))
    scores[:, 1:] = np.nan
    return scores


def run_cell(cell: Cell, settings: dict[str, Any], seed: int, slots: int) -> dict[str, Any]:
    """Fit, listen, measure: one row."""
    name, pattern, rate = cell
    table, sensors = load_dataset(name)
    length = 12 if name.startswith("D2") else 24
    kept = training_mask(table, sensors, rate, pattern, seed, length)
    seen = table.values.where(pd.DataFrame(kept.T, table.values.index, table.values.columns))
    start = time.perf_counter()
    model, view = listen(seen, sensors, random_state=seed, **settings)
    middle = time.perf_counter()
    row: dict[str, Any] = {"data": name, "pattern": pattern, "rate": rate, "seed": seed}
    row |= {"max_exposure": model.max_exposure, "projection": settings.get("projection")}
    if view is None:
        return row | {"shared": False, "notes": model.ledger_.notes}
    scores = measure(view, slots, seed)
    row |= {
        "shared": True,
        "rank": view.m.shape[1],
        "rounds": len(view.rounds),
        "windows": len(view.windows),
        "numbers_per_reading": view.numbers_per_reading(),
        # Each refit of p is k functionals of one sensor: a bound on what they add.
        "refits_bound": float(
            len(view.rounds) * view.m.shape[1] / max(view.J.sum(axis=1).min(), 1.0)
        ),
        "leverage": float(view.leverage.max()),
        "scores": {read: _summary(s, view) for read, s in scores.items()},
        "seconds_fit": middle - start,
        "seconds_measure": time.perf_counter() - middle,
    }
    return row


def _summary(scores: Array, view: View) -> dict[str, dict[str, Any]]:
    """Worst and median over the sensors that have a score, and every sensor's."""
    out = {}
    for kind, column in zip(KINDS, scores.T, strict=True):
        if np.isfinite(column).any():
            at = int(np.nanargmax(column))
            out[kind] = {
                "worst": float(column[at]),
                "median": float(np.nanmedian(column)),
                "sensor": str(view.names[at]),
                "all": [round(v, 4) if np.isfinite(v) else None for v in column.tolist()],
            }
    return out


def worst(row: dict[str, Any], kind: str = "news") -> tuple[float, str, str]:
    """The worst of the judged read-outs: R^2, read-out, sensor."""
    found = [(row["scores"][r].get(kind), r) for r in JUDGED]
    return max((s["worst"], r, s["sensor"]) for s, r in found if s)


def too_exposed(row: dict[str, Any]) -> list[str]:
    """Why a row fails, in words; nothing where the guard is off."""
    cap = row["max_exposure"]
    if not row["shared"] or cap >= 1:
        return []
    where = f"{row['data']} {row['pattern']} {row['rate']}"
    value, read, sensor = worst(row)
    reasons = []
    if value > cap + MARGIN:
        reasons.append(f"{where}: {read} reads {value:.2f} of the news of {sensor}")
    if row["numbers_per_reading"] > 0.6 * cap + 1e-9:
        reasons.append(f"{where}: {row['numbers_per_reading']:.3f} numbers leave for a reading")
    return reasons


def header() -> str:
    """Two lines of Markdown. A star means stacked rounds."""
    names = ["data", "pattern", "rate", "rank", "numbers a reading", *SHOWN, "alone", "bulk", "s"]
    return "| " + " | ".join(names) + " |\n|" + "---|" * len(names)


def line(row: dict[str, Any]) -> str:
    """One row of Markdown: worst / median."""
    front = f"| {row['data']} | {row['pattern']} | {row['rate']} |"
    if not row["shared"]:
        return front + " 0 | 0 |" + " - |" * len(SHOWN) + " - | - | - |"
    cells = [
        f"{s['worst']:.2f} / {s['median']:.2f}" if (s := row["scores"][r].get("news")) else "-"
        for r in SHOWN
    ]
    cells += [f"{worst(row, kind)[0]:.2f}" for kind in ("alone", "bulk")]
    cells.append(f"{row['seconds_fit'] + row['seconds_measure']:.0f}")
    return f"{front} {row['rank']} | {row['numbers_per_reading']:.3f} | {' | '.join(cells)} |"


def parse_cells(text: str | None) -> list[Cell]:
    """``D3:random:0.5,D4`` to cells; a name may be cut short, pattern and rate left out."""
    if text is None:
        return [(name, *shape) for name in DATA for shape in SHAPES]
    cells: list[Cell] = []
    for part in text.split(","):
        name, *rest = part.split(":")
        full = next((known for known in DATA if known.startswith(name)), name)
        if rest:
            cells.append((full, rest[0], float(rest[1])))
        else:
            cells += [(full, *shape) for shape in SHAPES]
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", help="data[:pattern:rate], separated by commas")
    parser.add_argument("--max-exposure", type=float, default=0.5)
    parser.add_argument("--projection", choices=("fixed", "learned", "adaptive"))
    parser.add_argument("--rank", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slots", type=int, default=1000, help="of the masks-known solver")
    parser.add_argument("--json", type=Path, help="also write every sensor's figures here")
    parser.add_argument("--quick", action="store_true", help="one small cell, 300 slots")
    options = parser.parse_args()
    cells = [QUICK] if options.quick else parse_cells(options.cells)
    settings = {name: getattr(options, name) for name in ("max_exposure", "projection", "rank")}
    print(header(), flush=True)
    rows, reasons = [], []
    with threadpool_limits(limits=1):
        for cell in cells:
            slots = 300 if options.quick else options.slots
            rows.append(run_cell(cell, settings, options.seed, slots))
            reasons += too_exposed(rows[-1])
            print(line(rows[-1]), flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for reason in reasons:
        print(reason, file=sys.stderr)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
