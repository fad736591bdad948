"""The paper's federation as a pair of programs: its five steps, with uploads in the clear.

1. The coordinator draws Q, every sensor draws its own ``p_i``.
2. A sensor downloads Q.
3. It computes its gradients from its readings, Q, and the latent vectors of its region.
4. It moves ``p_i`` and uploads its gradient for Q.
5. The coordinator moves Q: at once (``schedule="prompt"``, as printed: one sensor after the
   other) or after all have answered (``schedule="synchronous"``: one sum a round).

Left open there: a run that diverges gets a smaller step; readings that are held out stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flfl import constants
from flfl.paper.objective import Observed, Rule, Weights, gradient
from flfl.protocol.messages import (
    LARGEST,
    Exchange,
    Field,
    Fixed,
    Protocol,
    ProtocolError,
    to_fixed,
)
from flfl.protocol.session import Ask, Program, Replies, Reply
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Schedule = Literal["prompt", "synchronous"]
Progress = Callable[[int, int], None]

_FACTORS = {"Q": Field("float", ("slots", "rank"))}
_STEP = {**_FACTORS, "eta": Field("float")}
_SUM = Field("sum")
_SCORES = ("train", "train_n", "held", "held_n", "bad")

PROTOCOL: Protocol = {
    "hello": Exchange({}, {"sensors": _SUM, "readings": _SUM, "turns": Field("int", ("*",))}),
    "start": Exchange({"scale": Field("float")}, {}),
    "gradient": Exchange(_STEP, {"grad_Q": Field("sum", ("slots", "rank")), "bad": _SUM}),
    "turn": Exchange(
        {**_STEP, "sensor": Field("int")},
        {"grad_Q": Field("float", ("slots", "rank")), "bad": Field("float")},
    ),
    "score": Exchange(_FACTORS, dict.fromkeys(_SCORES, _SUM)),
    "keep": Exchange({}, {}),
    "restore": Exchange({}, {}),
    "finish": Exchange(_FACTORS, {}),
}

_LARGEST_STEP = 1e6
"""Standardised readings are of size one: a gradient row beyond this is a run blowing up."""
_LARGEST_ERROR = 1e3
"""A mean squared error beyond this, likewise."""
_MOST_CUTS, _FEWEST_HELD = 12, 30
_WEIGHTS = Weights(constants.PAPER_RIDGE, constants.PAPER_SPATIAL, constants.PAPER_TEMPORAL)


@dataclass(frozen=True)
class PaperPlan:
    """What all parties agree on. The step is ``eta = learning_rate * sqrt(M N) / (2 |Omega|)``,
    relative to the curvature of a balanced start, so that one value serves any size and rate."""

    rank: int = constants.PAPER_RANK
    rounds: int = constants.PAPER_ROUNDS
    learning_rate: float = constants.PAPER_LEARNING_RATE
    weights: Weights = _WEIGHTS
    rule: Rule = "paper"
    schedule: Schedule = "prompt"
    check_every: int = constants.PAPER_CHECK_EVERY
    patience: int = constants.PAPER_PATIENCE
    tolerance: float = constants.PAPER_TOLERANCE
    holdout: float = constants.PAPER_HELD_OUT


def sensor_stream(seed: int, sensor: str) -> np.random.Generator:
    """The random stream of one sensor: the same whatever site it belongs to."""
    words = np.frombuffer(sha256(sensor.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))


def coordinate(
    plan: PaperPlan, n_slots: int, seed: int, traffic: Traffic, progress: Progress | None = None
) -> Program:
    """The coordinator's part. It holds Q, the best Q so far, and sums."""
    hello = yield Ask("hello")
    n_sensors, readings = float(hello.total["sensors"]), float(hello.total["readings"])
    turns = sorted(
        (int(turn), site, sensor)
        for site, public in hello.by_site.items()
        for sensor, turn in enumerate(public["turns"])
    )
    scale = (n_slots / n_sensors / plan.rank) ** 0.25
    yield Ask("start", {"scale": scale})
    rng = np.random.default_rng(np.random.SeedSequence([seed]))
    Q = constants.PAPER_Q_SPREAD / scale * rng.standard_normal((n_slots, plan.rank))
    watch = _Watch(plan.learning_rate * np.sqrt(n_sensors * n_slots) / (2 * readings), Q)
    bad = 0.0
    for t in range(plan.rounds + 1):
        if t % plan.check_every == 0 or t == plan.rounds or bad:
            score = yield Ask("score", {"Q": Q})
            watch, verdict = _judge(watch, plan, score, Q, t, diverged=bool(bad))
            if progress is not None:
                progress(t, plan.rounds)
            if verdict != "go on":
                yield Ask(verdict)
            if verdict == "restore":
                Q, bad = watch.best, 0.0
            if watch.stopped or t == plan.rounds:
                break
        traffic.rounds = t + 1
        if plan.schedule == "synchronous":
            replies = yield Ask("gradient", {"eta": watch.eta, "Q": Q})
            Q, bad = _moved(Q, watch.eta, replies.total, bad)
        else:
            for _, site, sensor in turns:
                step = {"eta": watch.eta, "Q": Q, "sensor": sensor}
                replies = yield Ask("turn", step, to=site)
                Q, bad = _moved(Q, watch.eta, replies.by_site[site], bad)
    traffic.notes += watch.notes
    # Each sensor's own gradient of every slot, in every round: nothing is summed away.
    traffic.numbers = traffic.rounds * len(turns) * n_slots * plan.rank
    yield Ask("restore")
    yield Ask("finish", {"Q": watch.best})


