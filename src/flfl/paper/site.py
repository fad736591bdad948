"""A site's part of the paper's federation: readings, latent vectors and graphs stay here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.paper.federation import SCORES, PaperPlan, Setting
from flfl.paper.objective import (
    Array,
    Observed,
    Rule,
    Weights,
    gradient,
    sensor_curvature,
    slot_curvature,
)
from flfl.protocol.messages import LARGEST, Fixed, ProtocolError, to_fixed
from flfl.protocol.session import Reply

_LARGEST_STEP = 1e6
"""Standardised readings are of size one: a gradient row beyond this is a run blowing up."""
_LARGEST_ERROR = 1e3
"""A mean squared error beyond this, likewise."""


def sensor_stream(seed: int, sensor: str) -> np.random.Generator:
    """The random stream of one sensor: the same whatever site it belongs to."""
    words = np.frombuffer(sha256(sensor.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))


@dataclass(frozen=True)
class Region:
    """One region at a site: which of its sensors, their readings, and the graph's Laplacian."""

    sensors: NDArray[np.int64]
    data: Observed
    held: tuple[NDArray[np.int64], NDArray[np.int64], Array]
    """Rows, slots and values of the readings that are held out."""
    L: Array


@dataclass(frozen=True)
class Readings:
    """What a site of m sensors holds: standardised readings Z (m, N) and their mask, the region of
    each sensor and the Laplacian of each region, ids, and the seed.

    ``turns`` (m,) are public: the order in which the prompt schedule visits the sensors.
    """

    ids: tuple[str, ...]
    turns: NDArray[np.int64]
    Z: Array
    known: NDArray[np.bool_]
    labels: NDArray[np.int64]
    laplacians: Mapping[int, Array]
    seed: int


@dataclass(frozen=True)
class PaperState:
    """All that a site of m sensors knows."""

    plan: PaperPlan
    own: Readings
    regions: tuple[Region, ...]
    P: Array
    """(m, k) latent vectors."""
    kept: Array
    """(m, k) latent vectors of the best state so far."""
    setting: Setting
    slots: int
    Q: Array | None = None
    """(N, k) the coordinator's best factors, once the run has finished."""


class PaperSite:
    """A site's part."""

    def __init__(self, own: Readings, plan: PaperPlan) -> None:
        nothing = np.empty((len(own.ids), 0))
        slots = own.Z.shape[1]
        self.state = PaperState(plan, own, (), nothing, nothing, plan.settings[0], slots)

    @property
    def sizes(self) -> Mapping[str, int]:
        """What the messages must fit: the slots and the rank of the setting that is learned."""
        return {"slots": self.state.slots, "rank": self.state.setting.rank}

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one of the questions of :data:`PROTOCOL`."""
        self.state, reply = HANDLERS[kind](self.state, **body)
        return reply

    def recover(self) -> Array:
        """Standardised estimates ``p_i . q_j`` of this site's sensors (m x N)."""
        assert self.state.Q is not None, "the run has not finished"
        out = np.empty((len(self.state.P), len(self.state.Q)))
        for region in self.state.regions:
            out[region.sensors] = self.state.P[region.sensors] @ self.state.Q.T
        return out


Answered = tuple[PaperState, Reply]


def _hello(state: PaperState) -> Answered:
    own = state.own
    return state, {"sensors": len(own.ids), "readings": own.known.sum(), "turns": own.turns}


def _start(
    state: PaperState, setting: np.ndarray, slots: np.ndarray, held: np.ndarray, scale: np.ndarray
) -> Answered:
    """Draw the latent vectors for a setting, and hold out a share of the readings."""
    own, number, (first, last) = state.own, int(setting), map(int, slots)
    if not (0 <= number < len(state.plan.settings) and 0 <= first < last <= own.Z.shape[1]):
        raise ProtocolError(f"there is no setting {number}, or no slots {first} to {last}")
    chosen, share, stretch = state.plan.settings[number], float(held), slice(first, last)
    Z, known = own.Z[:, stretch], own.known[:, stretch]
    streams = [sensor_stream(own.seed, sensor) for sensor in own.ids]
    out = known & np.stack([stream.random(last - first) < share for stream in streams])
    out[known.sum(axis=1) < 2 / max(share, 1e-9)] = False
    noise = np.stack([stream.standard_normal(chosen.rank) for stream in streams])
    # As printed all sensors start alike; with a Newton step each begins with a factor of its own.
    together = state.plan.schedule == "synchronous"
    base = np.eye(chosen.rank)[own.turns % chosen.rank] if together else 1.0
    P = float(scale) * (base + constants.PAPER_P_SPREAD * noise)
    regions = tuple(
        _region(np.flatnonzero(own.labels == label), Z, known, out, own.laplacians[int(label)])
        for label in dict.fromkeys(own.labels.tolist())
    )
    readings = sum(float(region.data.per_sensor.sum()) for region in regions)
    state = replace(state, regions=regions, P=P, kept=P, setting=chosen, slots=last - first)
    return state, {"readings": readings}


