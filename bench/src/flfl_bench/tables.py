"""Tables of an experiment, in Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from flfl.report.content import figure
from flfl_bench import owners, paper, statistics
from flfl_bench.exposure import READERS
from flfl_bench.statistics import CASE, half_width

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Grid:
    """A table of texts. A text between stars is set bold."""

    title: str
    header: Sequence[str]
    rows: Rows

    def markdown(self) -> str:
        """Markdown, its title above.

        Examples
        --------
        >>> print(Grid("", ("method", "MAE"), [("flfl", "*0.1*")]).markdown())
        | method | MAE |
        |---|---|
        | flfl | **0.1** |
        """
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        for row in self.rows:
            cells = (_BOLD.sub(r"**\1**", cell).replace("|", "\\|") for cell in row)
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def latex(self) -> str:
        """LaTeX with the rules of the package ``booktabs``."""
        header, *body = (" & ".join(map(_latex, row)) + r" \\" for row in (self.header, *self.rows))
        columns = "l" + "r" * (len(self.header) - 1)
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(self.title)}}}"]
        lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule", *body]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


_records: Callable[[pd.DataFrame], Iterator[Any]] = pd.DataFrame.itertuples
"""The rows one by one, columns as attributes."""
_BOLD = re.compile(r"^\*(.+)\*$")
_SPECIAL = {c: f"\\{c}" for c in "&%#_{}$"} | {
    "±": r"$\pm$",
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def _latex(text: str) -> str:
    bold = _BOLD.match(text)
    plain = "".join(_SPECIAL.get(c, c) for c in (bold.group(1) if bold else text))
    return rf"\textbf{{{plain}}}" if bold else plain


def percent(share: float, digits: int = 1) -> str:
    """A change in per cent with its sign, such as ``+25.0 %``."""
    return f"{100 * share:+.{digits}f} %" if np.isfinite(share) else "-"


def short(name: str) -> str:
    """The paper's name of a data set where it has one."""
    return paper.DATA.get(name, name)


def accuracy(rows: pd.DataFrame, metric: str) -> Iterator[Grid]:
    """One table for each data set and pattern: methods x rates, mean and half of its interval."""
    for (data, pattern), group in rows.groupby(["data", "pattern"], sort=False):
        rates = sorted(group["rate"].unique())
        means = statistics.scores(group, metric).droplevel(["data", "pattern"])
        best = means.min(axis=1)
        order = means.rank(axis=1).mean().sort_values(kind="stable").index
        lines = []
        for label in order:
            own = group[group["label"] == label]
            cells = [_cell(own[own["rate"] == rate], metric, best[rate]) for rate in rates]
            lines.append([str(label), str(own["seed"].nunique()), *cells])
        title = f"{short(str(data))}, {pattern}: {metric.upper()}"
        yield Grid(title, ["method", "seeds", *(f"{rate:g}" for rate in rates)], lines)


def _cell(own: pd.DataFrame, metric: str, best: float) -> str:
    if own.empty:
        return ""
    if own["failed"].notna().any():
        return f"failed ({int(own['failed'].notna().sum())} of {len(own)})"
    mean, half = float(own[metric].mean()), half_width(own[metric])
    text = figure(mean) + (f" ± {figure(half, 2)}" if np.isfinite(half) else "")
    # Two ways of adding up the same seeds may differ in the last bit.
    return f"*{text}*" if mean <= best * (1 + 1e-12) else text


def comparisons(rows: pd.DataFrame, ours: str, metric: str) -> Grid:
    """Our method against every other one, case by case."""
    lines = [
        [
            one.label,
            f"{one.wins}/{one.losses}" + (f"/{one.ties}" if one.ties else ""),
            f"{one.data_wins}/{one.data_losses}",
            figure(one.p_value, 2),
            figure(one.holm, 2),
            f"{one.rank_biserial:+.2f}",
            percent(one.relative),
        ]
        for one in statistics.compare(statistics.paired_scores(rows, metric), ours)
    ]
    header = [
        "against",
        "wins/losses",
        "data sets",
        "p (Wilcoxon)",
        "p (Holm)",
        "effect",
        f"median {metric}",
    ]
    return Grid(f"{ours} against the others: {metric.upper()}", header, lines)


