"""The paper's federation as a pair of programs: its five steps, with uploads in the clear.

1. The coordinator draws Q, every sensor draws its own ``p_i``.
2. A sensor downloads Q.
3. It computes its gradients from its readings, Q, and the latent vectors of its region.
4. It moves ``p_i`` and uploads its gradient for Q.
5. The coordinator moves Q: at once (``schedule="prompt"``, as printed: one sensor after the
   other) or after all have answered (``schedule="synchronous"``: one sum a round).

Around these steps stand what the paper leaves open: a step size that is cut when the run
diverges, and an early stop on readings that each sensor holds out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flfl.paper.objective import Observed, Rule, Weights, gradient
from flfl.protocol.coordinator import Ask, Program, ProtocolError, Replies
from flfl.protocol.fixed_point import LARGEST, Fixed, to_fixed
from flfl.protocol.messages import Exchange, Field, Protocol
from flfl.protocol.site import Reply
from flfl.protocol.traffic import Traffic

Array = NDArray[np.float64]
Schedule = Literal["prompt", "synchronous"]
Progress = Callable[[int, int, float], None]

_FACTORS = {"Q": Field("float", ("slots", "rank"))}
_STEP = {**_FACTORS, "eta": Field("float")}

PROTOCOL: Protocol = {
    "hello": Exchange(
        {},
        {"sensors": Field("sum"), "readings": Field("sum"), "turns": Field("int", ("*",))},
    ),
    "start": Exchange({"scale": Field("float")}, {}),
    "gradient": Exchange(_STEP, {"grad_Q": Field("sum", ("slots", "rank")), "bad": Field("sum")}),
    "turn": Exchange(
        {**_STEP, "sensor": Field("int")},
        {"grad_Q": Field("float", ("slots", "rank")), "bad": Field("float")},
    ),
    "score": Exchange(
        _FACTORS,
        {name: Field("sum") for name in ("train", "train_n", "held", "held_n", "bad")},
    ),
    "keep": Exchange({}, {}),
    "restore": Exchange({}, {}),
    "finish": Exchange(_FACTORS, {}),
}

_DIVERGED = 4.0
"""A training error this many times the lowest so far means the step is too long."""
_LARGEST_STEP = 1e6
"""Standardised readings are of size one: a gradient row beyond this is a run blowing up."""
_LARGEST_ERROR = 1e3
"""A mean squared error beyond this, likewise."""
_MOST_CUTS = 12
_FEWEST_HELD = 30


@dataclass(frozen=True)
class PaperPlan:
    """What all parties agree on before the run. Defaults: ``docs/decisions/0003``.

    ``learning_rate`` is relative: the step is ``eta = learning_rate * sqrt(M N) / (2 |Omega|)``,
    the inverse of the curvature of a balanced start, so that one value serves any size and rate.
    """

    rank: int = 10
    rounds: int = 600
    learning_rate: float = 0.4
    weights: Weights = field(default_factory=lambda: Weights(1e-3, 0.1, 0.3))
    rule: Rule = "paper"
    schedule: Schedule = "prompt"
    spread: float = 0.05
    check_every: int = 10
    patience: int = 10
    tolerance: float = 1e-3
    holdout: float = 0.05


def sensor_stream(seed: int, sensor: str) -> np.random.Generator:
    """The random stream of one sensor: it depends on the seed and the sensor's name only, so
    a result does not depend on how sensors are grouped into sites.

    Examples
    --------
    >>> bool(sensor_stream(1, "a").random() == sensor_stream(1, "a").random())
    True
    """
    words = np.frombuffer(sha256(sensor.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))


def coordinate(
    plan: PaperPlan,
    n_slots: int,
    seed: int,
    traffic: Traffic,
    progress: Progress | None = None,
) -> Program:
    """The coordinator's part. It holds Q, the best Q so far, and sums."""
    hello = yield Ask("hello")
    n_sensors, readings = float(hello.total["sensors"]), float(hello.total["readings"])
    turns = _turns(hello)
    scale = (n_slots / n_sensors / plan.rank) ** 0.25
    yield Ask("start", {"scale": scale})
    rng = np.random.default_rng(np.random.SeedSequence([seed]))
    # Q starts near zero: a slot that nobody observed then stays at the sensors' means.
    Q = 0.02 / scale * rng.standard_normal((n_slots, plan.rank))
    watch = _Watch(plan, plan.learning_rate * np.sqrt(n_sensors * n_slots) / (2 * readings), Q)
    for t in range(plan.rounds + 1):
        if t % plan.check_every == 0 or t == plan.rounds or watch.bad:
            score = yield Ask("score", {"Q": Q})
            verdict = watch.judge(score, Q, t)
            if progress is not None:
                progress(t, plan.rounds, watch.held_rmse)
            if verdict in ("keep", "restore"):
                yield Ask(verdict)
            if verdict == "restore":
                Q = watch.best
            if watch.stopped or t == plan.rounds:
                break
        traffic.rounds = t + 1
        step: dict[str, np.ndarray | float] = {"eta": watch.eta}
        if plan.schedule == "synchronous":
            replies = yield Ask("gradient", {**step, "Q": Q})
            watch.bad += float(replies.total["bad"])
            Q = Q - watch.eta * replies.total["grad_Q"]
        else:
            for site, sensor in turns:
                replies = yield Ask("turn", {**step, "Q": Q, "sensor": sensor}, to=site)
                upload = replies.by_site[site]
                watch.bad += float(upload["bad"])
                Q = Q - watch.eta * upload["grad_Q"]
    traffic.notes += watch.notes
    # Each sensor's own gradient of every slot, in every round: nothing is summed away.
    traffic.numbers = traffic.rounds * len(turns) * n_slots * plan.rank
    yield Ask("restore")
    yield Ask("finish", {"Q": watch.best})


