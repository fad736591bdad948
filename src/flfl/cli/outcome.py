"""What a recovery leaves behind: files, and a few lines for a person or one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from flfl.baselines import find
from flfl.cli.say import print_json, table_lines
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.data.write import check_outputs, check_writable, write_result
from flfl.recovery import GapScore, Recovery
from flfl.recovery.scores import ALONE, SITE
from flfl.recovery.verdict import span
from flfl.report import SUFFIXES, check_report_extra, write_page
from flfl.report.words import count, figure, what_left

_WAYS = {
    "alone": "each sensor alone (pchip)",
    "linear": "each sensor alone (linear)",
    "site": "each site alone (nothing shared)",
}


@dataclass(frozen=True)
class Outputs:
    """Where the results go."""

    filled: Path | None
    flags: Path | None = None
    page: Path | None = None

    def check(self, inputs: Iterable[Path] = ()) -> None:
        """Refuse what cannot be written, before minutes of work."""
        given = list(inputs)
        check_outputs(self.filled, self.flags, inputs=given)
        if self.page is not None:
            check_writable(self.page, inputs=given, suffixes=SUFFIXES)
            check_report_extra()

    def write(
        self,
        result: Recovery,
        table: Table,
        sensors: Sensors,
        settings: Mapping[str, object],
        title: str = "",
    ) -> None:
        """Write the filled table and, if wanted, the flags and the page."""
        write_result(
            self.filled,
            self.flags,
            table,
            result.values,
            result.flags,
            result.lower,
            result.upper,
            result.provenance,
            sensors,
        )
        if self.page is not None:
            write_page(self.page, result, table, sensors, settings, title=title)

    def as_dict(self) -> dict[str, str | None]:
        """The names, for JSON."""
        named = {"out": self.filled, "flags": self.flags, "report": self.page}
        return {name: None if path is None else str(path) for name, path in named.items()}

    def sentences(self) -> Iterator[str]:
        """The names, for a person."""
        yield f"Filled table: {self.filled}"
        if self.flags is not None:
            yield f"Every value with its flag and interval: {self.flags}"
        if self.page is not None:
            yield f"The page to look at: {self.page}"


def say(result: Recovery, outputs: Outputs, as_json: bool, title: str = "") -> None:
    """Say what was done, and where it is."""
    if as_json:
        print_json(result.summary() | outputs.as_dict())
        return
    if title:
        click.echo(title)
    for line in (*_sentences(result), *outputs.sentences()):
        click.echo(line)


def _sentences(result: Recovery) -> Iterator[str]:
    """The run in a few lines for a person."""
    summary = result.summary()
    yield from (f"Note: {note}" for note in summary["notes"])
    yield (
        f"{count(summary['sensors'], 'sensor')} at {count(summary['sites'], 'site')},"
        f" {count(summary['slots'], 'slot')}: {summary['observed']} observed,"
        f" {summary['recovered']} recovered, {summary['refused']} refused"
    )
    if summary["refusals"]:
        why = ", ".join(f"{reason} ({n})" for reason, n in summary["refusals"].items())
        yield f"Refused and left empty: {why}"
    if result.scores:
        yield "Error on readings that were hidden and recovered (same units as the file):"
        yield from table_lines(["", "MAE", "RMSE"], _score_rows(result))
        yield "Mean absolute error by length of the gap:"
        by_site = [SITE] if SITE in result.scores else []
        yield from table_lines(
            ["gap", "readings", result.method, *ALONE.values(), *by_site],
            [_gap_row(score) for score in result.by_gap_length],
        )
    if result.verdict:
        yield result.verdict
    yield what_left(summary, find(result.method))


def _score_rows(result: Recovery) -> list[list[str]]:
    return [
        [_WAYS.get(name, result.method), figure(scores["mae"]), figure(scores["rmse"])]
        for name, scores in result.scores.items()
    ]


def _gap_row(score: GapScore) -> list[str]:
    ours = next(iter(score.mae.values()))
    others = (score.mae[name] for name in (*ALONE, SITE) if name in score.mae)
    return [span(score), str(score.count), *(figure(mae) for mae in (ours, *others))]
