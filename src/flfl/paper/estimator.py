"""``flfl-paper``: the paper's method behind the estimator's contract."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer
from flfl.estimators.owners import partition
from flfl.estimators.parameters import COUNT, NOT_NEGATIVE, POSITIVE, WHOLE
from flfl.io.scaling import Scaling
from flfl.io.sensors import Sensors
from flfl.paper.federation import PROTOCOL, PaperPlan, PaperSite, Progress, coordinate
from flfl.paper.graph import region_laplacian
from flfl.paper.objective import Weights
from flfl.protocol.coordinator import Coordinator, Witness
from flfl.protocol.site import Site
from flfl.transport import local

_DEFAULT = PaperPlan()


class PaperFLFL(BaseRecoverer):
    """Federated latent factor learning with spatial and temporal smoothness, as printed.

    Every sensor keeps its readings and its latent vector; the coordinator holds the time factors
    Q and sees **plain gradients, from which every reading can be computed**: this method is a
    reference, not a way to keep readings to oneself.

    Parameters
    ----------
    rank : number of latent factors (k), at most the number of sensors and slots; None for 10
        or what the table can hold
    n_neighbors : neighbours of a sensor in its region's graph (Top_k)
    ridge, spatial_weight, temporal_weight : lambda, z1, z2
    learning_rate : relative step size (eta times the curvature of a balanced start)
    rounds : rounds at most; the run stops early when held-out readings say so
    gradient_rule : ``"paper"`` (the printed formulas) or ``"exact"`` (the true derivative)
    schedule : ``"prompt"`` (Q moves on every arrival, as printed) or ``"synchronous"``
    symmetrize : ``"none"`` (as printed), ``"mean"`` or ``"max"``
    n_regions : regions to find from the coordinates (default: one for about 8 sensors)
    random_state : seed of every random draw

    Attributes
    ----------
    n_rounds_ : training rounds run
    partition_ : region and site of each sensor

    Examples
    --------
    >>> t = np.arange(60.0)
    >>> X = np.column_stack([np.sin(t / 9), 2 * np.sin(t / 9) + 1, np.sin(t / 9) - 3])
    >>> X[20:23, 1] = np.nan
    >>> filled = PaperFLFL(rank=1).fit_transform(X)
    >>> bool(np.isnan(filled).any())
    False
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [COUNT, None],
        "n_neighbors": [COUNT],
        "ridge": [NOT_NEGATIVE],
        "spatial_weight": [NOT_NEGATIVE],
        "temporal_weight": [NOT_NEGATIVE],
        "learning_rate": [POSITIVE],
        "rounds": [COUNT],
        "gradient_rule": [StrOptions({"paper", "exact"})],
        "schedule": [StrOptions({"prompt", "synchronous"})],
        "symmetrize": [StrOptions({"none", "mean", "max"})],
        "n_regions": [COUNT, None],
        "random_state": [WHOLE],
    }

    def __init__(
        self,
        *,
        rank: int | None = None,
        n_neighbors: int = 3,
        ridge: float = _DEFAULT.weights.ridge,
        spatial_weight: float = _DEFAULT.weights.spatial,
        temporal_weight: float = _DEFAULT.weights.temporal,
        learning_rate: float = _DEFAULT.learning_rate,
        rounds: int = _DEFAULT.rounds,
        gradient_rule: str = _DEFAULT.rule,
        schedule: str = _DEFAULT.schedule,
        symmetrize: str = "none",
        n_regions: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.n_neighbors = n_neighbors
        self.ridge = ridge
        self.spatial_weight = spatial_weight
        self.temporal_weight = temporal_weight
        self.learning_rate = learning_rate
        self.rounds = rounds
        self.gradient_rule = gradient_rule
        self.schedule = schedule
        self.symmetrize = symmetrize
        self.n_regions = n_regions
        self.random_state = random_state

    progress: Progress | None = None
    """Called with (round, rounds, held-out error) at every check."""
    witness: Witness | None = None
    """Sees all that the coordinator learns; the audit stands here."""

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        self._validate_params()
        plan = self._plan(Y)
        self.partition_ = partition(
            sensors, self.n_regions, np.random.default_rng(self.random_state)
        )
        sizes = {"slots": Y.shape[1], "rank": plan.rank}
        names = self.partition_.site_names
        homes = [self.partition_.members(name) for name in names]
        scalings = [Scaling.fit(Y[home]) for home in homes]
        programs = [
            self._site(Y, home, scaling, sensors, plan)
            for home, scaling in zip(homes, scalings, strict=True)
        ]
        sites = [Site(name, own, PROTOCOL) for name, own in zip(names, programs, strict=True)]
        program = coordinate(plan, Y.shape[1], self.random_state, self.traffic_, self.progress)
        coordinator = Coordinator(program, PROTOCOL, names, sizes, witness=self.witness)
        local.run(coordinator, sites, self.traffic_)
        self.n_rounds_ = self.traffic_.rounds
        estimates = np.empty_like(Y)
        for own, home, scaling in zip(programs, homes, scalings, strict=True):
            estimates[home] = scaling.undo(own.recover())
        return estimates

    def _plan(self, Y: Array) -> PaperPlan:
        rank = min(_DEFAULT.rank, *Y.shape) if self.rank is None else self.rank
        if rank > min(Y.shape):
            raise InputError(
                f"rank {rank} is larger than the table of {Y.shape[0]} sensors with readings x"
                f" {Y.shape[1]} slots allows",
                remedy=f"Use a rank of at most {min(Y.shape)}",
            )
        return PaperPlan(
            rank=rank,
            rounds=self.rounds,
            learning_rate=self.learning_rate,
            weights=Weights(self.ridge, self.spatial_weight, self.temporal_weight),
            rule=self.gradient_rule,  # type: ignore[arg-type]
            schedule=self.schedule,  # type: ignore[arg-type]
        )

    def _site(
        self, Y: Array, home: Any, scaling: Scaling, sensors: Sensors, plan: PaperPlan
    ) -> PaperSite:
        regions = self.partition_.regions[home]
        return PaperSite(
            [sensors.ids[i] for i in home],
            home.tolist(),
            scaling.apply(Y[home]),
            ~np.isnan(Y[home]),
            regions.tolist(),
            {
                int(label): self._laplacian(sensors, home[regions == label])
                for label in np.unique(regions)
            },
            plan,
            self.random_state,
        )

    def _laplacian(self, sensors: Sensors, members: Any) -> Array:
        coordinates = None if sensors.coordinates is None else sensors.coordinates[members]
        return region_laplacian(
            coordinates,
            sensors.kind,
            self.n_neighbors,
            size=len(members),
            symmetrize=self.symmetrize,  # type: ignore[arg-type]
        )
