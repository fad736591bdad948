"""What the page says, without any markup; its words for numbers serve the command line too."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from flfl.io.columns import listing
from flfl.io.sensors import Sensors
from flfl.io.table import FILLED, FLAGS, Table
from flfl.methods import Method, described
from flfl.recovery import Recovery
from flfl.recovery.rules import fault_notes
from flfl.recovery.selftest import ALONE, SITE, span
from flfl.recovery.showing import WAYS

Rows = list[tuple[str, ...]]


def _slot(table: Table) -> str:
    """What a slot is called: an hour and a day have names of their own."""
    return {"hourly": "hour", "daily": "day"}.get(table.grid.name, "slot")


def count(number: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> count(1, "sensor"), count(0, "sensor")
    ('1 sensor', '0 sensors')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def figure(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits; a dash for none.

    Examples
    --------
    >>> figure(0.123456), figure(1234.5), figure(None)
    ('0.1235', '1234', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    shown = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in shown and abs(value) >= 1 else shown


def size(count: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(999), size(2_500_000)
    ('999 B', '2.5 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    power = min(int(math.log10(count)) // 3, 3)
    return f"{count / 1000**power:.1f} {'kMG'[power - 1]}B"


def strict_json(document: Any) -> str:
    """One strict JSON document: a number that is not finite becomes null."""
    return json.dumps(_strict(document), indent=2, ensure_ascii=False)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def what_left(summary: Mapping[str, Any], method: Method) -> str:
    """Plain sentences on what left the owners, from the figures of a run."""
    if method.pooled:
        return "Every reading was brought to one place: this method keeps nothing at home."
    if not method.federated or (method.name == "flfl" and not summary["numbers_per_reading"]):
        return "No reading, and no copy of one, left any owner: each filled its own."
    sites = max(summary["sites"], 1)
    sent = (
        f"In {count(summary['rounds'], 'round')} an owner sent {size(summary['bytes_up'] / sites)}"
        f" and received {size(summary['bytes_down'] / sites)} on average; its readings are"
        f" {size(summary['bytes_raw'] / sites)}."
    )
    if method.name != "flfl":
        return f"{sent} Nothing was added that would hide the readings from the coordinator."
    numbers = f"{100 * summary['numbers_per_reading']:.0f} numbers for every 100 readings"
    saw = f"each owner's own part of {numbers}: nothing hid it."
    if summary["secure"]:
        saw = f"{numbers}, each a sum over all owners."
    return (
        f"{sent} {_copies(summary)} The coordinator saw {saw} Also public: where each sensor"
        " stands, when it has readings, how large its errors are, and its loadings."
    )


def _off_the_map(sensors: Sensors) -> str:
    """Which sensors the map lacks."""
    if sensors.coordinates is None or not sensors.unplaced:
        return ""
    many = count(len(sensors.unplaced), "sensor")
    return f"Not on the map, for their place is not known: {many} ({listing(sensors.unplaced)})."


def _copies(summary: Mapping[str, Any]) -> str:
    """How noisy the copies are, and what that means."""
    median = summary["added_error"]["median"]
    if np.isnan(median):
        return (
            "No sensor had readings enough for noisy copies: nothing made from readings left its"
            " owner."
        )
    if not median:
        return (
            "No noise was added (added error 0): what left each owner is made from its readings"
            " themselves, and the coordinator was trusted with it."
        )
    unit = summary["added_error"]["unit"] or "(in the file's units)"
    apart = 100 * summary["guarantee"][0]["told_apart"]
    return (
        "What left each owner is made from noisy copies of its readings, with an added error of"
        f" typically {figure(median, 2)} {unit}: two values of one reading that differ by so much"
        f" are told apart correctly at most {apart:.0f} % of the time, whoever looks. Slow"
        " events, and events at several sensors, show more."
    )


def content_of(
    result: Recovery, table: Table, sensors: Sensors, settings: Mapping[str, object], title: str
) -> dict[str, Any]:
    """A run in words, by the names that ``assets/page.html`` uses."""
    summary = result.summary()
    from flfl.io.inspection import inspect_table

    *suspected, treated = fault_notes(result.suspicious, result.treatment) or [""]
    apart = {*suspected, treated}
    understood = [s for s in inspect_table(table, sensors).understood() if s not in apart]
    said = (result.verdict, what_left(summary, described(result.method)))
    gaps = result.by_gap_length
    first, last = (_when(table.values.index[i]) for i in (0, -1))
    return {
        "title": title or (table.source.path.name if table.source else "Recovered readings"),
        "subtitle": f"{count(summary['sensors'], 'sensor')} of {count(summary['sites'], 'owner')},"
        f" {count(summary['slots'], _slot(table))} from {first} to {last}",
        "verdict": [text for text in said if text],
        "answers": [_missing(result, summary), _quality(result), _doubts(result, summary)],
        "suspicious": [one.sentence for one in result.suspicious],
        "treated": treated,
        "extrapolated": summary["extrapolated"],
        "counted": [*(flag for flag in FLAGS if flag != "extrapolated" or summary[flag]), "hidden"],
        "tiles": _tiles(result, summary),
        "methods": [WAYS.get(name, name) for name in gaps[0].mae] if gaps else [],
        "overall": [
            (
                WAYS.get(name, name),
                figure(scores["mae"]),
                figure(scores["rmse"]),
                _percent(scores.get("coverage", math.nan)),
            )
            for name, scores in result.scores.items()
        ],
        "gaps": [(span(one), str(one.count), *map(figure, one.mae.values())) for one in gaps],
        "sensors": _sensors(result, table),
        "traffic": _traffic(result),
        "facts": _facts(result, summary),
        "settings": [
            (name, "-" if value is None else str(value)) for name, value in settings.items()
        ],
        "understood": understood,
        "off_the_map": _off_the_map(sensors),
        "notes": [note for note in summary["notes"] if note not in {*understood, *apart}],
        "nights": None,
        "about": [
            ("Run", result.run_id),
            ("Method", result.method),
            ("flfl", version("flfl")),
            ("Seconds", f"{result.seconds:.1f}"),
        ],
    }


def _missing(result: Recovery, summary: Mapping[str, Any]) -> dict[str, Any]:
    """How much was missing, and what became of it."""
    cells = summary["sensors"] * summary["slots"]
    gaps = cells - summary["observed"]
    filled = summary["recovered"] + summary["extrapolated"]
    said = [f"{gaps:,} of {cells:,} values were missing. {filled:,} were filled."]
    if summary["refused"]:
        why = "; ".join(f"{reason} ({n:,})" for reason, n in summary["refusals"].items())
        said.append(f"{summary['refused']:,} were left empty: {why}.")
    large = f"{100 * gaps / max(cells, 1):.1f} %"
    return {"question": "How much was missing?", "large": large, "said": said}


def _quality(result: Recovery) -> dict[str, Any]:
    """How far the filled values are off, beside other ways to fill them."""
    question = "How good is the filling?"
    if not result.scores:
        said = ["Nobody knows: too few readings could be hidden to try it."]
        return {"question": question, "large": "", "said": said}
    (_, ours), *others = result.scores.items()
    unit = f" {result.unit}" if result.unit else ""
    hidden = sum(score.count for score in result.by_sensor)
    said = [f"So far off, on average, were {hidden:,} readings that were hidden and filled again."]
    ways = [f"{WAYS.get(name, name)} {figure(s['mae'], 3)}" for name, s in others]
    said += [f"Other ways: {', '.join(ways)}."] if ways else []
    inside = ours.get("coverage", math.nan)
    if math.isfinite(inside):
        said.append(f"{100 * inside:.0f} % of them lay inside the interval that was given.")
    return {"question": question, "large": f"± {figure(ours['mae'], 3)}{unit}", "said": said}


def _doubts(result: Recovery, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Where the filling deserves least trust."""
    flags = result.flags.to_numpy()
    share = np.isin(flags, FILLED).mean(axis=0)
    names = [str(name) for name in result.values.columns]
    said = []
    if (share > 0.5).any():
        most = [names[i] for i in np.argsort(-share) if share[i] > 0.5]
        said.append(f"More than half of the values are filled at {listing(most, 4)}.")
    first = next(iter(result.scores), "")
    tested = (s.mae.get(first, math.nan) if s.count else math.nan for s in result.by_sensor)
    errors = np.array([*tested])
    if np.isfinite(errors).any():
        usual = float(np.nanmedian(errors))
        worse = [i for i in np.argsort(-np.nan_to_num(errors)) if errors[i] > 2 * usual]
        if worse:
            shown = [f"{names[i]} ({figure(errors[i], 2)})" for i in worse]
            said.append(f"The error is more than twice the usual one at {listing(shown, 4)}.")
        if loses := [one.sensor for one in result.by_sensor if one.loses]:
            said.append(f"Alone would be better at {listing(loses, 4)}.")
        untested = [n for n, e, s in zip(names, errors, share, strict=True) if s and np.isnan(e)]
        said += [f"Not tried out: {listing(untested, 4)}."] if untested else []
    gaps = [(one.mae.get(first, math.nan), one) for one in result.by_gap_length]
    if gaps and result.scores:
        error, worst = max(gaps, key=lambda pair: pair[0])
        if error > 1.3 * result.scores[first]["mae"]:
            said.append(f"Gaps of {span(worst)} are off by {figure(error, 3)}.")
    if summary["extrapolated"]:
        said.append(f"{summary['extrapolated']:,} values are in slots that nobody observed.")
    if summary["suspicious"]:
        said.append("Some readings are probably faults; see below.")
    said = said or [
        "Nothing stands out: no sensor is mostly filled, none is much worse than others."
    ]
    return {"question": "Where not to trust it?", "large": "", "said": said}