def _moved(Q: Array, eta: float, upload: Mapping[str, Any], bad: float) -> tuple[Array, float]:
    """Q after one step against an upload, and how many uploads were left out so far."""
    return Q - eta * upload["grad_Q"], bad + float(upload["bad"])


@dataclass(frozen=True)
class _Watch:
    """Step size, the best Q, and what the early stop and the safeguard remember."""

    eta: float
    best: Array
    stopped: bool = False
    notes: tuple[str, ...] = ()
    lowest_train: float = np.inf
    lowest_held: float = np.inf
    checks_without_gain: int = 0
    cuts: int = 0


def _judge(
    watch: _Watch, plan: PaperPlan, score: Replies, Q: Array, t: int, *, diverged: bool
) -> tuple[_Watch, Literal["keep", "restore", "go on"]]:
    """What to do with the state that was just scored."""
    total = {name: float(value) for name, value in score.total.items()}
    train = total["train"] / max(total["train_n"], 1.0)
    # A handful of held-out readings is a lottery: then the training error judges.
    few = total["held_n"] < _FEWEST_HELD
    held = train if few else total["held"] / total["held_n"]
    if diverged or total["bad"] or train > constants.PAPER_DIVERGED * watch.lowest_train:
        note = f"diverged by round {t}: went back to the best state, halved the step"
        cuts = watch.cuts + 1
        cut = replace(watch, eta=watch.eta / 2, cuts=cuts, stopped=cuts >= _MOST_CUTS)
        return replace(cut, notes=(*watch.notes, note)), "restore"
    clearly = held < (1 - plan.tolerance) * watch.lowest_held
    idle = 0 if clearly else watch.checks_without_gain + 1
    lowest = min(watch.lowest_train, train)
    seen = replace(watch, lowest_train=lowest, checks_without_gain=idle)
    if idle >= plan.patience:
        note = f"stopped after {t} rounds: the held-out error no longer falls"
        seen = replace(seen, stopped=True, notes=(*watch.notes, note))
    if held < watch.lowest_held:
        return replace(seen, lowest_held=held, best=Q), "keep"
    return seen, "go on"


@dataclass(frozen=True)
class Region:
    """One region at a site: which of its sensors, their readings, and the graph's Laplacian."""

    sensors: NDArray[np.int64]
    data: Observed
    held: tuple[NDArray[np.int64], NDArray[np.int64], Array]
    """Rows, slots and values of the readings that are held out."""
    L: Array


@dataclass(frozen=True)
class PaperState:
    """All that a site of m sensors knows."""

    plan: PaperPlan
    turns: NDArray[np.int64]
    """(m,) public turn numbers: the order in which the prompt schedule visits the sensors."""
    regions: tuple[Region, ...]
    P: Array
    """(m, k) latent vectors; before the start, the noise that they are made of."""
    kept: Array
    """(m, k) latent vectors of the best state so far."""
    Q: Array | None = None
    """(N, k) the coordinator's best factors, once the run has finished."""