def _region(
    here: NDArray[np.int64],
    Z: Array,
    known: NDArray[np.bool_],
    out: NDArray[np.bool_],
    L: Array,
) -> Region:
    rows, slots = np.nonzero(out[here])
    data = Observed.of(Z[here], known[here] & ~out[here])
    return Region(here, data, (rows, slots, Z[here[rows], slots]), L)


def _gradient(state: PaperState, Q: Array, move: np.ndarray) -> Answered:
    """The sum of the gradients of the site's sensors leaves, after they moved if they are to."""
    # Region by region in fixed point: the sum is the same however regions form sites.
    total, bends, bad = np.zeros(Q.shape, dtype=np.int64), np.zeros((), dtype=np.int64), 0.0
    weights, rule, after = state.setting.weights, state.plan.rule, state.P.copy()
    for region in state.regions:
        P = after[region.sensors]
        with np.errstate(over="ignore", invalid="ignore"):
            if move:
                P = _newton(region, P, Q, weights, rule)
            _, grad_Q = gradient(region.data, P, Q, region.L, weights, rule)
        if _ran_away(P, grad_Q):
            bad += 1
            continue
        after[region.sensors] = P
        total += to_fixed(grad_Q)
        bend = slot_curvature(region.data, P, region.L, weights)
        bends = bends + to_fixed(np.array(min(bend, LARGEST / len(state.regions))))
    sums: Reply = {"grad_Q": Fixed(total), "curvature": Fixed(bends), "bad": bad}
    return replace(state, P=after), sums


def _newton(region: Region, P: Array, Q: Array, weights: Weights, rule: Rule) -> Array:
    grad_P, _ = gradient(region.data, P, Q, region.L, weights, rule)
    H = sensor_curvature(region.data, Q, region.L, weights)
    # Rounding leaves a matrix of rank below k singular, or nearly.
    level = np.trace(H, axis1=1, axis2=2) / len(Q.T) * 1e-9 + np.finfo(float).tiny
    H += level[:, None, None] * np.eye(len(Q.T))
    return P - np.linalg.solve(H, grad_P[:, :, None] / 2)[:, :, 0]


def _ran_away(P: Array, grad_Q: Array) -> bool:
    # A number that is not finite fails the comparison too.
    return not max(np.abs(P).max(), grad_Q.max(), -grad_Q.min()) < _LARGEST_STEP


def _turn(state: PaperState, Q: Array, eta: np.ndarray, sensor: np.ndarray) -> Answered:
    """One sensor moves and uploads its own gradient, as printed."""
    if not 0 <= int(sensor) < len(state.P):
        raise ProtocolError(f"there is no sensor {int(sensor)} here")
    region = next(r for r in state.regions if int(sensor) in r.sensors)
    row = int(np.flatnonzero(region.sensors == int(sensor))[0])
    rows, P, weights = slice(row, row + 1), state.P[region.sensors], state.setting.weights
    with np.errstate(over="ignore", invalid="ignore"):
        grad_P, grad_Q = gradient(region.data, P, Q, region.L, weights, state.plan.rule, rows)
        moved = P[rows] - float(eta) * grad_P
    if _ran_away(moved, grad_Q):
        return state, {"grad_Q": np.zeros_like(Q), "bad": 1.0}
    after = state.P.copy()
    after[int(sensor)] = moved[0]
    return replace(state, P=after), {"grad_Q": grad_Q, "bad": 0.0}


def _score(state: PaperState, Q: Array) -> Answered:
    """Squares of the training errors, sizes of the held-out ones."""
    out = np.zeros(len(SCORES))
    for region in state.regions:
        P, (rows, slots, values) = state.P[region.sensors], region.held
        E = region.data.residual(P, Q)
        miss = values - np.einsum("ek,ek->e", P[rows], Q[slots])
        train, held = float(np.vdot(E, E)), float(np.abs(miss).sum())
        if train + held < min(_LARGEST_ERROR * E.size, LARGEST / len(state.regions)):
            out[:-1] += train, region.data.per_sensor.sum(), held, len(values)
        else:
            out[-1] += 1
    return state, dict(zip(SCORES, out, strict=True))


HANDLERS: Mapping[str, Callable[..., Answered]] = {
    "hello": _hello,
    "start": _start,
    "gradient": _gradient,
    "turn": _turn,
    "score": _score,
    "keep": lambda state: (replace(state, kept=state.P), {}),
    "restore": lambda state: (replace(state, P=state.kept), {}),
    "finish": lambda state, Q: (replace(state, Q=Q.copy()), {}),
}
"""What answers each question of :data:`PROTOCOL`: pure steps from one state to the next."""