def _when(place: object) -> str:
    if not isinstance(place, pd.Timestamp):
        return str(place)
    return str(place.date()) if place == place.normalize() else f"{place:%Y-%m-%d %H:%M}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if math.isfinite(share) else "-"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _named(what: str, unit: str | None) -> str:
    return f"{what} ({unit})" if unit else what


def _tiles(result: Recovery, summary: Mapping[str, Any]) -> Rows:
    """Large figures, and what each is."""
    cells = max(summary["sensors"] * summary["slots"], 1)
    tiles: Rows = []
    for flag in FLAGS:
        if flag == "extrapolated" and not summary[flag]:
            continue
        shown = f"{summary[flag]:,}"
        tiles.append((shown, f"{flag}, {100 * summary[flag] / cells:.1f} %"))
    if result.scores:
        ours, *_ = result.scores.values()
        tiles.append((figure(ours["mae"]), "mean absolute error, hidden readings"))
        others = [SITE] if SITE in result.scores else list(ALONE)
        best = min(result.scores[name]["mae"] for name in others)
        whose = "owner" if SITE in result.scores else "sensor"
        tiles.append((figure(best), f"the same, each {whose} alone"))
    added = summary["added_error"]["median"]
    if math.isfinite(added):
        tiles.append((figure(added, 2), _named("added error of what left", result.unit)))
    return tiles


