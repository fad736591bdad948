"""An owner's result: interpolation, its own model and the network's, each as far as it earns it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble import stacking
from flfl.ensemble.choice import shares
from flfl.ensemble.estimate import Frame, Home, Stack, halves, stack
from flfl.ensemble.interpolators import interpolate_linear, neighbours
from flfl.ensemble.intervals import Calibration, calibrate, interval

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

METHODS = ("interpolation", "site", "network")
"""What a value may come from, from the simplest: the sensor's own neighbours in time, the owner's
sensors, the network."""


@dataclass(frozen=True)
class Recovered:
    """An owner's result in the readings' units, each (m, N).

    ``method`` is the one of ``METHODS``, by number, with the largest share in an estimate;
    ``holdout`` holds the estimates of the held-out readings (NaN elsewhere); ``inside`` tells
    whether each lay in an interval calibrated on the other half (NaN elsewhere). ``site`` and
    ``site_holdout`` are the estimates of the owner by itself.
    """

    estimate: Array
    lower: Array
    upper: Array
    method: Array
    holdout: Array
    inside: Array
    site: Array
    site_holdout: Array


@dataclass(frozen=True)
class Mixed:
    """Estimates (m, N) and those of the held-out readings (n,), with the shares of all methods so
    far in each entry (methods, m, N)."""

    estimate: Array
    honest: Array
    share: Array


def recover(home: Home, alone: Frame, network: Frame | None, seed: int) -> Recovered:
    """Every entry of an owner's table: by itself as ``alone``, with the network if there is one.

    The draws are those of ``seed``, the same for the owner by itself whether or not there is a
    network.
    """
    by_itself = stack(home, alone, np.random.default_rng([seed, 0]))
    mixed = own = add(home, _interpolated(home, by_itself), by_itself)
    last = by_itself
    if network is not None:
        shared = _from_network(home, network, np.random.default_rng([seed, 1]), by_itself)
        if shared is not None:
            mixed, last = add(home, own, shared), shared
    return _finished(home, mixed, own, last)


def _interpolated(home: Home, by_itself: Stack) -> Mixed:
    """Linear interpolation of each sensor's own readings that are no spikes."""
    used = home.known & by_itself.calm
    whole, *parts = (
        interpolate_linear(neighbours(np.where(J, home.raw, 0.0), J, 1))
        for J in (used, *(used & ~home.held))
    )
    return Mixed(whole, np.stack(parts)[home.held], np.ones((1, *home.raw.shape)))


def _from_network(home: Home, frame: Frame, rng: np.random.Generator, own: Stack) -> Stack | None:
    """The stack with what the network says; None where that makes no numbers."""
    try:
        with np.errstate(all="ignore"):
            made = stack(home, frame, rng, own)
    except np.linalg.LinAlgError:
        return None
    parts = made.estimate, made.honest, *made.features
    return made if all(np.isfinite(part).all() for part in parts) else None


def add(home: Home, base: Mixed, better: Stack) -> Mixed:
    """A better estimate as far as the held-out readings show that it is one, and less where the
    network tells less than at these: an outage may silence its neighbours too."""
    m, half, run, (_, sensor, slot) = len(home.raw), halves(home), home.stretches, home.places
    near, final = better.near
    groups = stacking.group_bins(np.bincount(near, minlength=stacking.BINS).astype(float))
    group, shape = groups[near], (m, int(groups[-1]) + 1)
    spread = _spreads(home)[sensor]
    b, c, y = (x / spread for x in (base.honest, better.honest, home.truth))

    def learn(part: Mask) -> Array:
        at = sensor[part], group[part]
        return shares(b[part], c[part], y[part], at, run[part], shape)

    honest = base.honest.copy()
    for use in (half, ~half):  # each half of the held-out readings by the share of the other
        move = better.told[sensor[use], slot[use]] * (better.honest[use] - base.honest[use])
        honest[use] += learn(~use)[sensor[use], group[use]] * move
    share = learn(np.ones(len(half), bool))[np.arange(m)[:, None], groups[final]] * better.told
    estimate = base.estimate + share * (better.estimate - base.estimate)
    return Mixed(estimate, honest, np.concatenate([base.share * (1 - share), share[None]]))


def _spreads(home: Home) -> Array:
    """Standard deviation of each sensor's readings (m,), 1 where it has none."""
    n = np.maximum(home.known.sum(axis=1), 1)
    mean = np.where(home.known, home.raw, 0.0).sum(axis=1) / n
    off = np.where(home.known, home.raw - mean[:, None], 0.0)
    spread = np.sqrt((off**2).sum(axis=1) / n)
    return np.where(spread > 0, spread, 1.0)


def _finished(home: Home, mixed: Mixed, own: Mixed, last: Stack) -> Recovered:
    """The result with its intervals, and that of the owner by itself."""
    lower, upper, hit = _intervals(home, mixed, last)
    (estimate, holdout), (site, site_holdout) = (_resolved(home, x) for x in (mixed, own))
    inside = _first(home, hit)
    return Recovered(
        estimate,
        np.minimum(lower, estimate),
        np.maximum(upper, estimate),
        np.argmax(mixed.share, axis=0).astype(float),
        holdout,
        inside,
        site,
        site_holdout,
    )


def _first(home: Home, values: Array | Mask) -> Array:
    """What is said of the held-out readings (n,) as a table (m, N), NaN elsewhere: of one that
    several draws hold out, what the first says."""
    out = np.full(home.raw.shape, np.nan)
    draw, sensor, slot = home.places
    for n in range(len(home.held))[::-1]:
        at = draw == n
        out[sensor[at], slot[at]] = values[at]
    return out


def _resolved(home: Home, mixed: Mixed) -> tuple[Array, Array]:
    """Estimates (m, N) and those of held-out readings (m, N; NaN elsewhere), within what is
    plausible, and on multiples of the readings' resolution where that is better."""
    (low, high), (_, rows, _) = home.limits, home.places
    steps, width = stacking.resolutions(home.raw, home.known), 0.0
    if len(rows):
        width = stacking.choose_width(mixed.honest, steps[rows], home.truth)
    holdout = _first(home, stacking.snap(mixed.honest, steps[rows], width))
    estimate = stacking.snap(mixed.estimate, steps[:, None], width)
    return np.clip(estimate, low, high), np.clip(holdout, low, high)


def _intervals(home: Home, mixed: Mixed, last: Stack) -> tuple[Array, Array, Mask]:
    """Lower and upper ends (m, N), and whether each held-out reading (n,) lies in an interval that
    was calibrated on the other half. They are calibrated in the units of the last stack."""
    half, (low, high), units = halves(home), home.limits, last.frame.units
    run, lengths = home.runs
    worth = lengths[run].astype(float) ** -0.5
    error = units.apart(home.truth, mixed.honest)
    features, near, hit = last.features[0], last.near[0], np.empty(len(half), bool)

    def learn(part: Mask) -> Calibration:
        at = features[:, part], error[part], near[part]
        return calibrate(*at, stacking.BINS, level=home.coverage, worth=worth[part])

    for use in (half, ~half):
        least, most = interval(np.zeros(use.sum()), features[:, use], near[use], learn(~use))
        hit[use] = (least <= error[use]) & (error[use] <= most)
    found = learn(np.ones(len(half), bool))
    limits = interval(units.forward(mixed.estimate), last.features[1], last.near[1], found)
    lower, upper = (units.back(end, (low, high)) for end in limits)
    return lower, upper, hit
