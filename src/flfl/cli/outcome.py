"""What a recovery leaves behind: files, and a few lines for a person or one JSON document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from flfl.cli.say import print_json, table_lines
from flfl.errors import InputError
from flfl.io.atomic import OUTPUT_SUFFIXES
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.io.write import check_outputs, check_writable, write_result
from flfl.methods import find
from flfl.recovery import GapScore, Recovery
from flfl.recovery.scores import ALONE, SITE, SiteScore
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
    published: Path | None = None

    def check(self, inputs: Iterable[Path] = ()) -> None:
        """Refuse what cannot be written, before minutes of work."""
        given = list(inputs)
        check_outputs(self.filled, self.flags, inputs=given)
        if self.published is not None:
            check_writable(self.published, inputs=given, suffixes=OUTPUT_SUFFIXES)
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
        """Write the filled table and, if wanted, the flags, the page and what may be published."""
        if self.published is not None:
            _publish(self.published, result, table)
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
        named = {
            "out": self.filled, "flags": self.flags, "report": self.page, "publish": self.published
        }  # fmt: skip
        return {name: None if path is None else str(path) for name, path in named.items()}

    def sentences(self) -> Iterator[str]:
        """The names, for a person."""
        yield f"Filled table: {self.filled}"
        if self.flags is not None:
            yield f"Every value with its flag and interval: {self.flags}"
        if self.page is not None:
            yield f"The page to look at: {self.page}"
        if self.published is not None:
            yield f"Filled from noisy copies, without a reading of yours: {self.published}"


def _publish(path: Path, result: Recovery, table: Table) -> None:
    """Write the table without clean readings: nothing of the source but its times goes along."""
    if result.published is None:
        raise InputError(
            "there are no noisy copies to fill a table from",
            where=str(path),
            remedy="Leave --publish out, or use flfl with two sites or more and an added error",
        )
    bare = replace(table, values=result.published, source=None)
    write_result(path, None, bare, result.published)


def say(
    result: Recovery, outputs: Outputs, as_json: bool, title: str = "", *, owners: bool = False
) -> None:
    """Say what was done, and where it is; with ``owners`` also what each gained."""
    if as_json:
        print_json(result.summary() | outputs.as_dict())
        return
    if title:
        click.echo(title)
    table = owner_lines(result) if owners else ()
    for line in (*_sentences(result), *table, *outputs.sentences()):
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
        others = [ALONE.get(name, name) for name in list(result.scores)[1:]]
        yield from table_lines(
            ["gap", "readings", result.method, *others],
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
    return [span(score), str(score.count), *(figure(mae) for mae in score.mae.values())]


def owner_lines(result: Recovery) -> Iterator[str]:
    """What each owner gained over working alone, and how noisy what left it is."""
    unit = f" ({result.unit})" if result.unit else ""
    header = ["owner", "sensors", "MAE alone", "MAE in the network", "change", f"added error{unit}"]
    yield from table_lines(header, [_owner_row(score) for score in result.by_site()])


def _owner_row(score: SiteScore) -> list[str]:
    ours = score.mae.get("flfl", math.nan)
    alone = score.mae.get(SITE, math.nan)
    change = f"{100 * (ours / alone - 1):+.0f} %" if math.isfinite(ours) and alone > 0 else "-"
    return [
        score.site, str(score.sensors), figure(alone), figure(ours), change,
        figure(score.added_error, 2),
    ]  # fmt: skip
