"""What the added error and the share of numbers cost in accuracy, and what they keep from readers.

One cell: a data set (half of its readings hidden one by one), its owners (one sensor each, or as
found: regions, and the real agencies of germany_pm10), an added error and a share. Each cell is one
run: its error on the hidden readings, and what the audit's attacks read of the same run. Rows are
appended to ``docs/results/frontier/rows.csv``; cells that are there already are not run again.

    python bench/benchmarks/frontier.py                 # all cells, then the page and its figure
    python bench/benchmarks/frontier.py --data california_pm25 --owners each --added-error 1
    python bench/benchmarks/frontier.py --page          # the page from the rows that are there
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flfl.audit import Case, watch
from flfl.audit.run import attacked, check
from flfl.datasets.catalogue import load_dataset
from flfl.evaluation import training_mask
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors

DATA = (
    "D1_beijing_co",
    "D2_sst_70x1733",
    "D3_beijing_pm25",
    "D4_chongqing_so2",
    "california_pm25",
    "germany_pm10",
)
OWNERS = ("each", "found")
RATE, PATTERN = 0.5, "random"
ADDED_ERRORS, SHARES = (0.0, 0.25, 0.5, 1.0, 2.0), (0.2, 0.5, 1.0)
SLOTS = 1080
"""Slots of a table that are used: ninety days of hourly readings, so all cells take an hour."""
ALONE = -1.0
"""Stands in a row's added error for owners by themselves."""
READERS = {
    "coordinator": ("slot by slot", "with memory", "heavy-tailed", "refits"),
    "everybody": ("everything else",),
    "one_reading": ("all but one reading",),
}
DOCS = Path(__file__).parents[2] / "docs"
ROWS = DOCS / "results" / "frontier" / "rows.csv"
COLOURS = {"each": "#0072B2", "found": "#D55E00"}
"""Of Okabe and Ito, told apart by everybody."""


@dataclass(frozen=True)
class Cell:
    """One run."""

    data: str
    owners: str
    added_error: float
    share: float
    seed: int
    effort: str


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """The cells that were asked for: added errors at share 0.5, shares at added error 1."""
    settings = [(ALONE, 0.5), *((beta, 0.5) for beta in ADDED_ERRORS)]
    settings += [(1.0, share) for share in SHARES if share != 0.5]
    for data in options.data:
        for owners in options.owners:
            for beta, share in settings:
                if options.added_error is None or beta == options.added_error:
                    for seed in range(options.seeds):
                        yield Cell(data, owners, beta, share, seed, options.effort)


def owned(data: str, sensors: Sensors, owners: str) -> Sensors:
    """The sensors with their owners."""
    if owners == "each":
        return sensors.with_sites(list(sensors.ids))
    if data == "germany_pm10":
        return sensors.with_sites([name[:4] for name in sensors.ids])
    return sensors


def run(cell: Cell) -> dict[str, Any]:
    """Hide, recover, score, attack."""
    start = time.perf_counter()
    table, sensors = load_dataset(cell.data)
    table = from_frame(table.values.iloc[:SLOTS])
    sensors = owned(cell.data, sensors, cell.owners)
    truth = table.values.to_numpy(dtype=float)
    kept = training_mask(table, sensors, RATE, PATTERN, cell.seed).T
    alone = cell.added_error == ALONE
    model, case = watch(
        table.values.where(kept),
        sensors,
        to_the_end=True,
        effort=cell.effort,
        random_state=cell.seed,
        share=cell.share,
        added_error=1.0 if alone else cell.added_error,
        sharing="nothing" if alone else "network",
    )
    hidden = np.isfinite(truth) & ~kept & np.isfinite(model.estimates_)
    error = (model.estimates_ - truth)[hidden]
    inside = (model.lower_ <= truth) & (truth <= model.upper_)
    row: dict[str, Any] = vars(cell) | {
        "mae": np.abs(error).mean(),
        "rmse": np.sqrt((error**2).mean()),
        "coverage": inside[hidden].mean(),
        "numbers_per_reading": model.traffic_.numbers / kept.sum(),
    }
    if case is not None:
        row |= read(case)
    return row | {"seconds": time.perf_counter() - start}


def read(case: Case) -> dict[str, Any]:
    """What each reader reads with its best attack: worst and median sensor."""
    names = [name for group in READERS.values() for name in group]
    found = {one.name: one for one in attacked(case, names, lambda _: None)}
    row: dict[str, Any] = {}
    for reader, group in READERS.items():
        row[f"{reader}_worst"] = max(found[name].residual_read_max or 0.0 for name in group)
        row[f"{reader}_median"] = max(found[name].residual_read_median or 0.0 for name in group)
    row["excess"] = max(one.excess for one in found.values())
    row["checks_failed"] = sum(map(bool, check(case).values()))
    return row


