"""The paper's federation as a pair of programs: its five steps, with uploads in the clear.

1. The coordinator draws Q, every sensor draws its own ``p_i``.
2. A sensor downloads Q.
3. It computes its gradients from its readings, Q, and the latent vectors of its region.
4. It moves ``p_i`` and uploads its gradient for Q.
5. The coordinator moves Q.

With ``schedule="prompt"``, as printed, Q moves at once, one sensor after the other, by a fixed
step. With ``schedule="synchronous"`` it moves once a round, by the sum of all gradients, with
momentum; its step follows from one curvature a site, and ``p_i`` moves by a Newton step.

Left open there: which weights and rank (they are tried on readings cut from the training
readings); when to stop (readings that are held out); a run that diverges gets a smaller step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from flfl import constants
from flfl.paper.objective import Array, Rule, Weights
from flfl.protocol.messages import Exchange, Field, Protocol
from flfl.protocol.session import Ask, Program, Replies
from flfl.protocol.traffic import Traffic

Schedule = Literal["prompt", "synchronous"]
Progress = Callable[[int, int], None]

_INT, _FLOAT, _SUM = Field("int"), Field("float"), Field("sum")
_FACTORS = {"Q": Field("float", ("slots", "rank"))}
SCORES = ("train", "train_n", "held", "held_n", "bad")

PROTOCOL: Protocol = {
    "hello": Exchange({}, {"sensors": _SUM, "readings": _SUM, "turns": Field("int", ("*",))}),
    "start": Exchange(
        {"setting": _INT, "slots": Field("int", (2,)), "held": _FLOAT, "scale": _FLOAT},
        {"readings": _SUM},
    ),
    "gradient": Exchange(
        {**_FACTORS, "move": _INT},
        {"grad_Q": Field("sum", ("slots", "rank")), "curvature": _SUM, "bad": _SUM},
    ),
    "turn": Exchange(
        {**_FACTORS, "eta": _FLOAT, "sensor": _INT},
        {"grad_Q": Field("float", ("slots", "rank")), "bad": _FLOAT},
    ),
    "score": Exchange(_FACTORS, dict.fromkeys(SCORES, _SUM)),
    "keep": Exchange({}, {}),
    "restore": Exchange({}, {}),
    "finish": Exchange(_FACTORS, {}),
}

_MOST_CUTS, _FEWEST_HELD = 12, 30


@dataclass(frozen=True)
class Setting:
    """Latent factors (k) and the weights of the objective."""

    rank: int
    weights: Weights


@dataclass(frozen=True)
class PaperPlan:
    """What all parties agree on.

    Of several settings the best on cut readings is chosen, on ``window`` slots at most; the first
    where there are too few readings to choose by. The fixed step of the schedule ``prompt`` is
    ``eta = learning_rate * sqrt(M N) / (2 |Omega|)``, relative to the curvature of a balanced
    start, so that one value serves any size and rate.
    """

    settings: tuple[Setting, ...]
    rounds: int
    rule: Rule = "whole"
    schedule: Schedule = "synchronous"
    learning_rate: float = constants.PAPER_LEARNING_RATE
    momentum: float = constants.PAPER_MOMENTUM
    check_every: int = constants.PAPER_CHECK_EVERY
    patience: int = constants.PAPER_PATIENCE
    tolerance: float = constants.PAPER_TOLERANCE
    holdout: float = constants.PAPER_HELD_OUT
    cut: float = constants.TUNING_SHARE
    window: int = constants.TUNING_SLOTS


@dataclass(frozen=True)
class _Network:
    """Who takes part, and what every run of it shares."""

    plan: PaperPlan
    seed: int
    n_sensors: float
    turns: tuple[tuple[int, str, int], ...]
    """Turn number, site, and number of the sensor there."""
    sizes: dict[str, int]
    traffic: Traffic


def coordinate(
    plan: PaperPlan,
    sizes: dict[str, int],
    seed: int,
    traffic: Traffic,
    progress: Progress | None = None,
) -> Program:
    """The coordinator's part. It holds Q, the best Q so far, and sums.

    ``sizes`` names the ``slots``, and is kept at what the messages hold: a choice among settings
    looks at fewer slots, and each setting has its own rank.
    """
    hello = yield Ask("hello")
    turns = sorted(
        (int(turn), site, sensor)
        for site, public in hello.by_site.items()
        for sensor, turn in enumerate(public["turns"])
    )
    net = _Network(plan, seed, float(hello.total["sensors"]), tuple(turns), sizes, traffic)
    several = len(plan.settings) > 1
    enough = plan.cut * float(hello.total["readings"]) >= _FEWEST_HELD
    trials = range(len(plan.settings) if several and enough else 0)
    N, done, total = sizes["slots"], 0, (len(trials) + 1) * plan.rounds
    first = max(0, (N - plan.window) // 2)

    def tell(t: int) -> None:
        if progress is not None:
            progress(done + t, total)

    best, chosen, rounds = np.inf, 0, plan.rounds
    for number in trials:
        stretch = (first, min(N, first + plan.window))
        watch = yield from _learn(net, number, plan.rounds, stretch, plan.cut, tell)
        if watch.lowest_held < best:
            best, chosen, rounds = watch.lowest_held, number, watch.best_round
        done += plan.rounds
    if trials:
        what = f"setting {chosen + 1} of {len(trials)} and {rounds} rounds"
        traffic.notes.append(f"chose {what} on readings cut from the training readings")
    # What was chosen on cut readings, rounds included, is learned from all of them.
    held = 0.0 if several else plan.holdout
    watch = yield from _learn(net, chosen, rounds, (0, N), held, tell)
    traffic.rounds = watch.rounds
    traffic.notes += watch.notes
    yield Ask("finish", {"Q": watch.best})


@dataclass(frozen=True)
class Motion:
    """Q with momentum: the gradient is taken ``ahead`` of it; ``pace`` is Nesterov's counter."""

    Q: Array
    ahead: Array
    pace: float = 1.0

    @classmethod
    def at_rest(cls, Q: Array) -> Motion:
        """At a point, without momentum."""
        return cls(Q, Q)

    def step(self, grad: Array, eta: float, largest: float) -> Motion:
        """``Q' = ahead - eta grad``, and ``ahead' = Q' + m (Q' - Q)`` with ``m <= largest``.

        Momentum that climbs (``grad . (Q' - Q) > 0``) is dropped, and begins anew.

        Examples
        --------
        >>> motion = Motion.at_rest(np.array([4.0]))
        >>> for _ in range(3):
        ...     motion = motion.step(motion.ahead, 0.5, 0.95)
        >>> motion.Q.round(3).tolist(), motion.ahead.round(3).tolist()
        ([0.359], [0.081])
        """
        Q = self.ahead - eta * grad
        forward = Q - self.Q
        pace = 1.0 if np.vdot(grad, forward) > 0 else self.pace
        following = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = Q + min((pace - 1) / following, largest) * forward
        return Motion(Q, ahead, following)