def ranking(rows: pd.DataFrame, metric: str) -> Grid | None:
    """Friedman's mean ranks."""
    found = statistics.rank(statistics.paired_scores(rows, metric))
    if found is None:
        return None
    lines = [[label, f"{value:.2f}"] for label, value in found.ranks.items()]
    title = (
        f"Mean ranks of {metric.upper()} over {found.cases} cases (Friedman p = "
        f"{figure(found.p_value, 2)}; critical difference {found.critical_difference:.2f})"
    )
    return Grid(title, ["method", "mean rank"], lines)


def parts(rows: pd.DataFrame) -> Iterator[tuple[str, Grid]]:
    """What leaving out a part changes: each method that has variants, and its table."""
    for method, group in rows.groupby("method", sort=False):
        table = statistics.scores(group)
        if str(method) not in table.columns or table.shape[1] < 2:
            continue
        # Against a whole that failed nothing has changed by any share.
        change = table.div(table[str(method)].replace(np.inf, np.nan), axis=0) - 1
        header = ["variant", *(f"{short(d)} {p} {r:g}" for d, p, r in table.index), "mean"]
        lines = [
            [
                str(label),
                *(
                    f"{figure(value)} ({percent(share)})" if np.isfinite(value) else "-"
                    for value, share in zip(table[label], change[label], strict=True)
                ),
                percent(float(change[label].mean())),
            ]
            for label in table.columns
        ]
        yield str(method), Grid(f"{method}: MAE (change)", header, lines)


def exposure(rows: pd.DataFrame) -> Iterator[Grid]:
    """Error, and what the audit's readers got, one table for each data set."""
    for data, group in rows[rows["readings_exposed"].notna()].groupby("data", sort=False):
        lines = [
            [
                _OWNERS.get(row.owners, row.owners),
                row.label,
                figure(row.mae),
                percent(row.mae / row.alone_mae - 1, 0) if row.alone_mae > 0 else "",
                *(
                    f"{worst:.2f} / {median:.2f}" if np.isfinite(worst) else ""
                    for worst, median in (
                        (getattr(row, f"{reader}_worst"), getattr(row, f"{reader}_median"))
                        for reader in READERS
                    )
                ),
                f"{100 * row.readings_exposed:.1f} %",
            ]
            for row in _records(group)
        ]
        header = ["owners", "configuration", "MAE", "against alone", "coordinator"]
        header += ["everybody else", "one reading", "readings met"]
        yield Grid(short(str(data)), header, lines)


_OWNERS = {None: "regions", "1": "single sensors", "given": "agencies"}


def beside(rows: pd.DataFrame) -> Grid:
    """Error, time and memory of every method in one table, the least error first."""
    table = statistics.paired_scores(rows)
    ratio = table.div(table[statistics.OURS].replace(np.inf, np.nan), axis=0)
    # Over the cases that a method has: a slow one was run on fewer.
    relative = np.exp(np.log(ratio.replace(np.inf, np.nan)).mean()).sort_values(kind="stable")
    cost = rows[rows["failed"].isna()].groupby("label")[["cpu_seconds", "peak_mb"]].median()
    best = table.min(axis=1)
    lines = [
        [
            str(label),
            *(_score(table.loc[case, label], best[case]) for case in table.index),
            percent(relative[label] - 1, 0),
            str(int(np.isfinite(table[label]).sum())),
            *(figure(cost[name].get(label, np.nan), 3) for name in ("cpu_seconds", "peak_mb")),
        ]
        for label in relative.index
    ]
    header = ["method", *(f"{short(d)} {p} {r:g}" for d, p, r in table.index)]
    header += ["against flfl", "cases", "CPU s", "peak MB"]
    return Grid("MAE, time and memory", header, lines)


def _score(value: float, best: float) -> str:
    if np.isnan(value):
        return ""
    text = figure(value) if np.isfinite(value) else "failed"
    return f"*{text}*" if value == best else text


