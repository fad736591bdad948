"""The coordinator's part: what it asks, in order, and what it makes of the sums."""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flfl.errors import InputError
from flfl.federation.coordinator import Ask, Program, Replies
from flfl.federation.factors.choosing import choose
from flfl.federation.factors.protocol import MOST_UNDONE, STOP, FactorPlan
from flfl.federation.ledger import Ledger
from flfl.model.shared import directions, dynamics, guard, projection, selection, windows

Array = NDArray[np.float64]
Progress = Callable[[int, int, float], None]
Steps = Generator[Ask, Replies, None]

_STILL_LEARNING = 0.01
_LONGER = 3
"""A run whose last round still lowered the error by a per cent goes on, up to three times as
long: where whole regions are dark, the sums say little about some directions of q."""
_MOVING = 0.045
_MOVING_ROUNDS = 8
"""Held-out readings say little about a dark region: nor does a run end before so many rounds
while one slot in a hundred still moves by 4.5 % of the size of q."""
_MORE_ROUNDS = 6
"""Rounds at most for new slots, where everything but q is known already."""


@dataclass(frozen=True)
class Settings:
    """What the selection decided."""

    trial: int
    transform: str
    period: int
    scale: float
    length: float
    noise: float
    gain: float
    rank: int
    least: int
    rounds: int
    inner: int
    allowed: float


@dataclass(frozen=True)
class State:
    """The coordinator's model: sums and what follows from them."""

    m: Array
    A: Array
    S: Array
    F: Array
    R: Array

    def body(self) -> dict[str, np.ndarray | float]:
        """As it is published."""
        return {"m": self.m, "A": self.A, "S": self.S, "F": self.F, "R": self.R}


@dataclass(frozen=True)
class Published:
    """A finished shared model: all of it was published during the run.

    ``windows`` and ``w`` say how much the sums told about each slot; they belong to ``m``.
    """

    settings: Settings
    state: State
    windows: windows.Windows
    w: Array

    def followed_by(self, later: Published) -> Published:
        """The same model with the later slots appended."""
        here, there = self.windows, later.windows
        joined = windows.Windows(
            np.concatenate([here.edges, there.edges[1:] + here.n_slots]),
            np.concatenate([here.released, there.released]),
        )
        state = replace(self.state, m=np.vstack([self.state.m, later.state.m]))
        return Published(self.settings, state, joined, np.concatenate([self.w, later.w]))