@dataclass(frozen=True)
class _Watch:
    """The best Q, and what the early stop and the safeguard remember."""

    best: Array
    best_round: int = 0
    rounds: int = 0
    stopped: bool = False
    notes: tuple[str, ...] = ()
    lowest_train: float = np.inf
    lowest_held: float = np.inf
    checks_without_gain: int = 0
    cuts: int = 0

    @property
    def caution(self) -> float:
        """What is left of a step after the cuts."""
        return 0.5**self.cuts


def _learn(
    net: _Network,
    number: int,
    rounds: int,
    stretch: tuple[int, int],
    held: float,
    tell: Callable[[int], None],
) -> Generator[Ask, Replies, _Watch]:
    """Learn with one setting on a stretch of slots; the sites end in the best state."""
    plan, k, N = net.plan, net.plan.settings[number].rank, stretch[1] - stretch[0]
    net.sizes.update(slots=N, rank=k)
    scale = (N / net.n_sensors / k) ** 0.25
    where = {"setting": number, "slots": np.array(stretch), "held": held, "scale": scale}
    started = yield Ask("start", where)
    readings = max(float(started.total["readings"]), 1.0)
    eta = plan.learning_rate * np.sqrt(net.n_sensors * N) / (2 * readings)
    rng = np.random.default_rng(np.random.SeedSequence([net.seed]))
    motion = Motion.at_rest(constants.PAPER_Q_SPREAD / scale * rng.standard_normal((N, k)))
    watch, bad = _Watch(motion.Q), 0.0
    for t in range(rounds + 1):
        if t % plan.check_every == 0 or t == rounds or bad:
            score = yield Ask("score", {"Q": motion.Q})
            state = {"diverged": bool(bad), "judged": held > 0}
            watch, verdict = _judge(watch, plan, score, motion.Q, t, **state)
            tell(t)
            if verdict != "go on":
                yield Ask(verdict)
            if verdict == "restore":
                motion, bad = Motion.at_rest(watch.best), 0.0
            if watch.stopped or t == rounds:
                break
        watch = replace(watch, rounds=t + 1)
        if plan.schedule == "synchronous":
            motion, bad = yield from _together(net, motion, watch.caution, t)
        else:
            motion, bad = yield from _in_turn(net, motion.Q, watch.caution * eta)
    yield Ask("restore")
    return watch


