"""The paper's own figures beside what its protocol reaches here: tables and figure of a page.

The rows come from ``flfl-bench run experiments/reproduction.toml``; nothing is run here. Each table
of the page stands between ``<!-- name -->`` and ``<!-- end -->``, and is written anew.

    python bench/benchmarks/reproduction.py                              # from the rows in docs
    python bench/benchmarks/reproduction.py --rows reproduction/rows.parquet
    python bench/benchmarks/reproduction.py --rank                       # prints the rank bound
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flfl.datasets.catalogue import load_dataset
from flfl.paper.scaling import Scaling
from flfl.report.content import figure
from flfl_bench import figures, statistics
from flfl_bench.paper import DATA, printed
from flfl_bench.store import read_rows
from flfl_bench.tables import Grid, percent

DOCS = Path(__file__).parents[2] / "docs"
PAGE, FOLDER = DOCS / "reproduction.md", DOCS / "results" / "reproduction"
OURS = "flfl-paper"
BASELINES = ["rfrec", "fesog", "fedmf", "fedrec++", "metamf"]
CHANGES = ["known entries only", "rank 10", "no momentum", "four regions"]
SMOOTHNESS = {
    "no smoothness": "none", "spatial only": "spatial", "temporal only": "temporal", OURS: "both",
}  # fmt: skip
METRICS = ("mae", "rmse")
Rows = pd.DataFrame
Case = tuple[str, float]


def cases(rows: Rows) -> Iterator[tuple[Case, Rows]]:
    """Data set and rate, in the paper's order, and the rows of all methods there."""
    for (name, rate), group in rows.groupby(["data", "rate"], sort=True):
        yield (str(name), float(rate)), group


def means(rows: Rows, label: str, *, spread: bool = False) -> str:
    """MAE / RMSE, means over the masks, perhaps with their deviations."""
    own = rows[rows["label"] == label]
    shown = []
    for metric in METRICS:
        deviation = f" ± {figure(own[metric].std(), 1)}" if spread else ""
        shown.append(figure(own[metric].mean(), 3) + deviation)
    return " / ".join(shown)


def cells(rows: Rows) -> Grid:
    """Every cell of the paper's table: its figure, ours, and what needs no federation."""
    lines = []
    for case, group in cases(rows):
        theirs = printed()[(*case, "flfl")]
        own = group[group["label"] == OURS]
        change = " / ".join(
            percent(own[m].mean() / value - 1) for m, value in zip(METRICS, theirs, strict=True)
        )
        line = [DATA[case[0]], f"{case[1]:g}", " / ".join(map(figure, theirs))]
        line += [means(group, OURS, spread=True), change]
        lines.append(line + [means(group, label) for label in ("as printed", "linear", "alone")])
    header = ["data", "rate", "printed", "`flfl-paper`", "difference", '`rule="paper"`']
    return Grid("", [*header, "`linear`", "`alone`"], lines)


def changes(rows: Rows) -> Grid:
    """What each thing that decides is worth, on the masks that all have."""
    table = statistics.paired_scores(rows[rows["label"].isin([OURS, *CHANGES])])
    share = table[CHANGES].div(table[OURS], axis=0) - 1
    lines = []
    for name, short in DATA.items():
        own = share.xs(name).sort_index()
        lines.append([short, *(" / ".join(f"{v:+.0%}"[:-1] for v in own[c]) for c in CHANGES)])
    lines.append(["median", *(f"{share[c].median():+.0%}"[:-1] for c in CHANGES)])
    return Grid("", ["data", *CHANGES], lines)


def as_it_should_be(rows: Rows) -> tuple[Grid, str]:
    """The 12 cases once, all tests at once corrected, and what each sensor can do alone."""
    others = [*BASELINES, "linear", "alone"]
    table = statistics.scores(rows[rows["label"].isin([OURS, *others])])
    ranking = statistics.rank(table)
    assert ranking is not None
    lines = [
        [
            f"`{c.label}`",
            f"{c.wins}/{c.losses}",
            figure(c.p_value, 2),
            figure(c.holm, 2),
            f"{c.rank_biserial:+.2f}",
            percent(c.relative, 0),
            f"{ranking.ranks[c.label]:.2f}",
        ]
        for c in statistics.compare(table, OURS)
    ]
    lines.append([f"`{OURS}`", *[""] * 5, f"{ranking.ranks[OURS]:.2f}"])
    header = ["against", "win/loss of 12", "p (Wilcoxon)", "p (Holm)", "effect", "median MAE"]
    said = (
        f"Friedman's test over {ranking.cases} cases: p = {figure(ranking.p_value, 2)}; mean ranks"
        f" closer than {ranking.critical_difference:.2f} are not told apart (Nemenyi)."
    )
    return Grid("", [*header, "mean rank"], lines), said


