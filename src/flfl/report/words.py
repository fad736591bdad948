"""Numbers and what left the sites, in words: the same on the page and on the command line."""

from __future__ import annotations

import math
from typing import Any

from flfl.baselines import Method


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