class Coordination:
    """One run. ``settings`` and ``windows`` tell afterwards what was decided.

    Parameters
    ----------
    sizes : dimensions of the messages, filled in as they are decided
    """

    def __init__(
        self,
        plan: FactorPlan,
        n_slots: int,
        ledger: Ledger,
        sizes: MutableMapping[str, int],
        progress: Progress | None = None,
    ) -> None:
        self.plan, self.n_slots, self.ledger, self.sizes = plan, n_slots, ledger, sizes
        self.progress = progress
        self.settings: Settings | None = None
        self.windows: windows.Windows | None = None
        self.published: Published | None = None
        self.history: list[float] = []
        self._phase = ""

    def program(self) -> Program:
        """The whole run as a sequence of questions."""
        self.sizes["trials"] = len(self.plan.trials())
        self._phase = "selection"
        settings, n_sensors = yield from self._select()
        self.settings = settings
        if settings.rank < 1:
            yield self._ask_alone(n_sensors)
        else:
            if self.plan.projection == "learned":
                n = self.plan.learning_slots(self.n_slots)
                yield from self._shared_fit(settings, n, learning=True)
            yield from self._shared_fit(settings, self.n_slots, learning=False)
        self._phase = "heads"
        yield from choose(self.plan, self.sizes, self._ask)

    def _ask_alone(self, n_sensors: float) -> Ask:
        self.ledger.notes.append(
            f"the number of sensors, {n_sensors:.0f}, is too small for max_exposure"
            f" {self.plan.max_exposure}:"
            " nothing is shared and each site works alone"
        )
        return self._ask("alone")

    def extend(self, earlier: Published) -> Program:
        """A few rounds on new slots only: projection, latent vectors and dynamics are kept."""
        settings = replace(earlier.settings, rounds=min(earlier.settings.rounds, _MORE_ROUNDS))
        self.settings = settings
        first = earlier.windows.n_slots
        self._phase = "guard"
        self.sizes.update(slots=self.n_slots - first, rank=settings.rank)
        replies = yield self._ask(
            "resume",
            trial=settings.trial,
            first=first,
            scale=settings.scale,
            length=settings.length,
            noise=settings.noise,
            rank=settings.rank,
        )
        counts = replies.total["counts"]
        cut = windows.cut(counts, settings.rank, settings.allowed, settings.least)
        self.windows = cut
        self.ledger.numbers = int(cut.released.sum())
        self.sizes["windows"] = len(cut)
        replies = yield self._ask("rewindow", edges=cut.edges, released=cut.released, counts=counts)
        noise = replies.total["noise"]
        if self.plan.guarded:
            yield from self._guard_windows(self._axes(noise, np.eye(settings.rank)))
        replies = yield self._ask("weigh", turn=np.eye(settings.rank))
        sight = sight_of(replies, cut)
        start = replace(earlier.state, m=np.zeros((cut.n_slots, settings.rank)))
        self._phase = "fit"
        yield from self._rounds(settings, sight, start, noise, learn=False)
        assert self.published is not None
        self.published = earlier.followed_by(self.published)
        self._phase = "heads"
        yield from choose(self.plan, self.sizes, self._ask)

    def fold_in(self, earlier: Published, *, alone: bool = False) -> Program:
        """New sensors on a finished model: no round, and nothing of their readings leaves but
        the sums of held-out errors that choose among their heads; ``alone``, not even those."""
        settings = earlier.settings
        self.settings, self.published = settings, earlier
        self._phase = "heads"
        yield self._ask(
            "adopt",
            trial=settings.trial,
            scale=settings.scale,
            gain=settings.gain,
            w=earlier.w,
            edges=earlier.windows.edges,
            released=earlier.windows.released,
            **earlier.state.body(),
        )
        if alone:
            yield self._ask("choose")
        else:
            yield from choose(self.plan, self.sizes, self._ask)

    def _ask(self, kind: str, **body: np.ndarray | float) -> Ask:
        self.ledger.exchanges[self._phase] += 1
        return Ask(kind, body)

    # --- selection ---------------------------------------------------------------------------

    def _select(self) -> Generator[Ask, Replies, tuple[Settings, float]]:
        plan = self.plan
        trials = plan.trials()
        trial = 0
        if len(trials) > 1:
            replies = yield self._ask("trial")
            trial = selection.choose_trial(replies.total["errors"], trials)
        total = (yield self._ask("units", trial=trial)).total
        n_sensors = float(total["sensors"])
        # The geometric mean of the sensors' spreads: sums of logarithms fit any unit.
        scale = float(np.exp(total["log_scale"] / max(float(total["varying"]), 1.0)))
        memory = selection.LENGTHS[int(np.argmax(total["memory"]))]
        length, noise = selection.smoother(memory, plan.max_exposure)
        length, noise = plan.length or length, plan.noise or noise
        self.sizes["slots"] = self.n_slots
        replies = yield self._ask(
            "span", slots=self.n_slots, scale=scale, length=length, noise=noise
        )
        chosen = selection.plan(
            replies.total["counts"],
            replies.total["speakers"],
            round(n_sensors),
            plan.max_exposure if not plan.guarded else plan.allowed / 0.6,
            memory,
        )
        most = self._most_rank(n_sensors, float(replies.total["counts"].sum()))
        rank, least = min(chosen.rank, most), min(chosen.least, most)
        if plan.rank is not None:
            if plan.rank > most:
                raise InputError(
                    f"rank {plan.rank} is more than {n_sensors:.0f} sensors can shelter at"
                    f" max_exposure {plan.max_exposure}",
                    remedy=f"Use a rank of at most {most}, or none for an automatic choice",
                )
            rank = least = plan.rank
        transform, period = trials[trial]
        return (
            Settings(
                trial=trial,
                transform=transform,
                period=period,
                scale=scale,
                length=length,
                noise=noise,
                gain=plan.gain,
                rank=rank,
                least=least,
                rounds=plan.rounds or chosen.rounds,
                inner=chosen.inner,
                # The coordinator may always release less than the sites allow.
                allowed=min(chosen.allowed, plan.allowed),
            ),
            n_sensors,
        )

    def _most_rank(self, n_sensors: float, readings: float) -> int:
        """Leverages add up to the rank: with a cap on each it cannot exceed cap x sensors.

        The refits of the latent vectors take their part of the cap first.
        """
        plan = self.plan
        if not plan.guarded:
            return int(min(n_sensors, self.n_slots))
        for rank in range(int(min(n_sensors, self.n_slots)), 0, -1):
            refits = min(plan.refits * rank * n_sensors / max(readings, 1.0), plan.refit_share)
            cap = float(guard.cap_with_coalition(plan.max_exposure - refits, plan.coalition))
            if rank <= 0.95 * STOP * cap * n_sensors + 1e-9:
                return rank
        return 0

    # --- the shared fit ----------------------------------------------------------------------

    def _shared_fit(self, settings: Settings, n_slots: int, *, learning: bool) -> Steps:
        """Projection, guard and rounds on the oldest ``n_slots`` slots."""
        trusted = learning or not self.plan.guarded
        self._phase = "guard"
        span = {"scale": settings.scale, "length": settings.length, "noise": settings.noise}
        while True:
            self.sizes["slots"] = n_slots
            replies = yield self._ask("span", slots=n_slots, **span)
            cohort, counts = replies.sites, replies.total["counts"]
            n_sensors = float(replies.total["sensors"])
            most = self._most_rank(n_sensors, float(counts.sum()))
            rank, least = min(settings.rank, most), min(settings.least, most)
            settings = replace(settings, rank=rank, least=least)
            allowed = np.inf if trusted else settings.allowed
            cut = windows.cut(counts, settings.rank, allowed, settings.least)
            self.sizes.update(rank=settings.rank, windows=len(cut))
            if not learning:
                self.windows = cut
                self.ledger.numbers = int(cut.released.sum())
            noise, turn, rows = yield from self._project(cut, counts, n_sensors, learning)
            replies = yield self._ask("weigh", turn=turn)
            if replies.sites == cohort:
                break
            # Somebody left while the guard was computed: anew for those who stayed.
            self._note_left(cohort, replies.sites, "the guard was computed anew")
        self.settings = settings
        if "direction weights" in self.plan.without:
            rows = None
        power = float(replies.total["power"]) / n_sensors
        self._phase = "learning" if learning else "fit"
        start = first_state(n_slots, settings.rank, power)
        yield from self._rounds(settings, sight_of(replies, cut, turn, rows), start, noise)

    def _project(
        self, cut: windows.Windows, counts: Array, n_sensors: float, learning: bool
    ) -> Generator[Ask, Replies, tuple[Array, Array, Array | None]]:
        """Publish the projection, whiten it, scale it under the guard.

        Returns the noise sum, axes along which a sensor touches few components, and the
        published map along these axes, where there is one.
        """
        plan, rank = self.plan, self.sizes["rank"]
        learned = plan.projection == "learned" and not learning
        knots, width, rows = self._knots(rank, learned)
        replies = yield self._ask(
            "basis", rank=rank, learned=int(learned), knots=knots, width=width
        )
        W = projection.whitening(replies.total["gram"], round(n_sensors))
        replies = yield self._ask(
            "whiten", W=W, edges=cut.edges, released=cut.released, counts=counts
        )
        if learning or not plan.guarded:
            return replies.total["noise"], np.eye(rank), None
        for _ in range(plan.guard_sums):
            if replies.total["over"] < 0.5:
                break
            replies = yield self._ask("guard", noise=replies.total["noise"])
        noise = replies.total["noise"]
        turn = self._axes(noise, rows @ W)
        yield from self._guard_windows(turn)
        return noise, turn, rows @ W @ turn if len(knots) else None

    @staticmethod
    def _axes(noise: Array, rows: Array) -> Array:
        """Coordinates in which a sensor touches few components."""
        root = guard.whitener(noise)
        return np.asarray(root @ guard.localise(rows @ root))

    def _guard_windows(self, turn: Array) -> Steps:
        """The guard per window, in local coordinates."""
        energy = (yield self._ask("local", turn=turn)).total["energy"]
        for _ in range(self.plan.window_sums):
            energy = (yield self._ask("window", energy=energy)).total["energy"]

    def _knots(self, rank: int, learned: bool) -> tuple[Array, float, Array]:
        """Knots and width of the bumps, and the rows over which the guard turns them."""
        if self.plan.box is None or learned or rank < 2:
            return np.zeros((0, 2)), 1.0, np.eye(rank)
        lower, upper = np.array(self.plan.box)
        knots, width = self.plan.knots(rank)
        axes = [np.linspace(lo, hi, 15) for lo, hi in zip(lower, upper, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(lower))
        return knots, width, projection.bumps(grid, knots, width)

    def _rounds(
        self,
        settings: Settings,
        sight: directions.Sight,
        state: State,
        noise: Array,
        *,
        learn: bool = True,
    ) -> Steps:
        learning = self._phase == "learning"
        step, lowest, undone = 1.0, np.inf, 0
        fewest = self.plan.least_rounds if learn else 2
        replies = yield self._ask("open", w=sight.w, noise=noise, gain=settings.gain)
        # Under the guard the readings are in this answer and in no other: a round's is the
        # model's part alone, and the sum about the news is the two together.
        once = self.plan.guarded and not learning
        spoken, cohort = replies.total["g"], replies.sites
        g = spoken
        # New slots and rounds that were asked for have a firm limit.
        firm = self.plan.rounds is not None or not learn
        most = settings.rounds if firm else _LONGER * settings.rounds
        for n in range(most):
            before = state
            state = self._update(before, replies, g, sight, step, settings, learn)
            replies = yield self._ask("round", **state.body(), back=0)
            if replies.sites != cohort:
                # The sums of fewer sites do not fit those of all: the last whole round stands.
                self._note_left(cohort, replies.sites, f"round {n + 1} was left out")
                state = before
                break
            g = spoken + replies.total["g"] if once else replies.total["g"]
            error = _mean_error(replies)
            if not learning:
                self.ledger.rounds = n + 1
                self.history.append(error)
                if self.progress is not None:
                    self.progress(n + 1, settings.rounds, error)
            if error > 1.01 * lowest:
                # It would diverge: step back, and take smaller steps from here on.
                state, step, undone = before, 2 * step, undone + 1
                replies = yield self._ask("round", **state.body(), back=1)
                g = spoken + replies.total["g"] if once else replies.total["g"]
                self.ledger.notes.append(f"round {n + 1} raised the error: undone, step halved")
                if undone == MOST_UNDONE:
                    break
            elif error > (1 - self._worth(n + 1, fewest, settings.rounds)) * lowest and not (
                n + 1 < _MOVING_ROUNDS and directions.movement(before.m, state.m, state.F) > _MOVING
            ):
                break
            lowest = min(lowest, error)
        if n + 1 > settings.rounds:
            self.ledger.notes.append(
                f"{n + 1} rounds instead of {settings.rounds}: long outages are learned slowly"
            )
        yield self._ask("finish", **state.body())
        if not learning:
            self.published = Published(settings, state, sight.windows, sight.w)

    def _note_left(self, before: Sequence[str], after: Sequence[str], then: str) -> None:
        lost = sorted(set(before) - set(after))
        self.ledger.notes.append(f"{', '.join(lost)} left the run: {then}")

    def _worth(self, n: int, fewest: int, planned: int) -> float:
        """By which share round n must have lowered the error for another one to be asked."""
        if n >= planned:
            return _STILL_LEARNING
        return self.plan.plateau if n >= fewest else -np.inf

    def _update(
        self,
        state: State,
        sums: Replies,
        g: Array,
        sight: directions.Sight,
        step: float,
        settings: Settings,
        learn: bool,
    ) -> State:
        """One round of the coordinator's smoother, from the news ``g``, ``F`` and ``R``."""
        gain, cut = settings.gain, sight.windows
        F, R = sums.total["F"], sums.total["R"]
        seen, pull = sight.pull(F, R, g)
        information = gain * step * cut.per_slot(seen)
        vector = gain * cut.per_slot(pull)
        vector += (information @ dynamics.seen(state.m, cut)[:, :, None])[:, :, 0]
        A, S = state.A, state.S
        for _ in range(settings.inner if learn else 1):
            m = dynamics.smoothed_mean(A, S, information, vector, cut)
            if learn:
                cov = dynamics.published_covariances(A, S, F, R, sight.w, gain, cut)
                apart = "dynamics" in self.plan.without
                A, S = (dynamics.forget if apart else dynamics.learn)(m, cov)
        return replace(state, m=m, A=A, S=S, F=F, R=R)


def first_state(n_slots: int, k: int, power: float) -> State:
    """Before anything is known: slow dynamics, and readings of a spread of about one, so that q
    has the variance 1 / mean|p|^2."""
    return State(
        m=np.zeros((n_slots, k)),
        A=0.95 * np.eye(k),
        S=(1 - 0.95**2) / max(power, 1e-12) * np.eye(k),
        F=np.zeros((k, k)),
        R=np.eye(k),
    )


def sight_of(
    replies: Replies, cut: windows.Windows, turn: Array | None = None, rows: Array | None = None
) -> directions.Sight:
    """How the sums see q, from what is said along each axis; evenly where there is no map."""
    total = replies.total
    w = total["w"].sum(axis=1) / float(total["sensors"])
    if turn is None or rows is None:
        return directions.Sight(cut, w)
    shares = total["w"] / np.maximum(total["axes"], 1e-6)
    return directions.look(cut, w, np.clip(shares, 0.0, 1.0), turn, rows)


def _mean_error(replies: Replies) -> float:
    """Mean absolute error on held-out readings: two numbers of a secure sum."""
    held, n = float(replies.total["held"]), float(replies.total["held_n"])
    return held / n if n else 0.0
