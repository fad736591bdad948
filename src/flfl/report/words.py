"""Numbers and what left the sites, in words: the same on the page and on the command line."""

from __future__ import annotations

import math
from typing import Any

from flfl.methods import Method


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
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def what_left(summary: dict[str, Any], method: Method) -> str:
    """Plain sentences on what left the sites, from the figures of a run."""
    if method.pooled:
        return "Every reading was brought to one place: this method keeps nothing at home."
    if not method.federated or (method.name == "flfl" and not summary["numbers_per_reading"]):
        return "No reading, and no copy of one, left any site: each was filled from its own."
    sites = max(summary["sites"], 1)
    sent = (
        f"In {count(summary['rounds'], 'round')} a site sent {size(summary['bytes_up'] / sites)}"
        f" and received {size(summary['bytes_down'] / sites)} on average; its readings are"
        f" {size(summary['bytes_raw'] / sites)}."
    )
    if method.name != "flfl":
        return f"{sent} Nothing was added that would hide the readings from the coordinator."
    return " ".join([sent, _copies(summary), _sums(summary), ALSO_PUBLIC])


ALSO_PUBLIC = (
    "Also public: where each sensor stands, when it has readings, how large its errors are, and its"
    " loadings."
)


def _copies(summary: dict[str, Any]) -> str:
    """How noisy the copies are, and what that means."""
    median, unit = summary["added_error"]["median"], summary["added_error"]["unit"]
    if not median:
        return (
            "No noise was added (added error 0): what left each owner is made from its readings"
            " themselves, and the coordinator was trusted with it."
        )
    shown = f"{figure(median, 2)} {unit}" if unit else f"{figure(median, 2)} (in the file's units)"
    apart = 100 * summary["guarantee"][0]["told_apart"]
    return (
        "What left each owner is made from noisy copies of its readings, with an added error of"
        f" typically {shown}: two values of one reading that differ by so much are told apart"
        f" correctly at most {apart:.0f} % of the time, whoever looks. Slow events, and events at"
        " several sensors, show more."
    )


def _sums(summary: dict[str, Any]) -> str:
    numbers = f"{100 * summary['numbers_per_reading']:.0f} numbers for every 100 readings"
    if summary["secure"]:
        return f"The coordinator saw {numbers}, each a sum over all owners."
    return f"The coordinator saw each owner's own part of {numbers}: nothing hid it."