def ablation(rows: Rows) -> Grid:
    """The paper's ablation: MAE at its rate, and the change against both terms."""
    table = statistics.scores(rows[(rows["rate"] == 0.1) & rows["label"].isin(SMOOTHNESS)])
    lines = []
    for (name, *_), line in sorted(table.iterrows(), key=lambda one: one[0]):
        shown = [
            f"{figure(line[c], 3)} ({percent(line[c] / line[OURS] - 1, 0)})" for c in SMOOTHNESS
        ]
        lines.append([DATA[name], *shown[:-1], figure(line[OURS], 3)])
    return Grid("", ["data", *SMOOTHNESS.values()], lines)


def ablation_figure(rows: Rows) -> figures.Picture:
    """The same as bars, a panel for each data set."""
    own = rows[(rows["rate"] == 0.1) & rows["label"].isin(SMOOTHNESS)]
    colours = [*figures.COLOURS[:3], figures.OUR_COLOUR]

    def draw(picture: Any) -> None:
        axes = picture.subplots(1, len(DATA))
        for axis, (name, short) in zip(axes, DATA.items(), strict=True):
            masks = own[own["data"] == name].groupby("label")["mae"]
            mean, spread = (
                found.reindex(list(SMOOTHNESS)) for found in (masks.mean(), masks.std())
            )
            axis.bar(range(4), mean, yerr=spread, color=colours, width=0.8, error_kw={"lw": 0.7})
            axis.set_title(short)
            axis.set_xticks(range(4), SMOOTHNESS.values(), rotation=90)
        axes[0].set_ylabel("MAE")

    return figures.Picture("ablation", "", draw, 1.7)


def rank_bound() -> Grid:
    """MAE of the best fit of rank 10, 20 and 30 to *all* readings, hidden ones included."""
    lines = []
    for name, short in DATA.items():
        Y = load_dataset(name)[0].values.to_numpy().T
        scaling, known = Scaling.fit(Y), ~np.isnan(Y)
        Z, found = np.where(known, scaling.apply(Y), 0.0), []
        for k in (10, 20, 30):
            X = np.zeros_like(Z)
            for _ in range(200):  # fill in, cut the singular values, again
                U, s, V = np.linalg.svd(np.where(known, Z, X), full_matrices=False)
                X = (U[:, :k] * s[:k]) @ V[:k]
            found.append(figure(float(np.abs(scaling.undo(X) - Y)[known].mean()), 3))
        lines.append([short, str(len(Y)), *found, figure(printed()[name, 0.9, "flfl"].mae)])
    return Grid("", ["data", "sensors", "rank 10", "rank 20", "rank 30", "printed at 0.9"], lines)


def fill(page: str, name: str, content: str) -> str:
    """The page with what stands between a marker and its end written anew."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    found, times = re.subn(pattern, lambda m: f"{m[1]}{content}\n{m[2]}", page, flags=re.DOTALL)
    if times != 1:
        raise SystemExit(f"the page has {times} places for {name}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=FOLDER / "rows.parquet")
    parser.add_argument("--rank", action="store_true", help="compute the rank bound from the data")
    arguments = parser.parse_args()
    if arguments.rank:
        print(rank_bound().markdown())
        return
    rows, _ = read_rows(arguments.rows)
    proper, said = as_it_should_be(rows)
    page = PAGE.read_text(encoding="utf-8")
    for table in (cells, changes, ablation):
        page = fill(page, table.__name__, table(rows).markdown())
    page = fill(page, as_it_should_be.__name__, f"{proper.markdown()}\n\n{said}")
    PAGE.write_text(page, encoding="utf-8")
    for kind in ("svg", "png"):
        drawn = figures.render(ablation_figure(rows), kind)
        (FOLDER / f"ablation.{kind}").write_bytes(drawn)


if __name__ == "__main__":
    main()
