"""Tables and figures of an experiment, and the page of several.

``tables/`` and ``figures/`` hold what is the same in every run of the same experiment; what
tells of one run on one machine goes to ``timings/``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from flfl.errors import InputError
from flfl.io.files import Writer, write_files
from flfl_bench import figures, tables
from flfl_bench.figures import Picture
from flfl_bench.owners import POOLED
from flfl_bench.sentences import beside, gained, protected
from flfl_bench.statistics import OURS
from flfl_bench.store import content_writer, read_rows
from flfl_bench.tables import Grid

SECTIONS = (
    "accuracy", "statistics", "parts", "exposure", "owners", "peers", "bytes", "timings",
    "scaling", "failures",
)  # fmt: skip
"""Every name that a section may have."""
LISTED = ["label", "data", "pattern", "rate", "seed", "mae", "rmse"]
INTERVALS = (
    "Means over seeds, with half of the 95 % interval of the mean (Student's t; wide with two"
    " seeds, since two seeds say little). Bold: the least of its column."
)
OWNERS = (
    "Closed: the share of what pooling all readings would gain over each owner alone that flfl"
    " gains, (alone - flfl) / (alone - pooled). Errors are summed over the sensors and masks of a"
    " case (a data set and a pattern), divided by those of the owners alone, and averaged over the"
    " cases before one is divided by the other; a mean of single ratios would run away where"
    " pooling gains next to nothing. In brackets: 95 % of 2,000 bootstrap draws of the sensors"
    " within their data sets. Further columns: the same for one pattern or data set; - where"
    " pooling gains nothing, far beyond 100 % where it gains little. Pooled is the same method"
    " with one owner, and no upper bound: in blocks the shared model is often the better one, and"
    " another method that pools, such as kalman-em on D2, may be better than both."
)
EXPOSURE = (
    "What is read: R^2 of a sensor's residual, what no other sensor predicts of it, by the best"
    " attack of the coordinator alone, of everybody else together (slow parts included), and of"
    " somebody who knows all but one reading, whose bound in the mean over readings is 1 / (1 +"
    " beta^2) at an added error of beta. Worst / median sensor. Readings met: guessed within a"
    " hundredth of the sensor's standard deviation."
)
PEERS = (
    "MAE of each case, mean over seeds; against flfl: geometric mean over the cases that a method"
    " was run on. Processor seconds with tuning, and the most memory above the start: medians of"
    " the cases, one thread, no graphics card."
)
STATISTICS = (
    "Cases are a data set, a pattern and a rate; seeds of a case are averaged first, those that all"
    " methods of the case have. Data sets: won and lost, by the geometric mean over their cases. p:"
    " two-sided Wilcoxon signed-rank test of the logarithms of their error over ours, so that no"
    " data set counts more for its units; Holm: corrected for all comparisons here. Effect:"
    " matched-pairs rank-biserial correlation, 1 where we always win. Median: of our error over"
    " theirs, less 1. Cases of one data set are not independent: these p-values are too small, and"
    " with so few data sets no test over them alone could be significant."
)


@dataclass(frozen=True)
class Section:
    """A part of the report: tables and figures on one question.

    Attributes
    ----------
    name : of its files
    timed : whether it differs from run to run
    """

    name: str
    title: str
    words: str = ""
    grids: Sequence[Grid] = ()
    pictures: Sequence[Picture] = ()
    timed: bool = False


def sections(rows: pd.DataFrame, views: Sequence[str]) -> Iterator[Section]:
    """What the views of an experiment ask for, in the order in which it is read."""
    if rows.empty:
        return
    if OURS not in set(rows.loc[rows["failed"].isna(), "label"]):
        # A piece of an experiment: nothing to compare the others with yet.
        views = [view for view in views if view in ("rates", "scaling")]
    drawn = [figures.rates(rows, p) for p in rows["pattern"].unique()] if "rates" in views else []
    if not {"parts", "exposure", "scaling", "owners", "peers"} & set(views):
        grids = [g for metric in ("mae", "rmse") for g in tables.accuracy(rows, metric)]
        yield Section("accuracy", "Accuracy", INTERVALS, grids, drawn)
    if "ranks" in views:
        yield _ranks(rows)
    if "parts" in views:
        found = dict(tables.parts(rows))
        drawn = [figures.parts(rows, method) for method in found]
        if found:
            yield Section("parts", "Each part off in turn", "", list(found.values()), drawn)
    if "exposure" in views and rows["everybody_median"].notna().any():
        drawn, grids = [figures.exposure(rows)], list(tables.exposure(rows))
        yield Section("exposure", "Error and what is read", EXPOSURE, grids, drawn)
    if "peers" in views:
        yield Section("peers", "Error, time and memory", PEERS, [tables.beside(rows)], timed=True)
    if "owners" in views and POOLED in set(rows["label"]):
        drawn = figures.ownership(rows) + figures.protection(rows)
        yield Section("owners", "What owners gain", OWNERS, list(tables.ownership(rows)), drawn)
    if "bytes" in views and (rows["bytes_up"] > 0).any():
        yield Section("bytes", "Traffic", pictures=[figures.against(rows, "bytes")])
    yield from _timed(rows, views)
    lost = tables.failures(rows)
    if lost is not None:
        yield Section("failures", "What failed", "", [lost])


def _ranks(rows: pd.DataFrame) -> Section:
    grids = [tables.comparisons(rows, OURS, metric) for metric in ("mae", "rmse")]
    ranks = [tables.ranking(rows, metric) for metric in ("mae", "rmse")]
    picture = figures.ranks(rows)
    return Section(
        "statistics",
        "Statistics",
        STATISTICS,
        grids + [grid for grid in ranks if grid is not None],
        [] if picture is None else [picture],
    )


def _timed(rows: pd.DataFrame, views: Sequence[str]) -> Iterator[Section]:
    drawn = [figures.against(rows, "seconds")] if "seconds" in views else []
    yield Section("timings", "Time", "", [tables.timings(rows)], drawn, timed=True)
    if "scaling" in views:
        yield Section(
            "scaling", "Growth", "", [tables.growth(rows)], [figures.scaling(rows)], timed=True
        )


def write_report(folder: Path, rows_path: Path, *, draw: bool = True) -> list[Path]:
    """Write the tables and figures of one experiment below a folder; returns their paths."""
    rows, about = read_rows(rows_path)
    writers: dict[Path, Writer] = {folder / "tables" / "rows.csv": _text(listing(rows))}
    for section in sections(rows, about["views"]):
        place = folder / ("timings" if section.timed else "tables")
        if section.grids:
            writers[place / f"{section.name}.md"] = _text(_markdown(section))
            latex = "\n\n".join(grid.latex() for grid in section.grids)
            writers[place / f"{section.name}.tex"] = _text(latex + "\n")
        if draw:
            where = folder / ("timings" if section.timed else "figures")
            writers |= _drawings(where, section.pictures)
    written = _write_all(writers)
    _remove_old_tables(folder, written)
    return written


def _remove_old_tables(folder: Path, written: Sequence[Path]) -> None:
    """What an earlier report said and this one does not: cells that have failed, for one."""
    for place, name, kind in product(("tables", "timings"), SECTIONS, ("md", "tex")):
        path = folder / place / f"{name}.{kind}"
        if path not in written:
            path.unlink(missing_ok=True)


def listing(rows: pd.DataFrame) -> str:
    """Scores cell by cell, for a test that notices when they change."""
    return rows[LISTED].to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _markdown(section: Section) -> str:
    parts = [f"# {section.title}", section.words.strip()]
    parts += [grid.markdown() for grid in section.grids]
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(content: str) -> Writer:
    return content_writer(content.encode("utf-8"))


def _drawings(
    folder: Path, pictures: Sequence[Picture], kinds: Sequence[str] = ("png", "svg")
) -> dict[Path, Writer]:
    """The files of figures."""
    return {
        folder / f"{picture.name}.{kind}": content_writer(figures.render(picture, kind))
        for picture in pictures
        for kind in kinds
    }


def _write_all(writers: dict[Path, Writer]) -> list[Path]:
    """Write files, their folders first; all of them or none."""
    for folder in {path.parent for path in writers}:
        folder.mkdir(parents=True, exist_ok=True)
    write_files(writers)
    return list(writers)


def write_page(out: Path, files: Sequence[Path]) -> list[Path]:
    """Write the page of several experiments; tables and figures go to a folder of its name."""
    writers = {path: _text(content) for path, content in pages(out, files).items()}
    for path in files:
        rows, about = read_rows(path)
        shown = [picture for _, pictures in _lead(path, rows, about) for picture in pictures]
        for section in sections(rows, about["views"]):
            shown += section.pictures
        writers |= _drawings(out.with_suffix("") / path.stem, shown, ["png"])
    return _write_all(writers)


def pages(out: Path, files: Sequence[Path]) -> dict[Path, str]:
    """The page in Markdown and one for the tables of each experiment, made from rows alone."""
    found = [(path, *read_rows(path)) for path in files]
    # What leads the page comes first.
    first = ("owners", "exposure", "peers", "ranks")
    found.sort(key=lambda one: ([view not in one[2]["views"] for view in first], one[0].stem))
    folder = found[0][0].parent.as_posix()
    lines, listed = ["# Results", ""], []
    for path, rows, about in found:
        for sentence, pictures in _lead(path, rows, about):
            lines += [sentence, ""]
            lines += [line for one in pictures for line in _shown(f"{out.stem}/{path.stem}", one)]
        listed.append(f"| [{about['title']}]({out.stem}/{path.stem}.md) | {_size(rows, about)} |")
    lines += ["## All tables", "", "| experiment | cells |", "|---|---|", *listed, ""]
    lines += [
        "Where a number of cells is given as a part, the others have not been run yet. Each page"
        " names the version and the commit that its rows come from."
        f" These pages are made from the rows in `{folder}/*.parquet` by `flfl-bench results"
        f" {folder} --out {out.as_posix()}`; the page on benchmarks says how rows are made."
    ]
    place = out.with_suffix("")
    written = {place / f"{path.stem}.md": _tables(path, rows, about) for path, rows, about in found}
    return {out: "\n".join(lines).rstrip() + "\n"} | written


def _tables(path: Path, rows: pd.DataFrame, about: dict[str, Any]) -> str:
    """The page of one experiment."""
    lines = [f"# {about['title']}", "", _provenance(path, rows, about), ""]
    for section in sections(rows, about["views"]):
        lines += [f"## {section.title}", ""]
        if section.words:
            lines += [section.words.strip(), ""]
        for picture in section.pictures:
            lines += _shown(path.stem, picture)
        for grid in section.grids:
            lines += [grid.markdown(), ""]
    return "\n".join(lines).rstrip() + "\n"


def _shown(folder: str, picture: Picture) -> list[str]:
    return [f"![{picture.caption}]({folder}/{picture.name}.png)", "", f"*{picture.caption}.*", ""]


Lead = tuple[str, Sequence[Picture]]


def _lead(path: Path, rows: pd.DataFrame, about: dict[str, Any]) -> list[Lead]:
    """Sentences, each with its figure and the command that made its rows."""
    told: list[Lead] = []
    if "owners" in about["views"]:
        told.append((gained(rows), figures.ownership(rows)))
        told.append((protected(rows), figures.protection(rows)))
    if "peers" in about["views"]:
        told.append((beside(rows), [figures.against(rows, "seconds")]))
    command = f"`flfl-bench run experiments/{about['name']}.toml --out {path.stem}`"
    return [(f"{words} ({command})", shown) for words, shown in told if words and shown]


def _size(rows: pd.DataFrame, about: dict[str, Any]) -> str:
    total = about.get("cells", len(rows))
    return f"{len(rows)} of {total}" if total > len(rows) else f"{len(rows)}"


def _provenance(path: Path, rows: pd.DataFrame, about: dict[str, Any]) -> str:
    """Command, machine, versions."""

    def each(name: str) -> str:
        return ", ".join(str(value) for value in dict.fromkeys(rows[name].dropna())) or "unknown"

    hours = float(rows["cpu_seconds"].sum()) / 3600
    return (
        f"`flfl-bench run experiments/{about['name']}.toml --out {path.stem}`, rows in"
        f" `{path.as_posix()}`: {_size(rows, about)} cells, {hours:.1f} processor hours, on"
        f" {each('cores')} cores ({each('cpu')}), one BLAS thread a process;"
        f" flfl {each('flfl')} (commit {each('commit')}), numpy {each('numpy')}, scipy"
        f" {each('scipy')}, Python {each('python')}."
    )


def find_rows(folder: Path) -> list[Path]:
    """The Parquet files of a folder; of one that `flfl-bench run` made, its rows."""
    if (folder / "rows.parquet").is_file():
        return [folder / "rows.parquet"]
    found = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not found:
        raise InputError("there are no rows", where=str(folder), remedy="Copy a rows.parquet there")
    return found
