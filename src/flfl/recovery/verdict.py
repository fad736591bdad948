"""The self-test in plain sentences: what the others' readings were good for, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flfl.data.table import listing
from flfl.recovery.scores import ALONE, GapScore, SensorScore

Scores = Mapping[str, Mapping[str, float]]


def verdict(
    scores: Scores,
    by_gap_length: Sequence[GapScore],
    by_sensor: Sequence[SensorScore],
    label: str,
) -> str:
    """What federation bought, in which gaps it did not, which sensors gain and which do not.

    Empty where nothing was tested, or where the method is no federation.
    """
    if label != "flfl" or label not in scores:
        return ""
    return " ".join(
        filter(None, (_bought(scores), _where_not(by_gap_length), _who_gains(by_sensor)))
    )


def _bought(scores: Scores) -> str:
    """One plain sentence on what the network was good for."""
    change = _change(scores["flfl"]["mae"], min(scores["alone"]["mae"], scores["linear"]["mae"]))
    if change > 0:
        return (
            f"What federation bought: the error is {change} % below each sensor"
            f" alone{_over_sites(scores)}."
        )
    above = f"{-change} % above" if change else "the same as that of"
    return f"Federation bought nothing here: the error is {above} each sensor alone."


def _change(mae: float, reference: float) -> int:
    """Per cent by which an error lies below another."""
    return round(100 * (1 - mae / reference)) if reference else 0


def _over_sites(scores: Scores) -> str:
    """The same against what each owner could do with its own sensors, where that was tried."""
    if not scores.get("site", {}).get("mae"):
        return ""
    change = 100 * (1 - scores["flfl"]["mae"] / scores["site"]["mae"])
    if change < 0.5:
        return ", but not below what each site does with its own sensors"
    return f", and {change:.0f} % below what each site does with its own sensors"


def _where_not(by_gap_length: Sequence[GapScore]) -> str:
    """The gaps in which a sensor alone does as well."""
    lost = [
        span(score)
        for score in by_gap_length
        if _change(score.mae["flfl"], min(score.mae[name] for name in ALONE)) <= 0
    ]
    if not lost or len(lost) == len(by_gap_length):
        return ""
    return f"In gaps of {', '.join(lost)} a sensor alone does as well."


def span(score: GapScore) -> str:
    """The lengths of a class of gaps.

    Examples
    --------
    >>> [span(GapScore(*ends, 0, {})) for ends in ((1, 1), (2, 3), (49, None))]
    ['1 slot', '2 to 3 slots', '49 slots or more']
    """
    if score.longest is None:
        return f"{score.shortest} slots or more"
    if score.longest == score.shortest:
        return f"{score.shortest} slot{'s' * (score.shortest != 1)}"
    return f"{score.shortest} to {score.longest} slots"


def _who_gains(by_sensor: Sequence[SensorScore]) -> str:
    tested = [score for score in by_sensor if score.count]
    others = [score.sensor for score in tested if not score.gains]
    gaining = len(tested) - len(others)
    untested = len(by_sensor) - len(tested)
    return (
        f"{gaining} sensor{'s' * (gaining != 1)} of {len(tested)}"
        f" {'gains' if gaining == 1 else 'gain'} from the network,"
        f" {len(others)} {'does' if len(others) == 1 else 'do'} not"
        + (f": {listing(others)}" if others else "")
        + (f" ({untested} not tested)." if untested else ".")
    )