def _turns(hello: Replies) -> list[tuple[str, int]]:
    """(site, its own number of the sensor) in the order of the public turn numbers."""
    turns = [
        (int(turn), site, local)
        for site, public in hello.by_site.items()
        for local, turn in enumerate(public["turns"])
    ]
    return [(site, local) for _, site, local in sorted(turns)]


class _Watch:
    """Learning-rate safeguard and early stop, from sums of errors."""

    def __init__(self, plan: PaperPlan, eta: float, Q: Array) -> None:
        self.plan = plan
        self.eta = eta
        self.best = Q
        self.bad = 0.0
        self.held_rmse = np.inf
        self.stopped = False
        self.notes: list[str] = []
        self._lowest_train = np.inf
        self._lowest_held = np.inf
        self._checks_without_gain = 0
        self._cuts = 0

    def judge(self, score: Replies, Q: Array, t: int) -> Literal["keep", "restore", "go on"]:
        """What to do with the state that was just scored."""
        total = {name: float(value) for name, value in score.total.items()}
        train = total["train"] / max(total["train_n"], 1.0)
        # A handful of held-out readings is a lottery: then the training error judges.
        few = total["held_n"] < _FEWEST_HELD
        held = train if few else total["held"] / total["held_n"]
        if self.bad or total["bad"] or train > _DIVERGED * self._lowest_train:
            return self._cut(t)
        self.held_rmse = float(np.sqrt(held))
        self._lowest_train = min(self._lowest_train, train)
        better = held < self._lowest_held
        clearly = held < (1 - self.plan.tolerance) * self._lowest_held
        self._checks_without_gain = 0 if clearly else self._checks_without_gain + 1
        if self._checks_without_gain >= self.plan.patience:
            self.stopped = True
            self.notes.append(f"stopped after {t} rounds: the held-out error no longer falls")
        if not better:
            return "go on"
        self._lowest_held, self.best = held, Q
        return "keep"

    def _cut(self, t: int) -> Literal["restore"]:
        self.bad = 0.0
        self._cuts += 1
        self.eta /= 2
        self.notes.append(f"diverged by round {t}: went back to the best state, halved the step")
        self.stopped = self._cuts >= _MOST_CUTS
        return "restore"


@dataclass
class _Region:
    """The sensors of one region: graph, training readings, held-out readings, latent vectors."""

    sensors: NDArray[np.int64]
    data: Observed
    L: Array
    held: tuple[NDArray[np.int64], NDArray[np.int64], Array]
    P: Array
    kept: Array