GAPS = {"half missing": ("random", "block"), "outages": ("outage",)}
"""Patterns that are judged together."""


def ownership(rows: pd.DataFrame) -> Iterator[Grid]:
    """What federation is worth to owners, by how many sensors they have; where it is worth less
    than nothing."""
    pairs = owners.paired(rows)
    data = list(dict.fromkeys(pairs["data"]))
    for gaps, patterns in GAPS.items():
        part = pairs[pairs["pattern"].isin(patterns)]
        lines = [
            _worth_line(kind, str(label), group, patterns, data)
            for label, own in part.groupby("label", sort=False)
            for kind, group in owners.kinds(own)
            if not group.empty
        ]
        if lines:
            header = ["owners", "configuration", "lower than alone", "pooled", "closed (95 %)"]
            told = patterns if len(patterns) > 1 else ()
            yield Grid(f"Closed, {gaps}", [*header, *told, *map(short, data)], lines)
    lines = [
        [
            short(row.data),
            row.owners,
            f"{row.pattern} {row.rate:g}",
            str(row.masks),
            row.label,
            percent(row.change),
        ]
        for row in _records(owners.below_alone(pairs))
    ]
    title = f"Above the owners alone: {len(lines)} of {len(owners.cells(pairs))} cells"
    yield Grid(title, ["data", "owners", "gaps", "masks", "configuration", "MAE"], lines)


def _worth_line(
    kind: str, label: str, group: pd.DataFrame, patterns: Sequence[str], data: Sequence[str]
) -> list[str]:
    found = owners.worth(group)
    assert found is not None
    low, high = (100 * end for end in found.intervals[-1])
    reach = f" ({low:.0f} to {high:.0f})" if np.isfinite(low) else ""
    each = [found.by_pattern.get(name) for name in patterns if len(patterns) > 1]
    each += [found.by_data.get(name) for name in data]
    return [
        kind,
        label,
        percent(found.gain).lstrip("+"),
        percent(found.pooled_gain).lstrip("+"),
        _whole(found.closed) + reach,
        *("" if one is None else _whole(one) for one in each),
    ]


def _whole(share: float) -> str:
    return f"{100 * share:.0f} %" if np.isfinite(share) else "-"


def timings(rows: pd.DataFrame) -> Grid:
    """What a fit takes and moves, medians over all rows of a method."""
    fine = rows[rows["failed"].isna()]
    middle = fine.groupby("label", sort=False)[
        ["seconds", "tuning_seconds", "cpu_seconds", "peak_mb", "rounds", "bytes_up", "bytes_down"]
    ].median()
    lines = [
        [
            str(label),
            *(figure(row[name], 3) for name in ("seconds", "tuning_seconds", "cpu_seconds")),
            figure(row["peak_mb"], 3),
            figure(row["rounds"], 3),
            *(figure(row[name] / 1e6, 3) for name in ("bytes_up", "bytes_down")),
        ]
        for label, row in middle.iterrows()
    ]
    header = ["method", "s", "tuning s", "CPU s, all", "peak MB", "rounds", "MB up", "MB down"]
    return Grid("Medians over all cells", header, lines)


def growth(rows: pd.DataFrame) -> Grid:
    """Time, memory and traffic by size."""
    lines = [
        [
            row.label,
            str(row.sensors),
            str(row.slots),
            figure(row.mae),
            figure(row.cpu_seconds, 3),
            figure(row.peak_mb, 3),
            figure((row.bytes_up + row.bytes_down) / 1e6, 3),
        ]
        for row in _records(rows[rows["failed"].isna()])
    ]
    return Grid(
        "Growth", ["method", "sensors", "slots", "MAE", "CPU s", "peak MB", "MB moved"], lines
    )


def failures(rows: pd.DataFrame) -> Grid | None:
    """Cells without scores, and why; None where there are none."""
    lost = rows[rows["failed"].notna()]
    if lost.empty:
        return None
    lines = [
        [row.label, *(str(getattr(row, name)) for name in (*CASE, "seed")), row.failed]
        for row in _records(lost)
    ]
    return Grid("Cells that failed", ["method", *CASE, "seed", "reason"], lines)
