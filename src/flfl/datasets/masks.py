"""Masks: hide known readings so that a method can be scored on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flfl.config import Count, Settings
from flfl.errors import InputError

PATTERNS = ("random", "block", "outage")
OUTAGE_SHARE = 0.04
_REGION_SHARE = 1 / 3
# Runs that hide nothing new, one after another, before it is given up.
_PATIENCE = 1000

Mask = NDArray[np.bool_]
Regions = Sequence[object] | NDArray[Any] | None


class MaskSettings(Settings):
    """Which share is kept, and how the rest is hidden; see `hide`."""

    rate: Annotated[float, Field(gt=0, le=1)]
    pattern: Literal["random", "block", "outage"]
    block_length: Count


def hide(
    known: Mask,
    rate: float,
    pattern: str,
    rng: np.random.Generator,
    *,
    block_length: int = 24,
    regions: Regions = None,
) -> Mask:
    """Hide known entries until the share ``rate`` of them is kept.

    ``known`` (sensors x slots) says which entries hold a reading; gaps are never part of the
    result, which says the same of those that are kept. ``pattern`` is ``"random"``: one by one, the
    count is exact; ``"block"``: contiguous runs of ``block_length`` slots of one sensor;
    ``"outage"``: runs of 4 % of all slots, each of a whole sensor or, for a third of them when
    ``regions`` (one per sensor) are given, of a whole region at once.

    The share is met within one run. Every sensor keeps a reading as long as there are enough to
    keep. Refused when runs of this length cannot hide that many.

    Examples
    --------
    >>> kept = hide(np.ones((3, 8), dtype=bool), 0.5, "random", np.random.default_rng(0))
    >>> int(kept.sum())
    12
    """
    known = np.asarray(known)
    MaskSettings.check({"rate": rate, "pattern": pattern, "block_length": block_length})
    problem = where = ""
    if known.ndim != 2 or known.dtype != np.bool_:
        where, problem = "known", f"shape {known.shape} and type {known.dtype}, not sensors x slots"
    elif pattern == "block" and block_length > known.shape[1]:
        where = "block_length"
        problem = f"a block of {block_length} slots is longer than the table of {known.shape[1]}"
    elif regions is not None and len(regions) != len(known):
        where, problem = "regions", f"{len(regions)} regions are given for {len(known)} sensors"
    if problem:
        raise InputError(problem, where=where, remedy="Give what fits the bool array of readings")
    total = int(known.sum())
    target = max(round(rate * total), min(total, 1))
    if pattern == "random":
        return _keep_random(known, target, rng)
    if pattern == "block":
        return _keep_blocks(known, target, block_length, rng)
    return _keep_outside_outages(known, target, regions, rng)


def _keep_random(known: Mask, target: int, rng: np.random.Generator) -> Mask:
    """Keep exactly ``target`` entries, at least one a sensor when the target allows it."""
    kept, entries = np.zeros(known.shape, dtype=bool), np.flatnonzero(known)
    if target >= len(entries):
        return known.copy()
    rank, count = rng.random(len(entries)), known.sum(axis=1)
    start, has_any = np.cumsum(count) - count, count > 0
    # One entry of every sensor goes to the front of the queue, the rest keep their order.
    rank[start[has_any] + rng.integers(count[has_any])] -= 1.0
    kept.flat[entries[np.argpartition(rank, target)[:target]]] = True
    return kept


def _keep_blocks(known: Mask, target: int, length: int, rng: np.random.Generator) -> Mask:
    """Cut every sensor's slots into runs at a random phase and hide runs in random order."""
    sensors, slots = known.shape
    phase = rng.integers(length, size=(sensors, 1))
    runs = -(-slots // length) + 1
    run = (np.arange(slots) + phase) // length + runs * np.arange(sensors)[:, None]
    size = np.bincount(run[known], minlength=sensors * runs)
    queue = rng.permutation(np.flatnonzero(size))
    # One run of every sensor stays out of the queue, so that no sensor loses all readings.
    _, spared = np.unique(queue // runs, return_index=True)
    queue = np.delete(queue, spared)
    # As many runs as bring the hidden count closest to the wanted one.
    hidden, wanted = np.concatenate([[0], np.cumsum(size[queue])]), int(known.sum()) - target
    count = int(np.argmin(np.abs(hidden - wanted)))
    # The spared runs hold more than may be kept when they are long or the rate is low.
    if wanted - hidden[count] > length:
        raise _cannot_hide("block", length, int(hidden[count]), wanted)
    lost = np.zeros(sensors * runs, dtype=bool)
    lost[queue[:count]] = True
    return np.asarray(known & ~lost[run], dtype=np.bool_)


def _keep_outside_outages(
    known: Mask, target: int, regions: Regions, rng: np.random.Generator
) -> Mask:
    sensors, slots = known.shape
    length = max(1, round(OUTAGE_SHARE * slots))
    named = range(sensors) if regions is None else [str(region) for region in regions]
    _, label = np.unique(np.array(named), return_inverse=True)
    members = [np.flatnonzero(label == region) for region in range(label.max(initial=-1) + 1)]
    kept = known.copy()
    left = kept.sum(axis=1)
    excess, idle = int(left.sum()) - target, 0
    while excess > 0 and idle < _PATIENCE:
        by_region = regions is not None and rng.random() < _REGION_SHARE
        hit = members[rng.integers(len(members))] if by_region else rng.integers(sensors, size=1)
        # Runs that would stick out are pushed back in: the ends are hit as often as the middle.
        start = int(np.clip(rng.integers(1 - length, slots), 0, slots - length))
        gain = kept[hit, start : start + length].sum(axis=1)
        gain[gain == left[hit]] = 0  # a sensor keeps its last readings
        hit, total = hit[gain > 0], int(gain.sum())
        if total == 0 or total >= 2 * excess:
            idle += 1
            continue
        kept[hit, start : start + length] = False
        left[hit] -= gain[gain > 0]
        excess, idle = excess - total, 0
    if excess > length * max(map(len, members), default=1):
        wanted = int(known.sum()) - target
        raise _cannot_hide("outage", length, wanted - excess, wanted)
    return kept


def _cannot_hide(pattern: str, length: int, hidden: int, wanted: int) -> InputError:
    shorter = "a shorter block_length, " if pattern == "block" else ""
    problem = (
        f"runs of {length} slots can hide only {hidden} of the {wanted} readings that the rate"
    )
    problem += " asks for, since every sensor keeps some"
    remedy = f"Use {shorter}a higher rate or the pattern random"
    return InputError(problem, where=f"pattern {pattern}", remedy=remedy)