class PaperSite:
    """A site's part of the paper's algorithm, for standardised readings.

    Parameters
    ----------
    ids : names of this site's sensors
    turns : their public turn numbers (the order in which the prompt schedule visits them)
    Z : (m, N) standardised readings; known : (m, N) mask
    regions : region label of each sensor; laplacians : one Laplacian a region, by label
    """

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
        self._turns = np.asarray(turns, dtype=np.int64)
        self._plan = plan
        self._streams = [sensor_stream(seed, sensor) for sensor in ids]
        held = known & np.stack([s.random(Z.shape[1]) < plan.holdout for s in self._streams])
        held[known.sum(axis=1) < 2 / max(plan.holdout, 1e-9)] = False
        labels = np.asarray(regions)
        self._regions = [
            self._region(np.flatnonzero(labels == label), Z, known, held, laplacians[int(label)])
            for label in dict.fromkeys(labels.tolist())
        ]
        self.sizes = {"slots": Z.shape[1], "rank": plan.rank}
        self._Q: Array | None = None

    def answer(self, kind: str, body: Mapping[str, np.ndarray]) -> Reply:
        """Answer one of the questions of :data:`PROTOCOL`."""
        # The message was decoded against PROTOCOL, so the kind is one of its names. A table of
        # bound methods would be a cycle, and keep the readings until the collector runs.
        return getattr(self, f"_{kind}")(**body)

    def recover(self) -> Array:
        """Standardised estimates ``p_i . q_j`` of this site's sensors (m x N)."""
        assert self._Q is not None, "the run has not finished"
        out = np.empty((len(self._turns), len(self._Q)))
        for region in self._regions:
            out[region.sensors] = region.P @ self._Q.T
        return out

    def _region(
        self,
        sensors: NDArray[np.int64],
        Z: Array,
        known: NDArray[np.bool_],
        held: NDArray[np.bool_],
        L: Array,
    ) -> _Region:
        rows, slots = np.nonzero(held[sensors])
        values = Z[sensors[rows], slots]
        data = Observed.of(Z[sensors], known[sensors] & ~held[sensors])
        none = np.zeros((len(sensors), self._plan.rank))
        return _Region(sensors, data, L, (rows, slots, values), none, none)

    def _hello(self) -> Reply:
        readings = sum(float(region.data.per_sensor.sum()) for region in self._regions)
        return {"sensors": len(self._turns), "readings": readings, "turns": self._turns}

    def _start(self, scale: np.ndarray) -> Reply:
        for region in self._regions:
            noise = np.stack(
                [self._streams[i].standard_normal(self._plan.rank) for i in region.sensors]
            )
            region.P = float(scale) * (1 + self._plan.spread * noise)
            region.kept = region.P
        return {}

    def _gradient(self, Q: Array, eta: np.ndarray) -> Reply:
        """All sensors of the site move; the sum of their gradients leaves."""
        # Region by region in fixed point: the sum is the same however regions form sites.
        total: NDArray[np.int64] | None = None
        bad = 0.0
        for region in self._regions:
            upload, fine = self._move(region, Q, float(eta), slice(None))
            bad += not fine
            if fine:
                fixed = to_fixed(upload)
                total = fixed if total is None else np.add(total, fixed, out=total)
        if total is None:
            total = np.zeros(Q.shape, dtype=np.int64)
        return {"grad_Q": Fixed(total), "bad": bad}

    def _turn(self, Q: Array, eta: np.ndarray, sensor: np.ndarray) -> Reply:
        """One sensor moves and uploads its own gradient, as printed."""
        if not 0 <= int(sensor) < len(self._turns):
            raise ProtocolError(f"there is no sensor {int(sensor)} here")
        region = next(r for r in self._regions if int(sensor) in r.sensors)
        row = int(np.flatnonzero(region.sensors == int(sensor))[0])
        upload, fine = self._move(region, Q, float(eta), slice(row, row + 1))
        return {"grad_Q": upload if fine else np.zeros_like(Q), "bad": float(not fine)}

    def _move(self, region: _Region, Q: Array, eta: float, rows: slice) -> tuple[Array, bool]:
        with np.errstate(over="ignore", invalid="ignore"):
            grad_P, grad_Q = gradient(
                region.data, region.P, Q, region.L, self._plan.weights, self._plan.rule, rows
            )
            moved = region.P[rows] - eta * grad_P
        largest = max(np.abs(moved).max(), grad_Q.max(), -grad_Q.min())
        if not largest < _LARGEST_STEP:
            return grad_Q, False
        P = region.P.copy()
        P[rows] = moved
        region.P = P
        return grad_Q, True

    def _score(self, Q: Array) -> Reply:
        out = dict.fromkeys(("train", "train_n", "held", "held_n", "bad"), 0.0)
        for region in self._regions:
            E = region.P @ Q.T
            np.subtract(region.data.Y, E, out=E)
            E *= region.data.J
            rows, slots, values = region.held
            miss = values - np.einsum("ek,ek->e", region.P[rows], Q[slots])
            train, held = float(np.vdot(E, E)), float(miss @ miss)
            if not train + held < min(_LARGEST_ERROR * E.size, LARGEST / len(self._regions)):
                out["bad"] += 1
                continue
            out["train"] += train
            out["train_n"] += float(region.data.per_sensor.sum())
            out["held"] += held
            out["held_n"] += float(len(values))
        return out

    def _keep(self) -> Reply:
        for region in self._regions:
            region.kept = region.P
        return {}

    def _restore(self) -> Reply:
        for region in self._regions:
            region.P = region.kept
        return {}

    def _finish(self, Q: Array) -> Reply:
        self._Q = Q.copy()
        return {}
