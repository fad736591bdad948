"""After the last message: an owner's finish at home, from public numbers and its clean readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble import estimate, personal
from flfl.ensemble.estimate import Home, Recovered, Units
from flfl.ensemble.holdout import draw_holdout
from flfl.model import loadings
from flfl.model.state_space import Dynamics
from flfl.model.transforms import FORWARD, fit_offsets, season_rows
from flfl.protocol import public
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import Outgoing, Table, Trial, digests
from flfl.protocol.public import Network

Array = NDArray[np.float64]
Index = NDArray[np.int64]

BAD_SLOT = 25.0
"""A slot whose chi^2 is so many times its numbers tells nothing: real slots stay below 11."""
WORST_FIT = 2.0
"""Median of chi^2 over numbers beyond which the whole release is not used: real ones are .4 to .9.
There is no lower limit: few numbers and many factors make it small."""


@dataclass(frozen=True)
class Effort:
    """How an owner finishes: ``boost`` (trees), ``coverage`` of the intervals, ``period`` of slots
    that the trees know as hour or month, ``seed`` of its draws, slots ``per_hour`` (1 where a slot
    is longer)."""

    boost: bool = True
    coverage: float = 0.9
    period: int = 0
    seed: int = 0
    per_hour: float = 1.0


def finish(
    table: Table,
    effort: Effort,
    trial: Trial,
    network: Network | None = None,
    own: tuple[Index, Outgoing, Array] | None = None,
) -> Recovered:
    """An owner's own result.

    Parameters
    ----------
    trial : transform and season
    network : the public state; None for an owner by itself
    own : the owner's rows in the network, what it let out, and the centre and season of its
        copies; None for sensors that had no part in the release
    """
    rng = np.random.default_rng(effort.seed)
    held = draw_holdout(table.known, rng, per_hour=effort.per_hour)
    rows = season_rows(table.positions, trial[1])
    X = FORWARD[trial[0]](np.where(table.known, table.raw, 0.0))
    # The release is in units of the copies; at home centre and season are those of clean readings:
    # without the held-out ones while candidates are judged, with them for the result.
    offset, before = (
        fit_offsets(X, used.astype(float), rows) @ rows
        for used in (table.known, table.known & ~held)
    )
    scale = _own_scale(X - offset, table) if network is None else network.scale
    units = Units(trial[0], offset, scale)
    shared, guess = _shared(table, network, own, units.forward(table.raw, table.known))
    home = Home(
        table.raw,
        table.known,
        held,
        units,
        Units(trial[0], before, scale),
        guess,
        np.round(table.positions).astype(np.intp) % max(effort.period, 1),
        effort.boost,
        effort.coverage,
        effort.per_hour,
    )
    return estimate.recover(home, shared, rng)


def own_part(
    table: Table, network: Network, store: CopyStore
) -> tuple[Index, Outgoing, Array] | None:
    """What an owner that was away has in the release, from its store: see ``own`` of `finish`.

    None where it has nothing in it, or has other sensors now.
    """
    rows = {digest.tobytes(): n for n, digest in enumerate(network.sensors)}
    sensors = digests(table.ids)
    at = np.array([rows.get(digest.tobytes(), -1) for digest in sensors])
    if (at < 0).any() or not network.known[at].any():
        return None
    stored = [store.read(sensor, table.instants) for sensor in table.ids]
    copies = np.array([values for values, _ in stored]).reshape(table.raw.shape)
    earlier = np.arange(len(table.instants)) < network.units_stop[at][:, None]
    J = np.isfinite(copies) & earlier
    waves = season_rows(table.positions, network.season)
    offsets = fit_offsets(np.where(J, copies, 0.0), J.astype(float), waves)
    return at, Outgoing(sensors, network.places[at], copies=copies), offsets


def _own_scale(Y: Array, table: Table) -> float:
    square = np.where(table.known, Y, 0.0) ** 2
    return float(np.sqrt(square.sum() / max(int(table.known.sum()), 1))) or 1.0


def _shared(
    table: Table, network: Network | None, own: tuple[Index, Outgoing, Array] | None, Y: Array
) -> tuple[personal.Shared, Array]:
    """What the network says without this owner's copies, and the public curve of its sensors."""
    (m, N), J = Y.shape, table.known
    spread = (Y**2).sum(axis=1) / np.maximum(J.sum(axis=1), 1)
    quiet = np.maximum(0.5 * spread, 1e-6)
    if network is None or not network.numbers.any():
        nothing = Dynamics(0.5 * np.eye(1), np.eye(1))
        silent = personal.Shared(
            np.zeros((N, 1, 1)), np.zeros((N, 1)), nothing, np.zeros((m, 1)), quiet
        )
        return silent, np.zeros_like(Y)
    post, _ = public.posterior(network)
    ratio, middle = public.fit_quality(network, post)
    made, z = network.design(), network.z
    P, r = np.zeros((m, network.P.shape[1])), quiet
    if own is not None:
        at, out, offsets = own
        made = made - network.design(at, np.isfinite(out.copies[:, : network.n_slots]))
        z = z - _own_part(network, at, out, offsets, season_rows(table.positions, network.season))
        speaks = network.known[at].any(axis=1)
        P = network.P[at]
        noisy = network.r[at] + network.sigma2[at].max(axis=1)
        r = np.where(speaks, np.maximum(network.r[at], 0.15 * noisy), quiet)
    good = (ratio < BAD_SLOT) & (middle < WORST_FIT)
    numbers = np.where(good, network.numbers, 0)
    information, vector = loadings.information(made, z, numbers)
    shared = personal.Shared(information, vector, network.dynamics, P, r)
    return shared, P @ post.mean.T


def _own_part(network: Network, at: Index, out: Outgoing, offsets: Array, rows: Array) -> Array:
    """This owner's part of the release (N, K)."""
    N = network.n_slots
    C = (out.copies[:, :N] - (offsets @ rows)[:, :N]) / network.scale
    C = np.where(network.known[at], np.nan_to_num(C), 0.0)
    return loadings.released(C, network.weights[at], network.phi[at], network.numbers)
