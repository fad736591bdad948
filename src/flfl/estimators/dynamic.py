"""``FLFL``: the default method behind the estimator's contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from flfl.data.sensors import Sensors
from flfl.engines import inprocess
from flfl.engines.inprocess import Tap
from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer, Sites
from flfl.estimators.memory import Remembered
from flfl.estimators.network import partition
from flfl.estimators.parameters import COUNT, NOT_NEGATIVE, POSITIVE, WHOLE
from flfl.federation.coordinator import Coordinator, Program, Witness
from flfl.federation.factors import PROTOCOL, FactorPlan, FactorSite, coordinate
from flfl.federation.factors.keeping import Custody, Sensing, SiteMemory
from flfl.federation.factors.program import Progress
from flfl.federation.factors.protocol import PARTS
from flfl.federation.site import Site
from flfl.model.graph import map_box, to_plane
from flfl.privacy.account import account_path, load_account, own_secret, save_account
from flfl.privacy.budget import check_delta
from flfl.privacy.secure_sum import LEAST_SITES, default_threshold

Box = tuple[tuple[float, float], tuple[float, float]]


class FLFL(BaseRecoverer):
    """Federated recovery by a dynamic factor model seen through one fixed projection.

    Everything that leaves a site is a sum over sensors; the readings enter one such sum, the
    same in every round, with at most ``0.6 * max_exposure`` numbers for each reading. Each site
    then adds what its own sensors know, and the network chooses among these heads from sums of
    held-out errors. Nothing needs tuning.

    Parameters
    ----------
    max_exposure : cap on the share of a sensor's news that the sums may carry (0 to 1). 1 means
        a trusted coordinator: guard off, projection renewed every round, rank free.
    projection : ``"fixed"``, ``"learned"`` (adaptive on the oldest slots, then frozen),
        ``"adaptive"``; None is fixed, or adaptive at ``max_exposure=1``
    effort : ``"full"``, or ``"quick"`` without the boosted head
    without : parts of the method to leave out, to see what each is worth: ``"dynamics"``,
        ``"direction weights"``, ``"predictive step"``, ``"sensor heads"``, ``"site head"``
    rank, transformation, season, length, noise, rounds : None chooses from sums.
        ``transformation`` is ``"none"``, ``"sqrt"`` or ``"log1p"``; ``season`` a number of slots, 0
        for none; ``length`` and ``noise`` belong to each sensor's own smoother
    collusion : share of the other sensors whose owners may side with the coordinator: the cap is
        held against the rest
    blur : noise on the readings that enter the sums, in units of each sensor's own interpolation
        error; recovery uses the clean ones
    epsilon, delta, bounds : a privacy budget for single readings: one noisy release instead of
        rounds. Needs ``bounds``, the limits of the readings, known beforehand
    account : folder where each site keeps its own account of what it has released; None for none
    coverage : of the prediction intervals
    n_regions : regions to find from the coordinates (default: one for about 8 sensors)
    secure : hide every site's sums from the coordinator, who then learns totals only; None does
        so with three sites or more, which it takes
    random_state : seed of every random draw

    Attributes
    ----------
    estimates_, lower_, upper_ : (n_slots, n_sensors), every entry and its interval
    holdout_, inside_ : estimates of the readings that were held out for choosing, and whether each
        lay in its interval; NaN elsewhere
    exposure_ : exposure of each sensor, computed before its first upload
    settings_ : what was chosen
    n_rounds_, ledger_, partition_ : as their names say
    secure_ : whether the sites' sums were hidden from the coordinator
    site_logs_ : what each site wrote about its exposure
    remembered_ : the finished run, for ``warm_start``; :func:`~flfl.estimators.memory.save_model`
        writes it to a file

    Examples
    --------
    >>> t = np.arange(200.0)
    >>> X = np.column_stack([np.sin(t / 9 + i / 20) + i for i in range(6)])
    >>> X[20:23, 1] = np.nan
    >>> filled = FLFL(effort="quick").fit_transform(X)
    >>> bool(np.isnan(filled).any())
    False
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_exposure": [Interval(Real, 0, 1, closed="right")],
        "projection": [StrOptions({"fixed", "learned", "adaptive"}), None],
        "effort": [StrOptions({"full", "quick"})],
        "without": [list, tuple],
        "rank": [COUNT, None],
        "transformation": [StrOptions({"none", "sqrt", "log1p"}), None],
        "season": [WHOLE, None],
        "length": [POSITIVE, None],
        "noise": [POSITIVE, None],
        "rounds": [COUNT, None],
        "collusion": [Interval(Real, 0, 1, closed="left")],
        "blur": [NOT_NEGATIVE],
        "epsilon": [POSITIVE, None],
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "bounds": ["array-like", None],
        "account": [str, Path, None],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "n_regions": [COUNT, None],
        "secure": ["boolean", None],
        "random_state": [WHOLE],
    }

    def __init__(
        self,
        *,
        max_exposure: float = 0.5,
        projection: str | None = None,
        effort: str = "full",
        without: Sequence[str] = (),
        rank: int | None = None,
        transformation: str | None = None,
        season: int | None = None,
        length: float | None = None,
        noise: float | None = None,
        rounds: int | None = None,
        collusion: float = 0.0,
        blur: float = 0.0,
        epsilon: float | None = None,
        delta: float | None = None,
        bounds: tuple[float, float] | None = None,
        account: str | Path | None = None,
        coverage: float = 0.9,
        n_regions: int | None = None,
        secure: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.max_exposure = max_exposure
        self.projection = projection
        self.effort = effort
        self.without = without
        self.rank = rank
        self.transformation = transformation
        self.season = season
        self.length = length
        self.noise = noise
        self.rounds = rounds
        self.collusion = collusion
        self.blur = blur
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.account = account
        self.coverage = coverage
        self.n_regions = n_regions
        self.secure = secure
        self.random_state = random_state

    _unit_free: ClassVar[bool] = False
    _by_sensor: ClassVar[tuple[str, ...]] = (
        "lower_",
        "upper_",
        "holdout_",
        "inside_",
        "exposure_",
    )

    progress: Progress | None = None
    """Called with (round, rounds, held-out error) after every round."""
    tap: Tap | None = None
    """Hears the bytes of every message."""
    secret: bytes | None = None
    """Source of the sites' noise, for tests that must repeat it; None for one nobody knows."""
    witness: Witness | None = None
    """Sees all that the coordinator learns; the audit stands here."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
        warm_start: Remembered | None = None,
    ) -> Self:
        """Learn from the known entries of a time x sensor table.

        ``warm_start`` is the ``remembered_`` of an earlier fit whose slots are the first ones of
        this table: then only the new slots are fitted, in a few rounds, through the projection
        that was used before; no reading is released a second time. See the base class for the
        rest.
        """
        self._warm = warm_start
        self._table = X
        return super().fit(X, y, sensors=sensors, sites=sites)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
    ) -> Self:
        """Add the slots of X, which come after those fitted so far (same columns, same order).

        The first call is a ``fit``. Sensors and sites stay those of the first call.
        """
        if not hasattr(self, "remembered_"):
            return self.fit(X, y, sensors=sensors, sites=sites)
        more = validate_data(self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False)
        table: Any = np.vstack([np.asarray(self._table, dtype=float), more])
        if isinstance(X, pd.DataFrame) and isinstance(self._table, pd.DataFrame):
            table = pd.concat([self._table, X])
        return self.fit(table, sensors=self._sensors, warm_start=self.remembered_)

    def fold_in(
        self,
        X: Any,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
    ) -> Any:
        """Fill the gaps of sensors that had no part in the fit, at the slots that were fitted.

        They fit their latent vectors to the shared model by themselves: no round; what leaves is
        the sums of held-out errors by which heads are chosen. Returns a table like X, filled.
        """
        check_is_fitted(self)
        if self.remembered_.plan.epsilon is not None:
            raise InputError(
                "a run with a privacy budget shares nothing that new sensors could join with",
                remedy="Fit anew with all sensors",
            )
        newcomer = _NewSensors(run=self.remembered_, random_state=self.random_state)
        return newcomer.fit(X, sensors=sensors, sites=sites).transform(X)

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        self._validate_params()
        self._sensors = sensors
        self.partition_ = partition(
            sensors, self.n_regions, np.random.default_rng(self.random_state)
        )
        plane = None
        box = None
        if sensors.coordinates is not None and sensors.kind is not None:
            plane = to_plane(sensors.coordinates, sensors.kind)
            box = map_box(plane)
        warm = self._warm
        if warm is not None:
            self._check_warm(warm)
        if warm is None:
            n_sites, readings = len(self.partition_.site_names), int((~np.isnan(Y)).sum())
            plan = self.plan(len(sensors.ids), n_sites, readings, box, self.period_)
        else:
            plan = warm.plan
        sensing = [
            self._sensing(Y, name, positions, sensors, plane) for name in self.partition_.site_names
        ]
        programs = [
            FactorSite(site, plan, self.random_state, _memory(warm, site), self._custody(site.name))
            for site in sensing
        ]
        self._run(plan, programs, Y.shape[1])
        return self._collect(programs, Y)

    def _check_warm(self, warm: Remembered) -> None:
        """An earlier run's promises are kept: they cannot be asked to be others."""
        kept = warm.plan
        if kept.epsilon is not None or self.epsilon is not None:
            raise InputError(
                "a run with a privacy budget releases its readings once: it cannot go on",
                where="warm_start",
                remedy="Fit anew; the account adds up what the two runs spend",
            )
        for name in ("max_exposure", "collusion", "blur", "projection", "rank"):
            wanted, plan = getattr(self, name), getattr(kept, name)
            default = signature(FLFL).parameters[name].default
            if wanted not in (default, plan):
                raise InputError(
                    f"{name} is {wanted}, but the earlier run's promises rest on {plan}",
                    where="warm_start",
                    remedy=f"Leave {name} out, or fit anew",
                )

    def _custody(self, site: str) -> Custody:
        """A site's own account and secret; without a folder for them, for this run only."""
        cohort = self.partition_.site_names
        if self.account is None:
            return Custody(cohort=cohort, secret=self.secret)
        if _stamps(self._table) is None:
            raise InputError(
                "an account knows readings by their times, and the table has none",
                where="account",
                remedy="Give a table with times, or leave the account out",
            )
        path = account_path(self.account, site)
        return Custody(
            secret=own_secret(path.with_suffix(".secret")),
            account=load_account(path),
            keep=partial(save_account, path),
            cohort=cohort,
        )

    def plan(
        self, n_sensors: int, n_sites: int, readings: int, box: Box | None = None, period: int = 0
    ) -> FactorPlan:
        """What all parties of a run agree on beforehand; None stays open until sums decide it.

        Parameters
        ----------
        readings : how many there are, or at the most; only a privacy budget asks
        box : corners of the map that the owners publish; period : the season worth trying
        """
        self._validate_params()
        trusted = self.max_exposure >= 1
        if self.projection == "adaptive" and not trusted:
            raise InputError(
                "an adaptive projection shows the readings anew in every round: no max_exposure"
                " below 1 can be promised",
                remedy="Set max_exposure to 1 (a trusted coordinator), or use projection 'fixed'",
            )
        noise: dict[str, Any] = {}
        if self.epsilon is None and (self.delta is not None or self.bounds is not None):
            raise InputError(
                "delta and bounds belong to a privacy budget",
                where="bounds" if self.delta is None else "delta",
                remedy="Give epsilon too, or leave them out",
            )
        if self.epsilon is not None:
            bounds = self._check_budget()
            delta = self.delta or min(1e-6, 0.1 / max(readings, 1))
            check_delta(delta, readings)
            noise = {"epsilon": float(self.epsilon), "delta": delta, "bounds": bounds}
            # Hidden in secure sums, the shares of enough sites are noise enough; else each
            # site needs all of it.
            if self._hides(n_sites):
                honest = int(np.ceil((1 - self.collusion) * n_sites))
                noise["noise_sites"] = min(default_threshold(n_sites), honest, n_sites - 1)
        return FactorPlan(
            collusion=float(self.collusion),
            blur=float(self.blur),
            n_sensors=n_sensors,
            **noise,
            max_exposure=float(self.max_exposure),
            projection=self.projection or ("adaptive" if trusted else "fixed"),  # type: ignore[arg-type]
            rank=self.rank,
            transform=self.transformation,  # type: ignore[arg-type]
            period=self.season,
            candidate_period=period,
            length=self.length,
            noise=self.noise,
            rounds=self.rounds,
            box=box,
            boost=self.effort == "full",
            without=self._left_out(),
            coverage=self.coverage,
        )

    def _left_out(self) -> tuple[str, ...]:
        for part in self.without:
            if part not in PARTS:
                raise InputError(
                    f"there is no part {part!r} to leave out",
                    where="without",
                    remedy=f"Use {', '.join(PARTS)}",
                )
        return tuple(self.without)

    def _check_budget(self) -> tuple[float, float]:
        """The declared limits, where a budget is asked for and can be kept."""
        if self.max_exposure >= 1 or self.projection not in (None, "fixed"):
            raise InputError(
                "a privacy budget needs the fixed projection and a max_exposure below 1",
                where="epsilon",
            )
        limits = () if self.bounds is None else tuple(float(x) for x in self.bounds)
        if self.transformation in ("sqrt", "log1p") and limits and limits[0] < 0:
            raise InputError(
                f"{self.transformation} needs limits from zero on", where="bounds",
                remedy="Give a lowest limit of 0 or more, or transformation 'none'",
            )  # fmt: skip
        if len(limits) != 2 or not limits[0] < limits[1] or not np.isfinite(limits).all():
            raise InputError(
                "a privacy budget needs the limits of the readings, known before any of them",
                where="epsilon",
                remedy="Give bounds=(lowest, highest), such as the instrument's range",
            )
        return limits

    def _sensing(
        self, Y: Array, name: str, positions: Array, sensors: Sensors, plane: Array | None
    ) -> Sensing:
        home = self.partition_.members(name)
        return Sensing(
            name,
            [sensors.ids[i] for i in home],
            Y[home],
            ~np.isnan(Y[home]),
            None if plane is None else plane[home],
            positions,
            _stamps(self._table),
        )

    def _run(self, plan: FactorPlan, programs: list[FactorSite], n_slots: int) -> None:
        sizes: dict[str, int] = {}
        run = coordinate(plan, n_slots, self.ledger_, sizes, self.progress)
        warm = self._warm
        program = run.program() if warm is None else run.extend(warm.published)
        self._exchange(program, programs, sizes)
        if plan.projection == "learned":
            self.ledger_.notes.append(
                f"the oldest {plan.learning_slots(n_slots)} slots were shown without the guard, to"
                " learn the projection: this run is not private"
            )
        self.settings_, self.windows_, self.history_ = run.settings, run.windows, run.history
        self.n_rounds_ = self.ledger_.rounds
        if run.published is not None:
            kept = {p.sensing.name: (tuple(p.sensing.ids), p.remembered) for p in programs}
            self.remembered_ = Remembered(plan, run.published, kept)
        self.site_logs_ = {p.sensing.name: tuple(p.promise.log) for p in programs}

    def _exchange(
        self, program: Program, programs: list[FactorSite], sizes: dict[str, int]
    ) -> None:
        """Let the parties talk until the program ends."""
        names = [p.sensing.name for p in programs]
        self.secure_ = self._is_secure(len(names))
        sums, hiding = inprocess.secure(names) if self.secure_ else (None, {})
        sites = [Site(p.sensing.name, p, PROTOCOL, hiding.get(p.sensing.name)) for p in programs]
        coordinator = Coordinator(
            program, PROTOCOL, names, sizes, witness=self.witness, security=sums
        )
        inprocess.run(coordinator, sites, self.ledger_, self.tap)

    def _hides(self, n_sites: int) -> bool:
        """Whether secure sums are wanted and can be had."""
        return self.secure is not False and n_sites >= LEAST_SITES

    def _is_secure(self, n_sites: int) -> bool:
        if self._hides(n_sites):
            return True
        if self.secure is not None and not self.secure:
            self.ledger_.notes.append(
                "secure sums are off: the coordinator saw each site's own sums"
            )
            return False
        why = f"a sum over {n_sites} site{'s' * (n_sites != 1)} does not hide its terms"
        if self.secure:
            raise InputError(
                f"secure sums need {LEAST_SITES} sites or more: {why}",
                where="secure",
                remedy="Let more owners take part, or leave it out and trust the coordinator",
            )
        self.ledger_.notes.append(f"the sites' sums are not hidden from the coordinator: {why}")
        return False

    def _collect(self, programs: list[FactorSite], Y: Array) -> Array:
        """Every owner's own result, side by side (the estimator plays all the owners)."""
        estimate, lower, upper, holdout, inside = (np.empty_like(Y) for _ in range(5))
        self.exposure_ = np.empty(len(Y))
        for program in programs:
            home = self.partition_.members(program.sensing.name)
            result = program.heads.recovered()  # type: ignore[union-attr]
            estimate[home], lower[home], upper[home] = result.estimate, result.lower, result.upper
            holdout[home], inside[home] = result.holdout, result.inside
            self.exposure_[home] = program.exposure
        self.lower_, self.upper_ = lower.T, upper.T
        self.holdout_, self.inside_ = holdout.T, inside.T
        if self.max_exposure >= 1:
            # The projection is renewed every round: a linear read-out reaches everything.
            self.exposure_[:] = 1.0
        return estimate


class _NewSensors(FLFL):
    """Sensors that join a finished model."""

    def __init__(self, *, run: Remembered, random_state: int = 0) -> None:
        super().__init__(random_state=random_state)
        self.run = run

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        if Y.shape[1] != self.run.n_slots:
            raise InputError(
                f"{Y.shape[1]} slots, but the model has {self.run.n_slots}",
                remedy="Give the new sensors' readings at the slots that were fitted",
            )
        self.partition_ = partition(sensors, None, np.random.default_rng(self.random_state))
        # The boosted head needs a network to choose it; a newcomer keeps to the simple ones.
        plan = replace(self.run.plan, boost=False)
        programs = [
            FactorSite(self._sensing(Y, name, positions, sensors, None), plan, self.random_state)
            for name in self.partition_.site_names
        ]
        sizes: dict[str, int] = {}
        run = coordinate(plan, Y.shape[1], self.ledger_, sizes)
        self._exchange(run.fold_in(self.run.published), programs, sizes)
        return self._collect(programs, Y)


def _stamps(table: Any) -> np.ndarray | None:
    """Whole numbers by which slots are known over runs: seconds, where the index holds times."""
    index = table.index if isinstance(table, pd.DataFrame) else None
    return index.as_unit("s").asi8 if isinstance(index, pd.DatetimeIndex) else None


def _memory(warm: Remembered | None, site: Sensing) -> SiteMemory | None:
    """A site's own memory of the earlier run."""
    if warm is None:
        return None
    ids, memory = warm.sites.get(site.name, ((), None))
    if memory is None or ids != tuple(site.ids):
        raise InputError(
            f"site {site.name!r} had other sensors in the earlier run",
            remedy="Fit anew, or fold the new sensors in",
        )
    if memory.held.shape[1] >= site.known.shape[1] - 1:
        raise InputError(
            f"the earlier run has {memory.held.shape[1]} slots, the table {site.known.shape[1]}",
            remedy="Give a table that goes on after the earlier one by at least two slots",
        )
    return memory
