"""The page of results, made from the rows of several experiments without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from flfl.errors import InputError
from flfl.io.atomic import Writer
from flfl_bench.figures import Picture
from flfl_bench.headline import headline
from flfl_bench.report import drawings, sections, text_writer, write_all
from flfl_bench.store import read_rows


@dataclass
class Page:
    """A Markdown file, and a folder of its name with the figures."""

    out: Path
    draw: bool = True
    writers: dict[Path, Writer] = field(default_factory=dict)

    def write(self, files: Sequence[Path]) -> list[Path]:
        """Write the page and its figures beside it, in a folder of its name."""
        self.writers[self.out] = text_writer(self.text(files))
        return write_all(self.writers)

    def text(self, files: Sequence[Path]) -> str:
        """The page in Markdown; its figures are noted to be written."""
        found = [(path, *read_rows(path)) for path in files]
        # The table of all methods comes first: the headline is taken from it.
        found.sort(key=lambda one: ("paper" not in one[2]["views"], one[0].stem))
        lines = ["# Results", "", *self._top(found)]
        for path, rows, about in found:
            lines += self._experiment(path, rows, about)
        return "\n".join(lines).rstrip() + "\n"

    def _top(self, found: Sequence[tuple[Path, pd.DataFrame, dict[str, Any]]]) -> list[str]:
        path, rows, _ = found[0]
        lines = [line for sentence in headline(rows) for line in (sentence, "")]
        folder = path.parent.as_posix()
        lines += [
            f"This page is made from the rows in `{folder}/*.parquet` by"
            f" `flfl-bench results {folder}"
            f" --out {self.out.as_posix()}`; `docs/benchmark.md` says how such rows are made.",
            "",
        ]
        return lines

    def _experiment(self, path: Path, rows: pd.DataFrame, about: dict[str, Any]) -> list[str]:
        lines = [f"## {about['title']}", "", _provenance(path, rows, about), ""]
        for section in sections(rows, about["views"]):
            lines += [f"### {section.title}", ""]
            if section.words:
                lines += [section.words.strip(), ""]
            for picture in section.pictures:
                folder = self.out.with_suffix("") / path.stem
                lines += [
                    f"![{picture.caption}]({self._link(folder, picture)})",
                    "",
                ]
                lines += [f"*{picture.caption}.*", ""]
            if self.draw:
                self.writers |= drawings(self.out.with_suffix("") / path.stem, section.pictures)
            for grid in section.grids:
                lines += [grid.markdown(), ""]
        return lines

    def _link(self, folder: Path, picture: Picture) -> str:
        return f"{folder.relative_to(self.out.parent).as_posix()}/{picture.name}.png"


def _provenance(path: Path, rows: pd.DataFrame, about: dict[str, Any]) -> str:
    """Command, machine, versions, and how many seeds."""

    def each(name: str) -> str:
        return ", ".join(str(value) for value in dict.fromkeys(rows[name].dropna()))

    hours = float(rows["cpu_seconds"].sum()) / 3600
    return (
        f"`flfl-bench run experiments/{about['name']}.toml --out {path.stem}`, rows in"
        f" `{path.as_posix()}`: {len(rows)} cells, {hours:.1f} processor hours, on"
        f" {each('cores')} cores ({each('cpu')}), one BLAS thread a process;"
        f" flfl {each('flfl')}, numpy {each('numpy')}, scipy {each('scipy')},"
        f" Python {each('python')}."
    )


def find_rows(folder: Path) -> list[Path]:
    """The Parquet files of a folder; of one that `flfl-bench run` made, its rows."""
    if (folder / "rows.parquet").is_file():
        return [folder / "rows.parquet"]
    found = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not found:
        raise InputError("there are no rows", where=str(folder), remedy="Copy a rows.parquet there")
    return found
