"""Who owns which sensor, as an experiment makes it up, and what federation is worth to owners.

``closed = (alone - federated) / (alone - pooled)``: the share of what pooling all readings would
gain that federation gains. Errors are summed before they are divided: single ratios run away where
pooling gains next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.io.sensors import Sensors
from flfl.model.basis import to_plane
from flfl_bench.statistics import OURS

Array = NDArray[np.float64]
_MADE_UP = re.compile(r"(?P<size>[1-9][0-9]*)(?: (?P<how>compact|interleaved))?")
GIVEN = "given"
"""In place of made-up owners: those that the sensors file names."""
POOLED = "pooled"
DRAWS = 2000
"""Of the bootstrap."""


def owner_size(owners: str) -> int | None:
    """How many sensors a made-up owner has; None for given ones.

    >>> owner_size("4 compact"), owner_size("given")
    (4, None)
    """
    found = _MADE_UP.fullmatch(owners)
    return None if found is None else int(found["size"])


def arrangement(owners: str) -> str:
    """``"compact"``, ``"interleaved"`` or, where neither is said, an empty text."""
    found = _MADE_UP.fullmatch(owners)
    return "" if found is None else found["how"] or ""


def deal(sensors: Sensors, owners: str | None) -> tuple[str, ...] | None:
    """The owner of each sensor; None where nothing is made up.

    ``"4 compact"`` cuts the map into owners of four neighbours, ``"4 interleaved"`` deals
    neighbours out to different owners, ``"1"`` lets each sensor be its own, ``"given"`` takes the
    owners of the sensors file. Where the sensors are no multiple, some owners have one less.

    Examples
    --------
    >>> line = np.column_stack([np.arange(4.0), np.zeros(4)])
    >>> sensors = Sensors(("a", "b", "c", "d"), line, "metric")
    >>> deal(sensors, "2 compact"), deal(sensors, "2 interleaved")
    (('1', '1', '2', '2'), ('1', '2', '1', '2'))
    """
    if owners is None:
        return None
    size, how, M = owner_size(owners), arrangement(owners), len(sensors.ids)
    if owners == GIVEN:
        if sensors.sites is None:
            raise InputError("these sensors name no owners", where="owners", remedy="Leave it out")
        return sensors.sites
    if size is None or (size > 1 and not how):
        remedy = "Give '4 compact', '4 interleaved', '1' or 'given'"
        raise InputError(f"{owners!r} are no owners", where="owners", remedy=remedy)
    if sensors.coordinates is None or sensors.kind is None:
        problem = "these sensors have no coordinates to deal them out by"
        raise InputError(problem, where="owners", remedy="Leave it out")
    count = -(-M // size)
    groups = list(_cut(to_plane(sensors.coordinates, sensors.kind), np.arange(M), count))
    owner = np.empty(M, dtype=np.int64)
    if how == "interleaved":
        # Along the groups neighbours follow each other: they go to one owner after the other.
        owner[np.concatenate(groups)] = np.arange(M) % count
    else:
        for number, members in enumerate(groups):
            owner[members] = number
    return tuple(str(number + 1) for number in owner)


def _cut(plane: Array, members: NDArray[np.intp], count: int) -> Iterator[NDArray[np.intp]]:
    """Halve the map across its longer side until ``count`` groups are left."""
    if count == 1:
        yield members
        return
    axis = int(np.argmax(np.ptp(plane[members], axis=0)))
    order = members[np.argsort(plane[members, axis], kind="stable")]
    half = count // 2
    middle = round(len(members) * half / count)
    yield from _cut(plane, order[:middle], half)
    yield from _cut(plane, order[middle:], count - half)


@dataclass(frozen=True)
class Worth:
    """What federation is worth to owners of one kind.

    Attributes
    ----------
    gain, pooled_gain : by how much the error is lower than that of each owner alone, a share;
        the mean over cases (a data set and a pattern), errors summed over sensors and masks
    closed : ``gain / pooled_gain``; NaN where pooling gains nothing
    intervals : 95 % of each of the three, by a bootstrap over the sensors within their data sets;
        NaN for ``closed`` where pooling gains nothing in some draw
    by_data, by_pattern : ``closed`` of each data set and of each pattern
    """

    gain: float
    pooled_gain: float
    closed: float
    intervals: tuple[tuple[float, float], ...]
    by_data: dict[str, float]
    by_pattern: dict[str, float]


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """Federated rows beside the pooled one of the same mask: summed errors of each sensor.

    Columns: data, pattern, rate, seed, label, owners, size, how, hidden; alone, federated, pooled.
    """
    mask = ["data", "pattern", "rate", "seed"]
    fine = rows[rows["failed"].isna()]
    central = fine[fine["label"] == POOLED][[*mask, "sensor_error"]]
    ours = fine[fine["sensor_alone_error"].notna() & fine["owners"].notna()]
    both = ours.merge(
        central.rename(columns={"sensor_error": "pooled"}), on=mask, validate="many_to_one"
    )
    names = {"sensor_error": "federated", "sensor_alone_error": "alone", "sensor_hidden": "hidden"}
    both = both.rename(columns=names).assign(
        size=both["owners"].map(owner_size), how=both["owners"].map(arrangement)
    )
    told = ["label", "owners", "size", "how", "hidden", "alone", "federated", "pooled"]
    return both[[*mask, *told]]


KINDS = ("single sensors", "2 to 4 sensors")


def kinds(pairs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows by what is asked of owners: single sensors, two to four, then each size and place."""
    for name, sizes in zip(KINDS, ((1,), (2, 4)), strict=True):
        yield name, pairs[pairs["size"].isin(sizes)]
    for how in ("interleaved", "compact"):
        for size in sorted(pairs["size"].dropna().unique()):
            if size > 1:
                chosen = pairs[(pairs["size"] == size) & (pairs["how"] == how)]
                yield f"{size:g} {how}", chosen
    yield "as they are", pairs[pairs["owners"] == GIVEN]