def _together(
    net: _Network, motion: Motion, caution: float, t: int
) -> Generator[Ask, Replies, tuple[Motion, float]]:
    """One round of all sensors, and how many regions ran away; if none, their sum moves Q."""
    move = int(t % constants.PAPER_MOVE_EVERY == 0)
    replies = yield Ask("gradient", {"Q": motion.ahead, "move": move})
    grad, bad = replies.total["grad_Q"], float(replies.total["bad"])
    net.traffic.numbers += len(replies.sites) * grad.size
    if bad:
        return motion, bad
    eta = caution / (2 * max(float(replies.total["curvature"]), 1e-6))
    return motion.step(grad, eta, net.plan.momentum), bad


def _in_turn(net: _Network, Q: Array, eta: float) -> Generator[Ask, Replies, tuple[Motion, float]]:
    """One round of the sensors one by one, each of which moves Q, and how many ran away."""
    bad = 0.0
    for _, site, sensor in net.turns:
        replies = yield Ask("turn", {"eta": eta, "Q": Q, "sensor": sensor}, to=site)
        upload = replies.by_site[site]
        Q, bad = Q - eta * upload["grad_Q"], bad + float(upload["bad"])
        # Each sensor's own gradient of every slot: nothing is summed away.
        net.traffic.numbers += Q.size
    return Motion.at_rest(Q), bad


def _judge(
    watch: _Watch,
    plan: PaperPlan,
    score: Replies,
    Q: Array,
    t: int,
    *,
    diverged: bool,
    judged: bool,
) -> tuple[_Watch, Literal["keep", "restore", "go on"]]:
    """What to do with the state that was just scored. Where nothing is held out by which it could
    be ``judged``, the last state is the best."""
    total = {name: float(value) for name, value in score.total.items()}
    train = total["train"] / max(total["train_n"], 1.0)
    # A handful of held-out readings is a lottery: then the training error judges.
    few = total["held_n"] < _FEWEST_HELD
    held = train if few else total["held"] / total["held_n"]
    if diverged or total["bad"] or train > constants.PAPER_DIVERGED * watch.lowest_train:
        note = f"diverged by round {t}: went back to the best state, halved the step"
        cuts = watch.cuts + 1
        cut = replace(watch, cuts=cuts, stopped=cuts >= _MOST_CUTS)
        return replace(cut, notes=(*watch.notes, note)), "restore"
    watch = replace(watch, lowest_train=min(watch.lowest_train, train))
    better = replace(watch, lowest_held=held, best=Q, best_round=t)
    if not judged:
        return better, "keep"
    idle = watch.checks_without_gain + 1
    if held < (1 - plan.tolerance) * watch.lowest_held:
        idle = 0
    seen = replace(better if held < watch.lowest_held else watch, checks_without_gain=idle)
    if idle >= plan.patience:
        what = "training" if few else "held-out"
        note = f"stopped after {t} rounds: the {what} error no longer falls"
        seen = replace(seen, stopped=True, notes=(*watch.notes, note))
    return seen, "keep" if held < watch.lowest_held else "go on"
