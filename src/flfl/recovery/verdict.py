"""The self-test in plain sentences: what the others' readings were good for, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flfl.io.columns import listing
from flfl.recovery.scores import ALONE, SITE, GapScore, SensorScore

Scores = Mapping[str, Mapping[str, float]]


def verdict(
    scores: Scores,
    by_gap_length: Sequence[GapScore],
    by_sensor: Sequence[SensorScore],
    label: str,
    shared: bool,
) -> str:
    """What federation bought, in which gaps it did not, which sensors gain and which do not.

    Empty where nothing was tested, or where the method is no federation. Where nothing was
    ``shared`` between owners, nothing is said to have come of it.
    """
    if label != "flfl" or label not in scores:
        return ""
    if not shared:
        return _nothing_shared(scores)
    return " ".join(
        filter(None, (_bought(scores), _where_not(by_gap_length), _who_gains(by_sensor)))
    )


def _nothing_shared(scores: Scores) -> str:
    change = _over_sensors(scores)
    return (
        "Federation bought nothing here: nothing was shared between owners. From what each has"
        f" itself, the error is {_than(change)} interpolating each sensor."
    )


def _bought(scores: Scores) -> str:
    """One plain sentence on what the network was good for.

    The measure is what each owner does with its own sensors, where that was tried: the method's
    lead over interpolation is not all due to the others.
    """
    over_sensors = _over_sensors(scores)
    if SITE in scores:
        over_sites = _change(scores["flfl"]["mae"], scores[SITE]["mae"])
        if over_sites <= 0:
            return (
                f"Federation bought nothing here: the error is {_than(over_sites)} each site alone,"
                f" and {_than(over_sensors)} each sensor alone."
            )
        return (
            f"What federation bought: the error is {over_sites} % below each site alone, and"
            f" {_than(over_sensors)} each sensor alone."
        )
    if over_sensors > 0:
        return f"What federation bought: the error is {over_sensors} % below each sensor alone."
    return f"Federation bought nothing here: the error is {_than(over_sensors)} each sensor alone."


def _over_sensors(scores: Scores) -> int:
    return _change(scores["flfl"]["mae"], min(scores[name]["mae"] for name in ALONE))


def _change(mae: float, reference: float) -> int:
    """Per cent by which an error lies below another."""
    return round(100 * (1 - mae / reference)) if reference else 0


def _than(change: int) -> str:
    """A change in words.

    Examples
    --------
    >>> [_than(change) for change in (3, 0, -20)]
    ['3 % below', 'the same as that of', '20 % above']
    """
    if not change:
        return "the same as that of"
    return f"{abs(change)} % {'below' if change > 0 else 'above'}"


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
    """Sensors that gain or lose by more than chance; of the rest a few readings do not tell."""
    tested = [score for score in by_sensor if score.count]
    gaining = [score.sensor for score in tested if score.gains]
    losing = [score.sensor for score in tested if score.loses]
    open_ones = len(tested) - len(gaining) - len(losing)
    untested = len(by_sensor) - len(tested)
    return (
        f"{_sensors(len(gaining))} of {len(tested)} clearly gain{'s' * (len(gaining) == 1)} from"
        f" the network, {len(losing)} clearly lose{'s' * (len(losing) == 1)}"
        + (f" ({listing(losing)})" if losing else "")
        + f", {open_ones} {'is' if open_ones == 1 else 'are'} too close to tell"
        + (f" ({untested} not tested)." if untested else ".")
    )


def _sensors(number: int) -> str:
    return f"{number} sensor{'s' * (number != 1)}"