class PaperSite:
    """A site's part, for standardised readings Z (m, N) of m sensors and their mask; ``regions``
    has a label for each sensor, ``laplacians`` a matrix for each label."""

    def __init__(
        self,
        ids: Sequence[str],
        turns: Sequence[int],
        Z: Array,
        known: NDArray[np.bool_],
        regions: Sequence[int],
        laplacians: Mapping[int, Array],
        plan: PaperPlan,
        seed: int,
    ) -> None:
        streams = [sensor_stream(seed, sensor) for sensor in ids]
        held = known & np.stack([stream.random(Z.shape[1]) < plan.holdout for stream in streams])
        held[known.sum(axis=1) < 2 / max(plan.holdout, 1e-9)] = False
        noise = np.stack([stream.standard_normal(plan.rank) for stream in streams])
        found = []
        for label in dict.fromkeys(np.asarray(regions).tolist()):
            here = np.flatnonzero(np.asarray(regions) == label)
            rows, slots = np.nonzero(held[here])
            out = (rows, slots, Z[here[rows], slots])
            data = Observed.of(Z[here], known[here] & ~held[here])
            found.append(Region(here, data, out, laplacians[int(label)]))
        self.state = PaperState(plan, np.asarray(turns), tuple(found), noise, noise)
        self.sizes = {"slots": Z.shape[1], "rank": plan.rank}

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
    readings = sum(float(region.data.per_sensor.sum()) for region in state.regions)
    return state, {"sensors": len(state.turns), "readings": readings, "turns": state.turns}


def _start(state: PaperState, scale: np.ndarray) -> Answered:
    P = float(scale) * (1 + constants.PAPER_P_SPREAD * state.P)
    return replace(state, P=P, kept=P), {}


def _gradient(state: PaperState, Q: Array, eta: np.ndarray) -> Answered:
    """All sensors of the site move; the sum of their gradients leaves."""
    # Region by region in fixed point: the sum is the same however regions form sites.
    total, bad = np.zeros(Q.shape, dtype=np.int64), 0.0
    for region in state.regions:
        state, upload = _move(state, region, Q, float(eta))
        if upload is None:
            bad += 1
        else:
            total += to_fixed(upload)
    return state, {"grad_Q": Fixed(total), "bad": bad}


def _turn(state: PaperState, Q: Array, eta: np.ndarray, sensor: np.ndarray) -> Answered:
    """One sensor moves and uploads its own gradient, as printed."""
    if not 0 <= int(sensor) < len(state.turns):
        raise ProtocolError(f"there is no sensor {int(sensor)} here")
    region = next(r for r in state.regions if int(sensor) in r.sensors)
    row = int(np.flatnonzero(region.sensors == int(sensor))[0])
    state, upload = _move(state, region, Q, float(eta), slice(row, row + 1))
    if upload is None:
        return state, {"grad_Q": np.zeros_like(Q), "bad": 1.0}
    return state, {"grad_Q": upload, "bad": 0.0}


def _move(
    state: PaperState, region: Region, Q: Array, eta: float, rows: slice = slice(None)
) -> tuple[PaperState, Array | None]:
    """Some sensors of a region move, and their gradient for Q; None where the numbers ran away."""
    P, plan = state.P[region.sensors], state.plan
    with np.errstate(over="ignore", invalid="ignore"):
        grad_P, grad_Q = gradient(region.data, P, Q, region.L, plan.weights, plan.rule, rows)
        moved = P[rows] - eta * grad_P
    if not max(np.abs(moved).max(), grad_Q.max(), -grad_Q.min()) < _LARGEST_STEP:
        return state, None
    after = state.P.copy()
    after[region.sensors[rows]] = moved
    return replace(state, P=after), grad_Q


def _score(state: PaperState, Q: Array) -> Answered:
    out = np.zeros(len(_SCORES))
    for region in state.regions:
        P, (rows, slots, values) = state.P[region.sensors], region.held
        E = region.data.residual(P, Q)
        miss = values - np.einsum("ek,ek->e", P[rows], Q[slots])
        train, held = float(np.vdot(E, E)), float(miss @ miss)
        if train + held < min(_LARGEST_ERROR * E.size, LARGEST / len(state.regions)):
            out[:-1] += train, region.data.per_sensor.sum(), held, len(values)
        else:
            out[-1] += 1
    return state, dict(zip(_SCORES, out, strict=True))


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
