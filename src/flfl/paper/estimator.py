"""``flfl-paper``: the paper's method behind the estimator's contract."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from flfl import constants
from flfl.config import Count, NotNegative, Positive, Whole
from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer
from flfl.estimators.owners import partition
from flfl.io.sensors import Sensors
from flfl.paper.federation import PROTOCOL, PaperPlan, PaperSite, Progress, Schedule, coordinate
from flfl.paper.graph import Symmetrize, region_laplacian
from flfl.paper.objective import Rule, Weights
from flfl.paper.scaling import Scaling
from flfl.protocol.session import Coordinator, Site, Witness
from flfl.transport import local


@dataclass(kw_only=True, eq=False, repr=False)
class PaperFLFL(BaseRecoverer):
    """Federated latent factor learning with spatial and temporal smoothness, as printed.

    Every sensor keeps its readings and its latent vector; the coordinator holds the time factors
    Q and sees **plain gradients, from which every reading can be computed**: this method is a
    reference, not a way to keep readings to oneself.

    Parameters
    ----------
    rank, n_neighbors : int
        Latent factors (k), and neighbours of a sensor in its region's graph (Top_k).
    ridge, spatial_weight, temporal_weight : float
        lambda, z1, z2.
    learning_rate, rounds : float, int
        Relative step size (eta times the curvature of a balanced start), and rounds at most.
    gradient_rule : {"paper", "exact"}
        The printed formulas, or the true derivative.
    schedule : {"prompt", "synchronous"}
        Q moves on every arrival, as printed, or once a round.
    symmetrize : {"none", "mean", "max"}
        What is done to the printed graph, which need not be symmetric.
    n_regions, random_state : int
        Regions to find from the coordinates (default: one for about 8 sensors), and the seed.

    Attributes
    ----------
    n_rounds_, partition_ : int, Partition
        Training rounds run; region and site of each sensor.

    Examples
    --------
    >>> t = np.arange(60.0)
    >>> X = np.column_stack([np.sin(t / 9), 2 * np.sin(t / 9) + 1, np.sin(t / 9) - 3])
    >>> X[20:23, 1] = np.nan
    >>> bool(np.isnan(PaperFLFL(rank=1).fit_transform(X)).any())
    False
    """

    rank: Count | None = None
    n_neighbors: Count = constants.PAPER_NEIGHBORS
    ridge: NotNegative = constants.PAPER_RIDGE
    spatial_weight: NotNegative = constants.PAPER_SPATIAL
    temporal_weight: NotNegative = constants.PAPER_TEMPORAL
    learning_rate: Positive = constants.PAPER_LEARNING_RATE
    rounds: Count = constants.PAPER_ROUNDS
    gradient_rule: Rule = "paper"
    schedule: Schedule = "prompt"
    symmetrize: Symmetrize = "none"
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
        plan, N = self._plan(Y), Y.shape[1]
        rng = np.random.default_rng(self.random_state)
        self.partition_ = partition(sensors, self.n_regions, rng)
        names, homes = list(self.partition_.members), list(self.partition_.members.values())
        scalings = [Scaling.fit(Y[home]) for home in homes]
        programs = [
            self._site(scaling.apply(Y[home]), home, sensors, plan)
            for home, scaling in zip(homes, scalings, strict=True)
        ]
        sites = [Site(name, own, PROTOCOL) for name, own in zip(names, programs, strict=True)]
        program = coordinate(plan, N, self.random_state, self.traffic_, hooks.get("progress"))
        sizes = {"slots": N, "rank": plan.rank}
        coordinator = Coordinator(program, PROTOCOL, names, sizes, witness=hooks.get("witness"))
        local.run(coordinator, sites, self.traffic_)
        self.n_rounds_ = self.traffic_.rounds
        estimates = np.empty_like(Y)
        for own, home, scaling in zip(programs, homes, scalings, strict=True):
            estimates[home] = scaling.undo(own.recover())
        return estimates

    def _plan(self, Y: Array) -> PaperPlan:
        rank = min(constants.PAPER_RANK, *Y.shape) if self.rank is None else self.rank
        if rank > min(Y.shape):
            raise InputError(
                f"rank {rank} is larger than the table of {Y.shape[0]} sensors with readings x"
                f" {Y.shape[1]} slots allows",
                remedy=f"Use a rank of at most {min(Y.shape)}",
            )
        weights = Weights(self.ridge, self.spatial_weight, self.temporal_weight)
        rule, schedule = self.gradient_rule, self.schedule
        return PaperPlan(rank, self.rounds, self.learning_rate, weights, rule, schedule)

    def _site(self, Z: Array, home: Any, sensors: Sensors, plan: PaperPlan) -> PaperSite:
        regions, places = self.partition_.regions[home], sensors.coordinates
        laplacians = {
            int(label): region_laplacian(
                None if places is None else places[home[regions == label]],
                sensors.kind,
                self.n_neighbors,
                size=int((regions == label).sum()),
                symmetrize=self.symmetrize,
            )
            for label in np.unique(regions)
        }
        ids, known = [sensors.ids[i] for i in home], ~np.isnan(Z)
        return PaperSite(ids, home, Z, known, regions, laplacians, plan, self.random_state)
