"""After the last message: an owner's result at home, and a table that it may publish.

The result uses public numbers and clean readings, and nothing of it leaves. The published table
uses public numbers and copies only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flfl.constants import BAD_SLOT, CLEAN_SHARE, PUBLISHED_DIGITS, WORST_FIT
from flfl.ensemble import estimate, personal
from flfl.ensemble.estimate import Home, Recovered, Units
from flfl.ensemble.holdout import draw_holdout
from flfl.model import Array, Index, loadings
from flfl.model.state_space import Dynamics, Posterior
from flfl.model.transforms import BACKWARD, FORWARD, fit_offsets, season_rows
from flfl.protocol.client import Client, Finished
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.network import Inference, Network, fit_quality, posterior
from flfl.protocol.owner import Table, digests


@dataclass(frozen=True)
class Effort:
    """How an owner finishes."""

    boost: bool = True  # with trees
    coverage: float = 0.9  # of the intervals
    period: int = 0  # of slots, that the trees know as hour or month
    seed: int = 0
    per_hour: float = 1.0  # slots; 1 where a slot is longer


class OwnPart(NamedTuple):
    """What an owner has in a release: its rows in the network (m,), its copies there (m, N), and
    their centre and season (m, OFFSETS)."""

    rows: Index
    copies: Array
    offsets: Array


def finish_run(client: Client, effort: Effort) -> Recovered:
    """The result of a site whose run has ended."""
    state = client.state
    assert isinstance(state, Finished)
    network = state.network
    own = OwnPart(network.rows(state.run.name), client.outgoing.copies, state.offsets)
    units = network.transform, network.season
    return finish_at_home(client.owner.table, effort, units, network, own, state.run.infer)


def finish_at_home(
    table: Table,
    effort: Effort,
    units: tuple[str, int],
    network: Network | None = None,
    own: OwnPart | None = None,
    infer: Inference = posterior,
) -> Recovered:
    """An owner's own result under a transform and a season. There is no network for an owner by
    itself, and no own part for sensors that had none in the release."""
    rng = np.random.default_rng(effort.seed)
    held = draw_holdout(table.known, rng, per_hour=effort.per_hour)
    rows = season_rows(table.positions, units[1])
    X = FORWARD[units[0]](np.where(table.known, table.raw, 0.0))
    # The release is in units of the copies; at home centre and season are those of clean readings:
    # without the held-out ones while candidates are judged, with them for the result.
    offset, before = (
        fit_offsets(X, used.astype(float), rows) @ rows
        for used in (table.known, table.known & ~held)
    )
    if network is None:
        square = np.where(table.known, X - offset, 0.0) ** 2
        scale = float(np.sqrt(square.sum() / max(int(table.known.sum()), 1))) or 1.0
    else:
        scale = network.scale
    whole = Units(units[0], offset, scale)
    shared, guess = _shared(table, network, own, whole.forward(table.raw, table.known), infer)
    home = Home(
        table.raw, table.known, held, whole, Units(units[0], before, scale), guess,
        np.round(table.positions).astype(np.intp) % max(effort.period, 1), effort.boost,
        effort.coverage, effort.per_hour,
    )  # fmt: skip
    return estimate.recover(home, shared, rng)


def own_part(table: Table, network: Network, store: CopyStore) -> OwnPart | None:
    """What an owner that was away has in the release, from its store; None where it has nothing in
    it, or has other sensors now."""
    row_of = {digest.tobytes(): n for n, digest in enumerate(network.sensors)}
    rows = np.array([row_of.get(digest.tobytes(), -1) for digest in digests(table.ids)])
    if (rows < 0).any() or not network.known[rows].any():
        return None
    stored = [store.read(sensor, table.instants)[0] for sensor in table.ids]
    copies = np.array(stored).reshape(table.raw.shape)
    J = np.isfinite(copies) & (np.arange(len(table.instants)) < network.units_stop[rows][:, None])
    season = season_rows(table.positions, network.season)
    offsets = fit_offsets(np.where(J, copies, 0.0), J.astype(float), season)
    return OwnPart(rows, copies, offsets)


def _shared(
    table: Table, network: Network | None, own: OwnPart | None, Y: Array, infer: Inference
) -> tuple[personal.Shared, Array]:
    """What the network says without this owner's copies, and the public curve of its sensors."""
    (m, N), J = Y.shape, table.known
    spread = (Y**2).sum(axis=1) / np.maximum(J.sum(axis=1), 1)
    r = np.maximum(0.5 * spread, 1e-6)
    if network is None or not network.numbers.any():
        none = np.zeros((N, 1, 1)), np.zeros((N, 1)), Dynamics(0.5 * np.eye(1), np.eye(1))
        return personal.Shared(*none, np.zeros((m, 1)), r), np.zeros_like(Y)
    post, _ = infer(network)
    ratio, middle = fit_quality(network, post)
    (F, R), z, P = network.design(), network.z, np.zeros((m, network.P.shape[1]))
    if own is not None:
        copies, n = own.copies[:, : network.n_slots], network.n_slots
        own_F, own_R = network.design(own.rows, np.isfinite(copies))
        F, R = F - own_F, R - own_R
        offset = (own.offsets @ season_rows(table.positions, network.season))[:, :n]
        C = np.nan_to_num((copies - offset) / network.scale)
        C = np.where(network.known[own.rows], C, 0.0)
        weights, phi = network.weights[own.rows], network.phi[own.rows]
        z = z - loadings.released(C, weights, phi, network.numbers)
        P = network.P[own.rows]
        noisy = network.r[own.rows] + network.sigma2[own.rows].max(axis=1)
        clean = np.maximum(network.r[own.rows], CLEAN_SHARE * noisy)
        r = np.where(network.known[own.rows].any(axis=1), clean, r)
    good = (ratio < BAD_SLOT) & (middle < WORST_FIT)
    observed = loadings.information(F, R, z, np.where(good, network.numbers, 0))
    return personal.Shared(*observed, network.dynamics, P, r), P @ post.mean.T


def published(network: Network, post: Posterior, ids: Sequence[str], copies: Array) -> Array:
    """A site's sensors from its copies and the public model, in the readings' units (m, N).

    A copy where there is one, ``p . m`` of the public posterior elsewhere, to six significant
    digits; NaN for a sensor that stayed at home. Tables with equal copies give equal bytes,
    whatever their readings.
    """
    at = {sensor.tobytes(): row for row, sensor in enumerate(network.sensors)}
    rows, N = np.array([at[sensor.tobytes()] for sensor in digests(ids)]), network.n_slots
    C = copies[:, :N]
    there = np.isfinite(C)
    season = season_rows(network.positions[:N], network.season)
    in_units = there & (np.arange(N) < network.units_stop[rows, None])
    offset = fit_offsets(np.where(in_units, C, 0.0), in_units.astype(float), season) @ season
    curve = offset + network.scale * (network.P[rows] @ post.mean.T)
    values = BACKWARD[network.transform](np.where(there, C, curve))
    values = np.where(there.any(axis=1, keepdims=True), values, np.nan)
    size = np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0))
    unit = 10.0 ** (PUBLISHED_DIGITS - 1 - np.floor(np.log10(size)))
    return np.round(values * unit) / unit
