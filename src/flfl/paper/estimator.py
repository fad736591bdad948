"""``flfl-paper``: the paper's method behind the estimator's contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import Field

from flfl import constants
from flfl.config import Count, NotNegative, Positive, Whole
from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer
from flfl.estimators.owners import partition
from flfl.io.sensors import Sensors
from flfl.paper.federation import PROTOCOL, PaperPlan, Progress, Schedule, Setting, coordinate
from flfl.paper.graph import Symmetrize, region_laplacian
from flfl.paper.objective import Rule, Weights
from flfl.paper.scaling import Scaling
from flfl.paper.site import PaperSite, Readings
from flfl.protocol.session import Coordinator, Site, Witness
from flfl.transport import local


class _Usual(NamedTuple):
    n_neighbors: int
    symmetrize: Symmetrize
    n_regions: int | None
    rounds: int


_USUAL: Mapping[Schedule, _Usual] = {
    "prompt": _Usual(3, "none", None, 600),
    "synchronous": _Usual(8, "mean", 1, 400),
}
"""What each schedule has where nothing else is given (docs/decisions/0003)."""

_NO_DERIVATIVE = (
    "the printed gradient is no derivative of an objective, and momentum and Newton steps need one",
    "Use the rule 'whole' or 'exact', or the schedule 'prompt'",
)
_STEP_FOLLOWS = (
    "the step of the schedule 'synchronous' follows from the curvature",
    "Leave it out, or use the schedule 'prompt'",
)
_NO_MOVE_OF_ALL = (
    "with the schedule 'prompt' each sensor moves Q by itself: there is no move of all to repeat",
    "Leave it out, or use the schedule 'synchronous'",
)


@dataclass(kw_only=True, eq=False, repr=False)
class PaperFLFL(BaseRecoverer):
    """Federated latent factor learning with spatial and temporal smoothness.

    Every sensor keeps its readings and its latent vector; the coordinator holds the time factors
    Q and sees **plain gradients, from which every reading can be computed**: this method is a
    reference, not a way to keep readings to oneself.

    ``PaperFLFL()`` reaches the paper's figures with the paper's protocol; ``rule="paper"`` is the
    loop as it is printed, which does not.

    Parameters
    ----------
    rank : int, optional
        Latent factors (k), up to the number of sensors; at most 70 where it is chosen.
    ridge : float, optional
        lambda. What is not given of rank and weights is chosen: the synchronous schedule tries
        seven settings on entries cut from the training entries.
    spatial_weight : float, optional
        z1.
    temporal_weight : float, optional
        z2.
    rule : {"whole", "exact", "paper"}
        Smoothness of the whole recovered matrix, as the paper's text has it; the derivative of its
        equation, over known entries only; its gradient as printed, which is no derivative.
    schedule : "synchronous" or "prompt", optional
        Q moves once a round, with momentum, and sensors move by Newton steps; or on every arrival
        by a fixed step, as printed. By default prompt for the rule ``paper``, else synchronous.
    momentum : float, optional
        Share of the last move that is made again, at most (synchronous).
    learning_rate : float, optional
        Step, relative to the inverse curvature of a balanced start (prompt).
    rounds : int, optional
        Rounds at most: 400, or 600 of the schedule ``prompt``.
    n_neighbors : int, optional
        Neighbours of a sensor in its region's graph (Top_k): 8, or 3 (prompt).
    symmetrize : "none" or "mean", optional
        What is done to that graph, which need not be symmetric as printed: ``mean``, or ``none``
        (prompt).
    n_regions : int, optional
        Regions to find from the coordinates where no sites are given: one, or one for about 8
        sensors (prompt). Whoever shares a region can compute each other's estimates.
    random_state : int
        The seed.

    Attributes
    ----------
    n_rounds_, partition_, setting_ : int, Partition, Setting
        Training rounds run (a choice among settings not counted); region and site of each sensor;
        rank and weights.

    Examples
    --------
    >>> t = np.arange(60.0)
    >>> X = np.column_stack([np.sin(t / 9), 2 * np.sin(t / 9) + 1, np.sin(t / 9) - 3])
    >>> X[20:23, 1] = np.nan
    >>> bool(np.isnan(PaperFLFL(rank=1).fit_transform(X)).any())
    False
    """

    rank: Count | None = None
    ridge: NotNegative | None = None
    spatial_weight: NotNegative | None = None
    temporal_weight: NotNegative | None = None
    rule: Rule = "whole"
    schedule: Schedule | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    learning_rate: Positive | None = None
    rounds: Count | None = None
    n_neighbors: Count | None = None
    symmetrize: Symmetrize | None = None
    n_regions: Count | None = None
    random_state: Whole = 0

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        progress: Progress | None = None,
        witness: Witness | None = None,
        **given: Any,
    ) -> Self:
        """Learn from the known entries of a time x sensor table; arguments as in the base class.

        ``progress`` is called with (done, total) at every check of the held-out error, ``witness``
        with all that the coordinator learns: the audit stands there.
        """
        places = dict.fromkeys(("sensors", "sites", "grid")) | given
        run = partial(self._estimate, progress=progress, witness=witness)
        return self._fit(X, **places, estimate=run)

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors, **hooks: Any) -> Array:
        plan, sizes = self._plan(Y), {"slots": Y.shape[1]}
        rng = np.random.default_rng(self.random_state)
        n_regions = self.n_regions or _USUAL[plan.schedule].n_regions
        self.partition_ = partition(sensors, n_regions, rng)
        names, homes = list(self.partition_.members), list(self.partition_.members.values())
        scalings = [Scaling.fit(Y[home]) for home in homes]
        programs = [
            PaperSite(self._readings(scaling.apply(Y[home]), home, sensors, plan.schedule), plan)
            for home, scaling in zip(homes, scalings, strict=True)
        ]
        sites = [Site(name, own, PROTOCOL) for name, own in zip(names, programs, strict=True)]
        program = coordinate(plan, sizes, self.random_state, self.traffic_, hooks.get("progress"))
        coordinator = Coordinator(program, PROTOCOL, names, sizes, witness=hooks.get("witness"))
        local.run(coordinator, sites, self.traffic_)
        self.n_rounds_, self.setting_ = self.traffic_.rounds, programs[0].state.setting
        estimates = np.empty_like(Y)
        for own, home, scaling in zip(programs, homes, scalings, strict=True):
            estimates[home] = scaling.undo(own.recover())
        return estimates

    def _plan(self, Y: Array) -> PaperPlan:
        schedule = self.schedule or ("prompt" if self.rule == "paper" else "synchronous")
        together, given = schedule == "synchronous", (self.momentum, self.learning_rate)
        for where, makes_no_sense, why, remedy in (
            ("schedule", together and self.rule == "paper", *_NO_DERIVATIVE),
            ("learning_rate", together and given[1] is not None, *_STEP_FOLLOWS),
            ("momentum", not together and given[0] is not None, *_NO_MOVE_OF_ALL),
        ):
            if makes_no_sense:
                raise InputError(why, where=where, remedy=remedy)
        usual = (constants.PAPER_MOMENTUM, constants.PAPER_LEARNING_RATE)
        momentum, rate = (u if g is None else g for g, u in zip(given, usual, strict=True))
        rounds, settings = self.rounds or _USUAL[schedule].rounds, self._settings(Y, schedule)
        return PaperPlan(settings, rounds, self.rule, schedule, rate, momentum)

    def _settings(self, Y: Array, schedule: Schedule) -> tuple[Setting, ...]:
        """The settings to choose from: what is given holds in all of them."""
        most = min(Y.shape)
        if self.rank is not None and self.rank > most:
            raise InputError(
                f"rank {self.rank} is larger than the table of {Y.shape[0]} sensors with readings x"
                f" {Y.shape[1]} slots allows",
                remedy=f"Use a rank of at most {most}",
            )
        # Numbers of sensors and readings are sums that everybody gets to know.
        thin = round(constants.PAPER_THIN_RANK * float((~np.isnan(Y)).sum()) / Y.shape[1])
        grid = [(len(Y), weights) for weights in constants.PAPER_FULL_WEIGHTS]
        grid += [(thin, weights) for weights in constants.PAPER_THIN_WEIGHTS]
        if schedule == "prompt":
            grid = [(constants.PAPER_RANK, constants.PAPER_WEIGHTS)]
        own = (self.ridge, self.spatial_weight, self.temporal_weight)
        limit = min(most, constants.PAPER_MOST_FACTORS)
        found = []
        for factors, usual in grid:
            weights = (u if g is None else g for g, u in zip(own, usual, strict=True))
            rank = self.rank or min(max(factors, 1), limit)
            found.append(Setting(rank, Weights(*weights)))
        return tuple(dict.fromkeys(found))

    def _readings(self, Z: Array, home: Any, sensors: Sensors, schedule: Schedule) -> Readings:
        regions, usual = self.partition_.regions[home], _USUAL[schedule]
        places = sensors.coordinates
        laplacians = {
            int(label): region_laplacian(
                None if places is None else places[home[regions == label]],
                sensors.kind,
                self.n_neighbors or usual.n_neighbors,
                size=int((regions == label).sum()),
                symmetrize=self.symmetrize or usual.symmetrize,
            )
            for label in np.unique(regions)
        }
        ids, known = tuple(sensors.ids[i] for i in home), ~np.isnan(Z)
        return Readings(ids, home, Z, known, regions, laplacians, self.random_state)
