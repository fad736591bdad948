"""What travels, and what all parties agree on before the run.

Every answer is summed over the sites; the coordinator sees totals only. The readings enter one
sum, ``g``, through one projection that is fixed before the first upload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flfl.federation.messages import Exchange, Field, Protocol
from flfl.model.shared import projection
from flfl.model.shared.selection import LENGTHS

Array = NDArray[np.float64]
Projection = Literal["fixed", "learned", "adaptive"]
Transform = Literal["none", "sqrt", "log1p"]

STOP = 0.85
"""Share of the cap at which the guard has done enough: who knows more than leverage counts on, such
as a sample of a sensor's readings, reads up to a quarter more than it says."""
MOST_UNDONE = 4
"""Rounds that may be undone; a run that needs more has come to its end."""
_CLUMPED = 2.5
"""Measured: half of the sites take about 80 % of what shelters the worst of the others."""
TRANSFORMS: tuple[Transform, ...] = ("none", "sqrt", "log1p")
PARTS = ("dynamics", "direction weights", "predictive step", "sensor heads", "site head")
"""What ``FactorPlan.without`` may leave out."""


@dataclass(frozen=True)
class FactorPlan:
    """Public settings of a run. None means: chosen from sums.

    Attributes
    ----------
    max_exposure : the cap; the network releases at most ``0.6 * max_exposure`` numbers a reading
    projection : ``fixed``, ``learned`` (adaptive on the oldest slots, then frozen) or ``adaptive``
    rank, transform, period, length, noise, rounds : see the estimator
    candidate_period : the season worth trying (slots), 0 for none
    box : corners (2, 2) of the map that the owners publish; None without coordinates
    boost : whether the boosted head is used
    without : parts that are left out, of ``PARTS``
    collusion : share of the other sensors whose owners may side with the coordinator
    blur : noise on the readings that speak, in units of each sensor's own interpolation error
    epsilon, delta : budget of the one noisy release; None for a run without one
    bounds : limits of the readings, declared beforehand; needed with epsilon
    noise_sites : sites whose noise together must be enough: those that neither drop nor collude
    refits : how often a latent vector that enters the sums may be fitted anew
    n_sensors : sensors of the network, 0 if not known: sites check what they are sent against it
    holdout : share of the readings that each sensor keeps out of the fit to judge by
    """

    max_exposure: float = 0.5
    projection: Projection = "fixed"
    rank: int | None = None
    transform: Transform | None = None
    period: int | None = None
    candidate_period: int = 0
    length: float | None = None
    noise: float | None = None
    rounds: int | None = None
    box: tuple[tuple[float, float], tuple[float, float]] | None = None
    boost: bool = True
    without: tuple[str, ...] = ()
    collusion: float = 0.0
    blur: float = 0.0
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[float, float] | None = None
    noise_sites: int = 1
    refits: int = 12
    n_sensors: int = 0
    holdout: float = 0.05
    coverage: float = 0.9
    learning_share: float = 0.15
    gain: float = 1.0
    clip: float = 3.0
    dof: float = 4.0
    ridge: float = 1.0
    width_factor: float = 0.8
    guard_sums: int = 30
    window_sums: int = 6
    plateau: float = 0.001
    least_rounds: int = 5

    @property
    def allowed(self) -> float:
        """Most numbers a reading, in every window; infinite with the guard off.

        Colluders subtract their own part: what counts is numbers for each *honest* reading.
        """
        if not self.guarded:
            return float("inf")
        return 0.6 * self.max_exposure * (1 - self.coalition)

    @property
    def coalition(self) -> float:
        """Share of what shelters a sensor that a coalition takes away: more than its share of the
        sensors, since coalitions are of whole sites, whose sensors stand together on the map."""
        return 1 - (1 - self.collusion) ** _CLUMPED

    @property
    def most_rounds(self) -> int:
        """Rounds that a site answers at the most: three times the usual, and some undone."""
        return max(32, self.rounds or 0) + MOST_UNDONE

    def knots(self, rank: int) -> tuple[Array, float]:
        """Where the bumps of the projection stand, and how wide they are: everyone can tell."""
        if self.box is None or rank < 2:
            return np.zeros((0, 2)), 1.0
        lower, upper = np.array(self.box)
        knots = projection.knots_on_box(lower, upper, rank - 1)
        return knots, projection.bump_width(knots, self.width_factor)

    @property
    def influence(self) -> float:
        """Most that one reading may weigh in one refit, whatever ``m`` a site is sent."""
        return self.allowed / self.refits if self.guarded else float("inf")

    @property
    def refit_share(self) -> float:
        """Most that all refits of a sensor may carry of its news."""
        return 0.2 * self.max_exposure if self.guarded else float("inf")

    @property
    def guarded(self) -> bool:
        """Whether the guard is on."""
        return self.max_exposure < 1

    def learning_slots(self, n_slots: int) -> int:
        """How many of the oldest slots a learned projection may look at."""
        return max(int(self.learning_share * n_slots), min(2, n_slots))

    def trials(self) -> list[tuple[Transform, int]]:
        """Pairs of transform and season to try."""
        transforms = (self.transform,) if self.transform else TRANSFORMS
        if self.period is not None:
            periods: tuple[int, ...] = (self.period,)
        else:
            periods = (0, self.candidate_period) if self.candidate_period else (0,)
        return [(transform, period) for period in periods for transform in transforms]


