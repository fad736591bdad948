"""What the page says: its sentences and tables, without any markup."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from flfl.io.inspection import inspect_table
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.methods import find
from flfl.recovery import Recovery, SensorScore
from flfl.recovery.scores import ALONE, SITE
from flfl.recovery.verdict import span
from flfl.report.words import count, figure, size, what_left

Rows = list[tuple[str, ...]]
WAYS = {
    "alone": "sensor alone (pchip)",
    "linear": "sensor alone (linear)",
    "site": "site alone",
}


@dataclass(frozen=True)
class Content:
    """Everything in words.

    Attributes
    ----------
    title, subtitle : of the page
    verdict : paragraphs: what the network gained, what left each site
    tiles : pairs of a large figure and what it is
    methods, overall, gaps : the columns and rows of the scores
    sensors : one mapping a sensor, for the table and the script
    traffic, facts, settings : tables of the run
    understood : what the file holds
    notes : what else was understood and decided
    about : which run it was, and what made it
    """

    title: str
    subtitle: str
    verdict: list[str]
    tiles: list[tuple[str, str]]
    methods: list[str]
    overall: Rows
    gaps: Rows
    sensors: list[dict[str, Any]]
    traffic: Rows
    facts: Rows
    settings: Rows
    understood: list[str]
    notes: list[str]
    about: Rows


def write_content(
    result: Recovery, table: Table, sensors: Sensors, settings: Mapping[str, object], title: str
) -> Content:
    """Put a run into words."""
    summary = result.summary()
    understood = inspect_table(table, sensors).understood()
    return Content(
        title=title or (table.source.path.name if table.source else "Recovered readings"),
        subtitle=_subtitle(summary, table),
        verdict=[
            text for text in (result.verdict, what_left(summary, find(result.method))) if text
        ],
        tiles=_tiles(result, summary),
        methods=_methods(result),
        overall=_overall(result),
        gaps=[
            (span(score), str(score.count), *(figure(error) for error in score.mae.values()))
            for score in result.by_gap_length
        ],
        sensors=_sensors(result, table),
        traffic=_traffic(result),
        facts=_facts(result, summary),
        settings=[(str(name), _setting(value)) for name, value in settings.items()],
        understood=list(understood),
        notes=[note for note in summary["notes"] if note not in understood],
        about=_about(result),
    )


def _methods(result: Recovery) -> list[str]:
    """The ways to recover that were scored by gap length, in the words of the page."""
    return [_way(name) for name in result.by_gap_length[0].mae] if result.by_gap_length else []


def _way(name: str) -> str:
    return WAYS.get(name, name)


def _subtitle(summary: dict[str, Any], table: Table) -> str:
    first, last = (_when(table.values.index[i]) for i in (0, -1))
    return (
        f"{count(summary['sensors'], 'sensor')} at {count(summary['sites'], 'site')},"
        f" {count(summary['slots'], 'slot')} from {first} to {last}"
    )


def _when(place: object) -> str:
    if not isinstance(place, pd.Timestamp):
        return str(place)
    return str(place.date()) if place == place.normalize() else f"{place:%Y-%m-%d %H:%M}"


def _tiles(result: Recovery, summary: dict[str, Any]) -> list[tuple[str, str]]:
    cells = max(summary["sensors"] * summary["slots"], 1)
    tiles = [
        (
            f"{summary[flag]:,}".replace(",", "\u202f"),
            f"{flag}, {100 * summary[flag] / cells:.1f} %",
        )
        for flag in ("observed", "recovered", "refused")
    ]
    label = next(iter(result.scores), None)
    if label is not None:
        tiles.append((figure(result.scores[label]["mae"]), "mean absolute error, hidden readings"))
        if SITE in result.scores:
            tiles.append((figure(result.scores[SITE]["mae"]), "the same, each site alone"))
        else:
            alone = min(result.scores[name]["mae"] for name in ALONE)
            tiles.append((figure(alone), "the same, each sensor alone"))
    added = summary["added_error"]["median"]
    if math.isfinite(added):
        tiles.append((figure(added, 2), _named("added error of what left", result.unit)))
    return tiles


def _named(what: str, unit: str | None) -> str:
    return f"{what} ({unit})" if unit else what


def _overall(result: Recovery) -> Rows:
    return [
        (
            _way(name),
            figure(scores["mae"]),
            figure(scores["rmse"]),
            f"{100 * scores['coverage']:.0f} %"
            if math.isfinite(scores.get("coverage", np.nan))
            else "-",
        )
        for name, scores in result.scores.items()
    ]


def _sensors(result: Recovery, table: Table) -> list[dict[str, Any]]:
    counts = {
        flag: (result.flags.to_numpy() == flag).sum(axis=0)
        for flag in ("observed", "recovered", "refused")
    }
    slots = max(len(result.flags), 1)
    units = table.units or ("",) * len(table.sensor_ids)
    return [
        {
            "name": score.sensor,
            "site": result.sites[i],
            "unit": units[i],
            **{flag: int(number[i]) for flag, number in counts.items()},
            "share": float(counts["recovered"][i] / slots),
            "hidden": score.count,
            "errors": [_finite(error) for error in score.mae.values()],
            "gains": _gain(score),
            "added": _finite(result.added_error.iloc[i]),
        }
        for i, score in enumerate(result.by_sensor)
    ]


def _gain(score: SensorScore) -> str | None:
    if not score.count:
        return None
    return "yes" if score.gains else "loses" if score.loses else "too close"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _traffic(result: Recovery) -> Rows:
    """Bytes and messages of every kind, the largest first."""
    traffic = result.traffic
    kinds = sorted(
        {*traffic.up, *traffic.down}, key=lambda kind: -(traffic.up[kind] + traffic.down[kind])
    )
    rows = [
        (
            kind,
            size(traffic.up[kind]),
            str(traffic.messages_up[kind]),
            size(traffic.down[kind]),
            str(traffic.messages_down[kind]),
        )
        for kind in kinds
    ]
    total = (
        "all",
        size(traffic.bytes_up),
        str(traffic.messages_up.total()),
        size(traffic.bytes_down),
        str(traffic.messages_down.total()),
    )
    return [*rows, total] if rows else []


def _facts(result: Recovery, summary: dict[str, Any]) -> Rows:
    added = summary["added_error"]["median"]
    exchanges = ", ".join(f"{name} {number}" for name, number in summary["exchanges"].items())
    facts: Rows = [
        (_named("Added error, median sensor", result.unit), figure(_finite(added), 3)),
        ("Numbers released for a reading", f"{summary['numbers_per_reading']:.3f}"),
        ("Rounds", str(summary["rounds"])),
        ("Exchanges", exchanges or "-"),
        ("Sums hidden from the coordinator", "yes" if summary["secure"] else "no"),
        ("Size of the readings themselves", size(summary["bytes_raw"])),
    ]
    facts += [(f"Refused: {why}", f"{number} cells") for why, number in result.refusals().items()]
    return facts


def _setting(value: object) -> str:
    return "-" if value is None else str(value)


def _about(result: Recovery) -> Rows:
    """What made the page."""
    return [
        ("Run", result.run_id),
        ("Method", result.method),
        ("flfl", version("flfl")),
        ("Seconds", f"{result.seconds:.1f}"),
    ]
