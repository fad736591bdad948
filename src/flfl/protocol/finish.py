"""After the last message: an owner's result at home, and a table that it may publish.

The result uses public numbers and clean readings, and nothing of it leaves. The published table
uses public numbers and copies only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flfl.constants import BAD_SLOT, CLEAN_SHARE, PUBLISHED_DIGITS, WORST_FIT
from flfl.ensemble import personal
from flfl.ensemble.estimate import Frame, Home, Units
from flfl.ensemble.holdout import draw_holdouts
from flfl.ensemble.plausible import plausible
from flfl.ensemble.recovery import Recovered, recover
from flfl.model import Array, Index, Mask
from flfl.model.state_space import Posterior
from flfl.model.transforms import BACKWARD, FORWARD, fit_offsets, season_rows
from flfl.protocol.client import Client, Finished
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.network import Network, Own, window
from flfl.protocol.owner import Table, digests, own_units


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


def finish_run(client: Client, effort: Effort, first: int = 0) -> Recovered:
    """The result of a site whose run has ended, from the slot ``first`` on."""
    state, network = client.state, client.network
    assert isinstance(state, Finished)
    own = OwnPart(network.rows(state.run.name), client.outgoing.copies, state.offsets)
    return finish_since(first, client.owner.table, effort, network, own)


def finish_since(
    first: int, table: Table, effort: Effort, network: Network, own: OwnPart | None
) -> Recovered:
    """An owner's own result from a slot on, which the network must not have forgotten."""
    own = None if own is None else own._replace(copies=own.copies[:, first:])
    part, here = table.between(first), window(network, first)
    return finish_at_home(part, effort, network.plan.units(), here, own)


def finish_at_home(
    table: Table,
    effort: Effort,
    choices: Sequence[tuple[str, int]],
    network: Network | None = None,
    own: OwnPart | None = None,
) -> Recovered:
    """An owner's own result. By itself it takes the transform and season of its own ``choice``, in
    the network the network's. There is no network for an owner by itself, and no own part for
    sensors that had none in the release."""
    held = draw_holdouts(table.known, np.random.default_rng(effort.seed), per_hour=effort.per_hour)
    home = Home(
        table.raw, table.known, held, plausible(table.raw, table.known),
        np.round(table.positions).astype(np.intp) % max(effort.period, 1), effort.boost,
        effort.coverage, effort.per_hour,
    )  # fmt: skip
    alone = _frame(table, held, own_units(table.raw, table.known, choices, table.positions))
    shared = None
    if network is not None and network.numbers.any():
        shared = _frame(table, held, (network.transform, network.season), network.scale)
        Y = shared.units.centred(table.raw, table.known)
        try:
            with np.errstate(all="ignore"):
                said, guess = _shared(table, network, own, Y)
            shared = replace(shared, shared=said, guess=guess) if said.information.any() else None
        except np.linalg.LinAlgError:  # somebody's part of the sums is nonsense
            shared = None
    return recover(home, alone, shared, effort.seed)


def _frame(table: Table, held: Mask, units: tuple[str, int], scale: float | None = None) -> Frame:
    """Units of an owner's readings. The release is in units of the copies; at home centre and
    season are those of clean readings: without the held-out ones while candidates are judged, with
    them for the result."""
    transform, season = units
    rows = season_rows(table.positions, season)
    X = FORWARD[transform](np.where(table.known, table.raw, 0.0))
    offset, *before = (
        fit_offsets(X, used.astype(float), rows) @ rows
        for used in (table.known, *(table.known & ~held))
    )
    if scale is None:
        square = np.where(table.known, X - offset, 0.0) ** 2
        scale = float(np.sqrt(square.sum() / max(int(table.known.sum()), 1))) or 1.0
    whole, *left = (Units(transform, one, scale) for one in (offset, *before))
    return Frame(whole, tuple(left), np.zeros_like(offset))


def own_part(table: Table, network: Network, store: CopyStore) -> OwnPart | None:
    """What an owner that was away has in the release, from its store; None where it has nothing in
    it, or has other sensors now."""
    row_of = {digest.tobytes(): n for n, digest in enumerate(network.sensors)}
    rows = np.array([row_of.get(digest.tobytes(), -1) for digest in digests(table.ids)])
    if (rows < 0).any() or not network.known[rows].any():
        return None
    stored = [store.read(sensor, table.instants)[0] for sensor in table.ids]
    copies = np.array(stored).reshape(table.raw.shape)
    made = np.array([store.arrivals(sensor, table.instants) for sensor in table.ids])
    arrival = np.searchsorted(table.instants, made)
    J = np.isfinite(copies) & (arrival < network.units_stop[rows][:, None])
    season = season_rows(table.positions, network.season)
    offsets = fit_offsets(np.where(J, copies, 0.0), J.astype(float), season)
    return OwnPart(rows, copies, offsets)


def _shared(
    table: Table, network: Network, own: OwnPart | None, Y: Array
) -> tuple[personal.Shared, Array]:
    """What the network says without this owner's copies, and the public curve of its sensors."""
    J = table.known
    r = np.maximum(0.5 * (Y**2).sum(axis=1) / np.maximum(J.sum(axis=1), 1), 1e-6)
    found, guess = network.inferred, np.zeros(Y.shape)
    ratio, middle = network.quality
    if own is None:
        information, vector = found.information.copy(), found.vector.copy()
    else:
        copies, n = own.copies[:, : network.n_slots], network.n_slots
        offset = (own.offsets @ season_rows(table.positions, network.season))[:, :n]
        there = network.known[own.rows] & np.isfinite(copies)
        C = np.where(there, (copies - offset) / network.scale, 0.0)
        information, vector = network.without(Own(own.rows, C, there))
        guess = network.P[own.rows] @ found.post.mean.T
        noisy = network.r[own.rows] + network.sigma2_of(own.rows).max(axis=1)
        clean = np.maximum(network.r[own.rows], CLEAN_SHARE * noisy)
        r = np.where(network.known[own.rows].any(axis=1), clean, r)
    good = (ratio < BAD_SLOT) & (middle < WORST_FIT)
    information[~good], vector[~good] = 0.0, 0.0
    shared = personal.Shared(information, vector, network.dynamics, r)
    return shared, guess


def published(network: Network, post: Posterior, ids: Sequence[str], copies: Array) -> Array:
    """A site's sensors from its copies and the public model, in the readings' units (m, N).

    A copy where there is one, ``p . m`` of the public posterior elsewhere, to six significant
    digits; NaN for a sensor that stayed at home. Tables with equal copies give equal bytes,
    whatever their readings.
    """
    at = {sensor.tobytes(): row for row, sensor in enumerate(network.sensors)}
    rows, here = np.array([at[sensor.tobytes()] for sensor in digests(ids)]), network.here
    C = copies[:, here]
    there = np.isfinite(C)
    season = season_rows(network.positions[here], network.season)
    in_units = there & (np.arange(here.start, here.stop) < network.units_stop[rows, None])
    offset = fit_offsets(np.where(in_units, C, 0.0), in_units.astype(float), season) @ season
    curve = offset + network.scale * (network.P[rows] @ post.mean.T)
    values = BACKWARD[network.transform](np.where(there, C, curve))
    values = np.where(there.any(axis=1, keepdims=True), values, np.nan)
    size = np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0))
    unit = 10.0 ** (PUBLISHED_DIGITS - 1 - np.floor(np.log10(size)))
    return np.round(values * unit) / unit
