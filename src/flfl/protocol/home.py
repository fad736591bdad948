"""After the last message: an owner's finish at home, from public numbers and its clean readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.ensemble import estimate, personal
from flfl.ensemble.candidates import phase
from flfl.ensemble.estimate import Home, Recovered, Units
from flfl.model import loadings
from flfl.model.season import fit_offsets, season_rows
from flfl.model.state_space import Dynamics
from flfl.model.transforms import FORWARD
from flfl.protocol import public
from flfl.protocol.owner import Outgoing, Table, Trial
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
    that the trees know as hour or month, ``seed`` of its draws."""

    boost: bool = True
    coverage: float = 0.9
    period: int = 0
    seed: int = 0


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
    rows = season_rows(table.positions, trial[1])
    X = FORWARD[trial[0]](np.where(table.known, table.raw, 0.0))
    # The release is in units of the copies; at home centre and season are those of clean readings.
    offset = fit_offsets(X, table.known.astype(float), rows) @ rows
    scale = _own_scale(X - offset, table) if network is None else network.scale
    units = Units(trial[0], offset, scale)
    Y = units.forward(table.raw, table.known)
    shared, guess = _shared(table, network, own, Y)
    home = Home(
        table.raw,
        Y,
        table.known,
        units,
        guess,
        phase(table.positions, effort.period),
        effort.boost,
        effort.coverage,
    )
    return estimate.recover(home, shared, np.random.default_rng(effort.seed))


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
        made = made - network.design(at)
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