_K = ("rank", "rank")
_SUMS = {
    "g": Field("sum", ("windows", "rank")),
    "F": Field("sum", _K),
    "R": Field("sum", _K),
    "held": Field("sum"),
    "held_n": Field("sum"),
}
_MODEL = {
    "m": Field("float", ("slots", "rank")),
    "A": Field("float", _K),
    "S": Field("float", _K),
    "F": Field("float", _K),
    "R": Field("float", _K),
}
_ENERGY = {"energy": Field("sum", ("windows", "rank"))}
_NOISE = {"noise": Field("sum", _K), "over": Field("sum")}
_MIX = {
    "errors": Field("sum", ("bins", "candidates", "candidates")),
    "weight": Field("sum"),
    "absolute": Field("sum"),
    "entries": Field("sum", ("bins",)),
    "runs": Field("sum", ("bins",)),
}

_COUNTS = {
    "counts": Field("sum", ("slots",)),
    "speakers": Field("sum", ("slots",)),
    "sensors": Field("sum"),
}

PROTOCOL: Protocol = {
    # Before any reading is used: what kind of data is this, and how much of it?
    "trial": Exchange({}, {"errors": Field("sum", ("trials",))}),
    "units": Exchange(
        {"trial": Field("int")},
        {
            "sensors": Field("sum"),
            "varying": Field("sum"),
            "log_scale": Field("sum"),
            "memory": Field("sum", (len(LENGTHS),)),
        },
    ),
    "span": Exchange(
        {
            "slots": Field("int"),
            "scale": Field("float"),
            "length": Field("float"),
            "noise": Field("float"),
        },
        _COUNTS,
        cohort="fixes",
    ),
    # The same where one noisy release is to be the only thing that depends on readings.
    "enrol": Exchange({}, {"sensors": Field("sum"), "sites": Field("sum")}),
    # The projection, and the guard that scales it, frozen before the first upload.
    "basis": Exchange(
        {
            "rank": Field("int"),
            "learned": Field("int"),
            "knots": Field("float", ("*", "*")),
            "width": Field("float"),
        },
        {"gram": Field("sum", _K)},
    ),
    "whiten": Exchange(
        {
            "W": Field("float", _K),
            "edges": Field("int", ("*",)),
            "released": Field("int", ("*",)),
            "counts": Field("float", ("slots",)),
        },
        _NOISE,
    ),
    "guard": Exchange({"noise": Field("float", _K)}, _NOISE),
    "local": Exchange({"turn": Field("float", _K)}, _ENERGY),
    "window": Exchange({"energy": Field("float", ("windows", "rank"))}, _ENERGY),
    # How much the sums will say along each local axis: of the gaps, not of the readings.
    "weigh": Exchange(
        {"turn": Field("float", _K)},
        {
            "w": Field("sum", ("windows", "rank")),
            "axes": Field("sum", ("rank",)),
            "power": Field("sum"),
            "sensors": Field("sum"),
        },
    ),
    # The rounds. Only `g` depends on the readings slot by slot.
    "open": Exchange(
        {
            "w": Field("float", ("windows",)),
            "noise": Field("float", _K),
            "gain": Field("float"),
        },
        _SUMS,
        cohort="whole",
    ),
    "round": Exchange({**_MODEL, "back": Field("int")}, _SUMS),
    "finish": Exchange(_MODEL, {}),
    # New slots on an earlier run's model; new sensors on it, without any round.
    "resume": Exchange(
        {
            "trial": Field("int"),
            "first": Field("int"),
            "scale": Field("float"),
            "length": Field("float"),
            "noise": Field("float"),
            "rank": Field("int"),
        },
        _COUNTS,
        cohort="fixes",
    ),
    "rewindow": Exchange(
        {
            "edges": Field("int", ("*",)),
            "released": Field("int", ("*",)),
            "counts": Field("float", ("slots",)),
        },
        _NOISE,
    ),
    "adopt": Exchange(
        {
            "trial": Field("int"),
            "scale": Field("float"),
            "gain": Field("float"),
            "w": Field("float", ("*",)),
            "edges": Field("int", ("*",)),
            "released": Field("int", ("*",)),
            "m": Field("float", ("*", "*")),
            "A": Field("float", ("*", "*")),
            "S": Field("float", ("*", "*")),
            "F": Field("float", ("*", "*")),
            "R": Field("float", ("*", "*")),
        },
        {},
    ),
    "alone": Exchange({}, {}),
    # Which head is best: sums of products of errors on held-out readings, as many numbers as
    # there are readings for. Asked twice: the first time only how many are held out.
    "heads": Exchange({"groups": Field("int", ("*",)), "detail": Field("int")}, _MIX),
    "mix": Exchange(
        {"weights": Field("float", ("bins", "candidates")), "knee": Field("float")}, _MIX
    ),
    "boost": Exchange({"weights": Field("float", ("bins", "candidates"))}, _MIX),
    "settle": Exchange(
        {
            "weights": Field("float", ("bins", "candidates")),
            "knee": Field("float"),
            "scale": Field("float"),
            "mean_weight": Field("float"),
            "spread": Field("float", ("bins",)),
        },
        {"snap": Field("sum", ("*", 2))},
    ),
    "publish": Exchange({"snap": Field("float")}, {}),
    # Each site chooses among its heads by itself: nothing of it is sent.
    "choose": Exchange({}, {}),
}