def _sensors(result: Recovery, table: Table) -> list[dict[str, Any]]:
    """One mapping for each sensor, for the table and the script."""
    flags = result.flags.to_numpy()
    counts = {flag: (flags == flag).sum(axis=0) for flag in FLAGS}
    units = table.units or ("",) * len(table.sensor_ids)
    rows = []
    for i, score in enumerate(result.by_sensor):
        gains = "yes" if score.gains else "loses" if score.loses else "too close"
        rows.append(
            {
                "name": score.sensor,
                "site": result.sites[i],
                "unit": units[i],
                **{flag: int(number[i]) for flag, number in counts.items()},
                "share": float(counts["recovered"][i] / max(len(flags), 1)),
                "hidden": score.count,
                "errors": [_finite(error) for error in score.mae.values()],
                "gains": gains if score.count else None,
                "added": _finite(result.added_error.iloc[i]),
            }
        )
    return rows


def _traffic(result: Recovery) -> Rows:
    """Bytes and messages of every kind, the largest first, and their sums."""
    sent = result.traffic
    kinds = sorted({*sent.up, *sent.down}, key=lambda kind: -(sent.up[kind] + sent.down[kind]))
    counts = (sent.up, sent.messages_up, sent.down, sent.messages_down)
    rows = [(kind, [counter[kind] for counter in counts]) for kind in kinds]
    if rows:
        rows.append(("all", [counter.total() for counter in counts]))
    return [(kind, size(n[0]), str(n[1]), size(n[2]), str(n[3])) for kind, n in rows]


def _facts(result: Recovery, summary: Mapping[str, Any]) -> Rows:
    added = summary["added_error"]["median"]
    exchanges = ", ".join(f"{name} {number}" for name, number in summary["exchanges"].items())
    return [
        (_named("Added error, median sensor", result.unit), figure(added, 3)),
        ("Numbers released for a reading", f"{summary['numbers_per_reading']:.3f}"),
        ("Rounds", str(summary["rounds"])),
        ("Exchanges", exchanges or "-"),
        ("Sums hidden from the coordinator", "yes" if summary["secure"] else "no"),
        ("Size of the readings themselves", size(summary["bytes_raw"])),
        *((f"Refused: {why}", f"{cells} cells") for why, cells in summary["refusals"].items()),
    ]