def added_error(label: str) -> float:
    """The noise of a configuration, from its label: the default for our own.

    >>> added_error("flfl"), added_error("added_error 0.5")
    (1.0, 0.5)
    """
    return 1.0 if label == OURS else float(label.split(" ")[1])


def by_noise(pairs: pd.DataFrame) -> Iterator[tuple[str, float, Worth]]:
    """What is closed for single sensors, and for owners of two to four, by the added error.

    On the cases and owners that all configurations were run on, so that they differ in noise alone.
    """
    half = pairs[pairs["pattern"].isin(("random", "block"))]
    for kind, group in list(kinds(half))[: len(KINDS)]:
        case = ["data", "pattern", "rate", "seed", "owners"]
        there = group.groupby(case)["label"].transform("nunique")
        common = group[there == group["label"].nunique()]
        for label in sorted(common["label"].unique(), key=added_error):
            found = worth(common[common["label"] == label])
            assert found is not None
            yield kind, added_error(label), found


def cells(pairs: pd.DataFrame) -> pd.DataFrame:
    """Rows of :func:`paired` as one for each data set, gaps, owners and configuration.

    ``masks`` are those that it was run on, ``change`` is how far the error in total, over all of
    them, is above that of the owners alone.
    """
    sums = pairs.assign(
        **{
            name: pairs[name].map(lambda errors: float(np.sum(errors)))
            for name in ("alone", "federated")
        },
        masks=1,
    )
    what = ["data", "pattern", "rate", "label", "owners"]
    found = sums.groupby(what, sort=False, as_index=False)[["alone", "federated", "masks"]].sum()
    return found.assign(change=found["federated"] / found["alone"] - 1)


def below_alone(pairs: pd.DataFrame) -> pd.DataFrame:
    """The :func:`cells` whose error is above that of the owners alone, the worst first."""
    found = cells(pairs)
    return found[found["change"] > 0].sort_values("change", ascending=False)


def worth(pairs: pd.DataFrame, draws: int = DRAWS, seed: int = 0) -> Worth | None:
    """What federation is worth in the given rows of :func:`paired`; None where there are none.

    Every case weighs the same, in whatever units its readings are: errors are divided by those of
    the owners alone.

    Examples
    --------
    >>> errors = {"alone": [2.0, 2.0], "federated": [1.0, 1.5], "pooled": [1.0, 1.0]}
    >>> found = worth(pd.DataFrame([{"data": "D", "pattern": "random", **errors}]))
    >>> found.gain, found.pooled_gain, found.closed
    (0.375, 0.5, 0.75)
    """
    if pairs.empty:
        return None
    rng = np.random.default_rng(seed)
    gains: dict[tuple[str, str], Array] = {}
    for data, group in pairs.groupby("data", sort=False):
        M = len(group["alone"].iloc[0])
        # The first draw is the sample itself; patterns of a data set share their draws.
        weights = np.vstack([np.ones(M), rng.multinomial(M, np.full(M, 1 / M), size=draws)])
        for pattern, case in group.groupby("pattern", sort=False):
            errors = [_total(case[name]) for name in ("alone", "federated", "pooled")]
            alone, federated, pooled = np.array(errors) @ weights.T
            gains[str(data), str(pattern)] = np.array([1 - federated / alone, 1 - pooled / alone])
    gain, central = np.mean(list(gains.values()), axis=0)
    closed = np.array([_ratio(a, b) for a, b in zip(gain, central, strict=True)])
    # Where pooling gains nothing in some draw, the ratio has no interval: NaN.
    drawn = [np.percentile(figure[1:], (2.5, 97.5)) for figure in (gain, central, closed)]
    by_data, by_pattern = (
        {
            name: _ratio(*np.mean([own[:, 0] for key, own in gains.items() if key[at] == name], 0))
            for name in dict.fromkeys(key[at] for key in gains)
        }
        for at in (0, 1)
    )
    return Worth(
        float(gain[0]),
        float(central[0]),
        float(closed[0]),
        tuple((float(low), float(high)) for low, high in drawn),
        by_data,
        by_pattern,
    )


def _total(errors: Sequence[Sequence[float]] | pd.Series) -> Array:
    """Each sensor's error over all masks."""
    return np.sum([np.asarray(one, dtype=float) for one in errors], axis=0)


def _ratio(gain: float, central: float) -> float:
    return float(gain / central) if central > 0 else float("nan")