COLUMNS = (
    *Cell.__dataclass_fields__, "mae", "rmse", "coverage", "numbers_per_reading",
    *(f"{reader}_{what}" for reader in READERS for what in ("worst", "median")),
    "excess", "checks_failed", "seconds",
)  # fmt: skip


def rows(path: Path) -> pd.DataFrame:
    """What has been run so far."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(COLUMNS))


def append(path: Path, row: dict[str, Any]) -> None:
    """One more row at the end of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def page(done: pd.DataFrame) -> str:
    """The tables in Markdown."""
    out = [
        "# Accuracy against privacy",
        "",
        "Made by `python bench/benchmarks/frontier.py`. Half of the readings are hidden one by one;"
        " MAE on them, mean over seeds. Beside it R^2 of the residual (what all other sensors do"
        " not predict of a reading; `docs/audit.md`), worst / median sensor, that is read by the"
        " *coordinator* alone (its best attack), by *everybody else* together, slow parts included,"
        " and by somebody who knows all but *one reading*, where the bound is 1 / (1 + beta^2)."
        " Owners: `each`, one sensor an owner; `found`, regions of about eight sensors or, in"
        " germany_pm10, the thirteen agencies. The share has no effect above one half.",
        "",
        "![MAE against what is read](results/frontier/frontier.svg)",
    ]
    for data in [name for name in DATA if (done["data"] == name).any()]:
        names = ["owners", "added error", "share", "MAE", "coverage"]
        names += ["coordinator", "everybody else", "one reading"]
        out += ["", f"## {data}", "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
        part = done[done["data"] == data]
        order = ["owners", "added_error", "share"]
        means = part.groupby(order, sort=True).mean(numeric_only=True).reset_index()
        out += [_line(row) for row in means.to_dict("records")]
    return "\n".join(out) + "\n"


def _line(row: dict[Any, Any]) -> str:
    alone = row["added_error"] == ALONE
    texts = [row["owners"], "alone" if alone else f"{row['added_error']:g}"]
    texts += ["" if alone else f"{row['share']:g}", f"{row['mae']:.4g}", f"{row['coverage']:.3f}"]
    for reader in READERS:
        worst, median = row[f"{reader}_worst"], row[f"{reader}_median"]
        texts.append("" if np.isnan(worst) else f"{worst:.2f} / {median:.2f}")
    return "| " + " | ".join(str(text) for text in texts) + " |"


def draw(done: pd.DataFrame, path: Path) -> None:
    """One panel a data set: MAE against what everybody else reads of the median sensor."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    names = [name for name in DATA if (done["data"] == name).any()]
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained", squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        part = done[(done["data"] == name) & (done["share"] == 0.5)]
        for owners, group in part.groupby("owners"):
            means = group.groupby("added_error").mean(numeric_only=True)
            curve = means[means.index != ALONE]
            colour = COLOURS[str(owners)]
            read_by, mae = curve["everybody_median"], curve["mae"]
            axis.plot(read_by, mae, "o-", color=colour, label=owners)
            for beta, *at in zip(curve.index, read_by, mae, strict=True):
                axis.annotate(f"{beta:g}", at, xytext=(3, 3), textcoords="offset points", size=7)
            if ALONE in means.index:
                axis.axhline(means["mae"][ALONE], color=colour, linestyle=":", linewidth=1)
        axis.set(title=name, xlabel="read by everybody else (R^2, median)", ylabel="MAE")
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    if names:
        axes.flat[0].legend(title="owners", fontsize=7)
    figure.suptitle("Points: added error. Dotted: each owner alone.", fontsize=9)
    figure.savefig(path)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--owners", nargs="+", default=OWNERS, choices=OWNERS)
    parser.add_argument("--added-error", type=float, help="only this one")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--effort", choices=("quick", "full"), default="quick")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    options = parser.parse_args()
    done = rows(options.rows)
    key = list(Cell.__dataclass_fields__)
    there = {tuple(row) for row in done[key].itertuples(index=False)}
    for cell in () if options.page else cells(options):
        if tuple(vars(cell).values()) not in there:
            row = run(cell)
            append(options.rows, row)
            print(*(f"{row[name]}" for name in key), f"MAE {row['mae']:.4g}",
                  f"{row['seconds']:.0f} s", flush=True)  # fmt: skip
    if options.rows == ROWS:
        done = rows(options.rows)
        draw(done, ROWS.parent / "frontier.svg")
        (DOCS / "frontier.md").write_text(page(done), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
