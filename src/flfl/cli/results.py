"""What a recovery leaves behind: files, and a few lines for a person or one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flfl.baselines import Method, find
from flfl.cli.say import count, figure, print_json, size, table_lines
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.data.write import check_outputs, write_result
from flfl.recovery import GapScore, Recovery
from flfl.recovery.scores import ALONE
from flfl.recovery.verdict import span

_WAYS = {
    "alone": "each sensor alone (pchip)",
    "linear": "each sensor alone (linear)",
    "site": "each site alone (nothing shared)",
}


@dataclass(frozen=True)
class Outputs:
    """Where the results go."""

    filled: Path
    flags: Path | None = None

    def check(self, inputs: Iterable[Path] = ()) -> None:
        """Refuse what cannot be written, before minutes of work."""
        check_outputs(self.filled, self.flags, inputs=inputs)

    def write(self, result: Recovery, table: Table, sensors: Sensors) -> None:
        """Write the filled table and, if wanted, the flags."""
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

    def as_dict(self) -> dict[str, str | None]:
        """The names, for JSON."""
        return {"out": str(self.filled), "flags": None if self.flags is None else str(self.flags)}

    def sentences(self) -> Iterator[str]:
        """The names, for a person."""
        yield f"Filled table: {self.filled}"
        if self.flags is not None:
            yield f"Every value with its flag and interval: {self.flags}"


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
        yield from table_lines(
            ["gap", "readings", result.method, *ALONE.values()],
            [_gap_row(score) for score in result.by_gap_length],
        )
    if result.verdict:
        yield result.verdict
    yield _what_left(summary, find(result.method))


def _score_rows(result: Recovery) -> list[list[str]]:
    return [
        [_WAYS.get(name, result.method), figure(scores["mae"]), figure(scores["rmse"])]
        for name, scores in result.scores.items()
    ]


def _gap_row(score: GapScore) -> list[str]:
    ours = next(iter(score.mae.values()))
    maes = (ours, *(score.mae[name] for name in ALONE))
    return [span(score), str(score.count), *(figure(mae) for mae in maes)]


def _what_left(summary: dict[str, Any], method: Method) -> str:
    """Plain sentences on what left the sites."""
    if method.pooled:
        return "Every reading was brought to one place: this method keeps nothing at home."
    if not method.federated:
        return "Nothing left any site: each sensor was filled from its own readings."
    sites = max(summary["sites"], 1)
    sent = (
        f"In {count(summary['rounds'], 'round')} a site sent {size(summary['bytes_up'] / sites)}"
        f" and received {size(summary['bytes_down'] / sites)} on average; its readings are"
        f" {size(summary['bytes_raw'] / sites)}."
    )
    numbers, worst = summary["numbers_per_reading"], summary["exposure"]["worst"]
    if numbers >= 1 or worst >= 1:
        return f"{sent} The coordinator can compute every reading from what it received."
    hidden = " The coordinator saw them only added up over all sites." if summary["secure"] else ""
    return (
        f"{sent} Only sums over sensors left: {100 * numbers:.0f} numbers for every 100 readings."
        f"{hidden} Exposure that the sites computed before sending: at most {worst:.2f} of any"
        f" sensor's news, median {summary['exposure']['median']:.2f}."
    )
