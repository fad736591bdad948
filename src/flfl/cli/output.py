"""What verbs print and write: JSON, tables, progress, and the outcome of a recovery."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from flfl.cli import as_options
from flfl.errors import InputError, explained
from flfl.estimators.saved_model import save_model
from flfl.io.files import OUTPUT_SUFFIXES, check_writable
from flfl.io.sensors import EACH, Sensors
from flfl.io.suspicions import find_faults, warnings
from flfl.io.table import Table
from flfl.io.write import check_outputs, write_result
from flfl.methods import described
from flfl.recovery import Recovery
from flfl.recovery.progress import Tell, shown
from flfl.recovery.selftest import ALONE, SITE, span
from flfl.report import SUFFIXES, check_report_extra, write_page
from flfl.report.content import count, figure, strict_json, what_left

Outputs = Mapping[str, Path | None]
"""Files to write, by the option that names each."""
_WAYS = {
    "alone": "each sensor alone (pchip)",
    "linear": "each sensor alone (linear)",
    "site": "each owner alone (nothing shared)",
}


def print_json(document: Any) -> None:
    """One strict JSON document: a number that is not finite becomes null."""
    click.echo(strict_json(document))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns that line up; the first one left, the others right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *rest in cells:
        aligned = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        click.echo("  ".join([first.ljust(widths[0]), *aligned]).rstrip())


def print_notes(table: Table, sensors: Sensors) -> None:
    """What was understood of the files, and which readings are suspicious, where these are used as
    they are; to stderr."""
    for note in (*table.notes, *sensors.notes, *warnings(table, find_faults(table))):
        click.echo(f"Note: {as_options(note)}", err=True)


def progress() -> AbstractContextManager[Tell]:
    """What a verb tells where it is (:func:`flfl.recovery.progress.shown`), unless ``--quiet``."""
    return shown(0 if click.get_current_context().find_root().params.get("quiet") else 1)


def make_folder(path: Path) -> None:
    """Make an output folder, or say why it cannot be made."""
    with explained("cannot make the folder", where=str(path), remedy="Choose another --out"):
        path.mkdir(parents=True, exist_ok=True)


def check_before(outputs: Outputs, **files: Any) -> None:
    """Refuse what cannot be written, before minutes of work: above all the ``files`` to read."""
    read = [files.get(name) for name in ("readings", "sensors_path", "sites")]
    inputs = [Path(path) for path in read if path not in (None, EACH)]
    check_outputs(outputs.get("out"), outputs.get("flags"), inputs, outputs.get("rows"))
    known = {"publish": OUTPUT_SUFFIXES, "report": SUFFIXES, "save_model": (".flfl",)}
    for name in outputs.keys() - {"out", "flags", "rows"}:
        if path := outputs[name]:
            check_writable(path, inputs=inputs, suffixes=known.get(name, (".npz",)))
    if outputs.get("report"):
        check_report_extra()


def write_recovery(
    outputs: Outputs,
    result: Recovery,
    table: Table,
    sensors: Sensors,
    settings: Mapping[str, object],
    title: str = "",
) -> None:
    """Write what was asked for: filled table, flags, page, table to publish, model."""
    for name, wanted in {"save_model": result.remembered, "publish": result.published}.items():
        if outputs.get(name) and wanted is None:
            remedy = "Leave it out, or use flfl with two owners or more and an added error"
            problem = "there are no noisy copies to make it from"
            raise InputError(problem, where=str(outputs[name]), remedy=remedy)
    if (path := outputs.get("save_model")) and result.remembered is not None:
        save_model(path, result.remembered)
    if (path := outputs.get("publish")) and result.published is not None:
        # Of the source nothing but its times goes along.
        bare = replace(table, values=result.published, source=None)
        write_result(path, None, bare, result.published)
    write_result(
        outputs.get("out"), outputs.get("flags"), table, result.values,
        result.lower, result.upper, result.provenance, sensors, outputs.get("rows"),
    )  # fmt: skip
    if path := outputs.get("report"):
        write_page(path, result, table, sensors, settings, title=title)


def named(outputs: Outputs) -> dict[str, str | None]:
    """The files for JSON."""
    return {name: None if path is None else str(path) for name, path in outputs.items()}


_ORIGINS = {"network": "the network", "site": "the owner's own sensors"}


def print_recovery(result: Recovery, outputs: Outputs, as_json: bool, title: str = "") -> None:
    """Say what was done, and where it is. With a title, also what each owner gained."""
    summary = result.summary()
    if as_json:
        print_json(summary | named(outputs))
        return
    if title:
        click.echo(title)
    for note in summary["notes"]:
        click.echo(f"Note: {as_options(note)}")
    click.echo(
        f"{count(summary['sensors'], 'sensor')} of {count(summary['sites'], 'owner')},"
        f" {count(summary['slots'], 'slot')}: {summary['observed']} observed,"
        f" {summary['recovered']} recovered, {summary['refused']} refused"
        + (f", {summary['extrapolated']} extrapolated" if summary["extrapolated"] else "")
    )
    if len(summary["methods"]) > 1 or set(summary["methods"]) - {result.method}:
        came = ", ".join(
            f"{n} from {_ORIGINS.get(name, name)}" for name, n in summary["methods"].items()
        )
        click.echo(f"Filled: {came}")
    if summary["refusals"]:
        why = ", ".join(f"{reason} ({n})" for reason, n in summary["refusals"].items())
        click.echo(f"Refused and left empty: {why}")
    if result.scores:
        click.echo("Error on readings that were hidden and recovered (same units as the file):")
        errors = {_WAYS.get(name, result.method): s for name, s in result.scores.items()}
        rows = [[name, figure(s["mae"]), figure(s["rmse"])] for name, s in errors.items()]
        print_table(["", "MAE", "RMSE"], rows)
        click.echo("Mean absolute error by length of the gap:")
        others = [
            ALONE.get(name, "owner" if name == SITE else name) for name in list(result.scores)[1:]
        ]
        by_gap = [[span(s), s.count, *map(figure, s.mae.values())] for s in result.by_gap_length]
        print_table(["gap", "readings", result.method, *others], by_gap)
    for sentence in (result.verdict, what_left(summary, described(result.method))):
        if sentence:
            click.echo(sentence)
    if title:
        _print_owners(result)
    for name, words in {
        "out": "Filled table",
        "flags": "Every value with its flag and interval",
        "rows": "The rows as they came, filled",
        "report": "The page to look at",
        "publish": "Filled from noisy copies, without a reading of yours",
    }.items():
        if outputs.get(name):
            click.echo(f"{words}: {outputs[name]}")


def _print_owners(result: Recovery) -> None:
    """What each owner gained over working alone, and how noisy what left it is."""
    unit = f" ({result.unit})" if result.unit else ""
    header = ["owner", "sensors", "MAE alone", "MAE in the network", "change", f"added error{unit}"]
    rows = []
    for score in result.by_site():
        ours, alone = (score.mae.get(name, math.nan) for name in ("flfl", SITE))
        change = f"{100 * (ours / alone - 1):+.0f} %" if math.isfinite(ours) and alone > 0 else "-"
        added = figure(score.added_error, 2)
        rows.append([score.site, score.sensors, figure(alone), figure(ours), change, added])
    print_table(header, rows)
