"""What an adversary holds after a run, and apart from it the truth that the owners keep.

The view is made from what the coordinator heard, and from nothing else: its program is run again on
the recorded answers. The truth is put together from the owners' readings and their copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.estimators.flfl import FLFL
from flfl.estimators.owners import Sites
from flfl.estimators.saved_model import Remembered
from flfl.io.sensors import Sensors
from flfl.model.transforms import BACKWARD, FORWARD, fit_offsets, season_rows
from flfl.protocol.owner import digests
from flfl.protocol.plan import Plan
from flfl.protocol.public import Network
from flfl.protocol.server import Coordination
from flfl.protocol.session import Ask, Replies
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Refit:
    """One round: the public state that the sites were asked about, and the loadings they answered.

    ``P`` (M, k) and ``r`` (M,); rows of sites that did not answer are NaN.
    """

    network: Network
    P: Array
    r: Array


@dataclass(frozen=True)
class View:
    """All that the coordinator saw. Rows are sensors, in the network's order.

    Attributes
    ----------
    network : the public state at the end: z, phi, weights, numbers, P, r, dynamics, known, sigma2
    refits : every round's loadings, over all runs
    secure : whether the sites' parts of the sums were hidden; if not, the sums of a site's sensors
        count as their copies
    """

    network: Network
    refits: tuple[Refit, ...] = ()
    secure: bool = True


@dataclass(frozen=True)
class Truth:
    """What the owners kept, in the network's units unless said otherwise: (M, N) each.

    Attributes
    ----------
    ids : of the sensors, in the network's order
    raw : readings in their own units, NaN where there is none
    clean, copies : readings and their copies, 0 where there is none
    known : where there are readings
    offset : centre and season of each sensor's copies, on the transformed scale
    """

    ids: tuple[str, ...]
    raw: Array
    clean: Array
    copies: Array
    known: Mask
    offset: Array

    def to_raw(self, X: Array, network: Network) -> Array:
        """The network's units to the readings' own (M, N)."""
        return BACKWARD[network.transform](X * network.scale + self.offset)


def replay(
    plan: Plan, positions: Array, heard: Sequence[Replies], earlier: Network | None = None
) -> tuple[Network, tuple[Refit, ...]]:
    """The public state after a run and its refits, from what the coordinator heard."""
    run = Coordination(plan, positions, Traffic(), earlier)
    program, refits = run.program(), []
    ask = next(program)
    for number, replies in enumerate(heard):
        if ask.kind in ("begin", "refit"):
            assert run.network is not None
            refits.append(_refit(run.network, replies))
        try:
            ask = program.send(replies)
        except StopIteration:
            assert number == len(heard) - 1
    assert run.network is not None
    return run.network, tuple(refits)


def _refit(network: Network, replies: Replies) -> Refit:
    P, r = np.full_like(network.P, np.nan), np.full_like(network.r, np.nan)
    for name, body in replies.by_site.items():
        P[network.rows(name)], r[network.rows(name)] = body["P"], body["r"]
    return Refit(network, P, r)


def watch(
    readings: pd.DataFrame,
    sensors: Sensors | None = None,
    *,
    sites: Sites | None = None,
    nights: int = 0,
    to_the_end: bool = False,
    **settings: Any,
) -> tuple[FLFL, View | None, Truth | None]:
    """Run the network and look on. View and truth are None where nothing was released.

    Parameters
    ----------
    readings : time x sensor
    nights : the last slots come in so many stretches, one after another, each released as it comes
    to_the_end : also finish at home, so that the model can fill gaps
    settings : of :class:`~flfl.estimators.flfl.FLFL`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.standard_normal((150, 4)) + rng.standard_normal((150, 1)).cumsum(0))
    >>> _, view, truth = watch(X)
    >>> view.network.z.shape, truth.copies.shape, len(view.refits)
    ((150, 2), (4, 150), 5)
    """
    model = FLFL(**{"effort": "quick", **settings})
    length = stretch_length(len(readings), nights)
    view = None
    for night in range(nights + 1):
        earlier = None if view is None else model.remembered_
        heard: list[Replies] = []
        model.fit(
            readings.iloc[: len(readings) - (nights - night) * length],
            sensors=sensors,
            sites=sites,
            warm_start=earlier,
            witness=partial(_hear, heard),
            finish=to_the_end,
        )
        if not heard:
            break
        network, refits = replay(
            model.network_.plan,
            model.network_.positions,
            heard,
            None if earlier is None else earlier.network,
        )
        view = View(network, (*(view.refits if view else ()), *refits), model.secure_)
    if view is None or model.remembered_ is None or not view.network.numbers.any():
        return model, None, None
    return model, view, truth_of(view.network, model.remembered_, readings)


def _hear(heard: list[Replies], _ask: Ask, replies: Replies) -> None:
    heard.append(replies)


def stretch_length(n_slots: int, nights: int) -> int:
    """Slots of a night: a day of hours at the most, and no more than half of the table in all.

    Examples
    --------
    >>> stretch_length(8760, 30), stretch_length(120, 30), stretch_length(120, 0)
    (24, 2, 0)
    """
    return int(np.clip(n_slots // (2 * nights), 1, 24)) if nights else 0


def truth_of(network: Network, run: Remembered, readings: pd.DataFrame) -> Truth:
    """What the owners of a finished run keep."""
    N, M = network.n_slots, len(network.error)
    ids, raw, stored = [""] * M, np.full((M, N), np.nan), np.full((M, N), np.nan)
    row_of = {row.tobytes(): n for n, row in enumerate(network.sensors)}
    column_of = {str(name).strip(): n for n, name in enumerate(readings.columns)}
    values = readings.to_numpy(dtype=float)
    for kept in run.sites.values():
        for name, digest, copies in zip(kept.ids, digests(kept.ids), kept.copies, strict=True):
            row = row_of[digest.tobytes()]
            ids[row], raw[row] = name, values[:N, column_of[name]]
            stored[row] = copies[:N]
    offset = offsets_of(network, stored) @ season_rows(network.positions, network.season)[:, :N]
    known = np.isfinite(raw)
    X = FORWARD[network.transform](np.where(known, raw, 0.0))
    clean = np.where(known, (X - offset) / network.scale, 0.0)
    copies = np.where(np.isfinite(stored), (stored - offset) / network.scale, 0.0)
    return Truth(tuple(ids), raw, clean, copies, known, offset)


def offsets_of(network: Network, stored: Array) -> Array:
    """Centre and season of copies (M, N) on the transformed scale, as their owners compute them."""
    rows = season_rows(network.positions, network.season)[:, : stored.shape[1]]
    stored = stored[:, : rows.shape[1]]
    J = np.isfinite(stored) & (np.arange(rows.shape[1]) < network.units_stop[:, None])
    return fit_offsets(np.where(J, stored, 0.0), J.astype(float), rows)
