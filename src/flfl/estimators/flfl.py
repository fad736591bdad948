"""``FLFL``: the default method behind the estimator's contract."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from flfl.ensemble.estimate import Recovered
from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer, Sites
from flfl.estimators.owners import Partition, partition
from flfl.estimators.parameters import COUNT, NOT_NEGATIVE, WHOLE
from flfl.estimators.saved_model import Kept, Remembered
from flfl.io.sensors import Sensors
from flfl.model.geometry import map_box, to_plane
from flfl.protocol import home
from flfl.protocol.client import Client, Published, Refusal
from flfl.protocol.coordinator import Coordinator, Witness
from flfl.protocol.copier import AddedError, Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.home import Effort
from flfl.protocol.owner import Owner, Table
from flfl.protocol.plan import Box, Plan
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination, Progress
from flfl.protocol.site import Site
from flfl.secagg import LEAST_SITES
from flfl.transport import local
from flfl.transport.local import Tap


class FLFL(BaseRecoverer):
    """Federated recovery from one release of noisy copies, with exact inference.

    Every owner makes a noisy copy of its readings, once. The sites release sums over all owners
    made from the copies, fit a dynamic factor model to them in a few rounds, and each owner
    finishes at home with its own clean readings. Nothing needs tuning.

    Parameters
    ----------
    added_error : standard deviation of the noise in the copies, as a multiple of each sensor's own
        error in time; or a text such as ``"2 ug/m3"``, in the readings' units. 0 means that the
        coordinator is trusted
    share : numbers released for each reading, at most one half
    effort : ``"full"``, or ``"quick"`` without trees
    rank : factors at the most
    rounds : of the shared fit
    pilot : release a tenth of the slots first, to learn how little noise is enough
    transformation, season : None lets the sites vote. ``transformation`` is ``"none"``,
        ``"sqrt"`` or ``"log1p"``; ``season`` a number of slots, 0 for none
    sharing : ``"network"``; ``"nothing"``: each owner by itself; ``"everything"``: one owner who
        holds all sensors
    coverage : of the prediction intervals
    n_regions : regions to find from the coordinates (default: one for about 8 sensors)
    secure : hide every site's part of the sums from the coordinator; None does so with three sites
        or more, which it takes
    random_state : seed of every random draw. Here one process plays all owners, so the noise of
        the copies follows from it too; real sites draw theirs from a secret

    Attributes
    ----------
    estimates_, lower_, upper_ : (n_slots, n_sensors), every entry and its interval
    holdout_, inside_ : estimates of the readings that were held out for choosing, and whether each
        lay in its interval; NaN elsewhere
    added_error_ : (n_sensors,) median added error of each sensor's copies at its median reading, in
        the readings' units; NaN for a sensor that stayed at home
    settings_ : what was chosen
    n_rounds_, traffic_, partition_ : as their names say
    secure_ : whether the sites' sums were hidden from the coordinator
    remembered_ : the finished run, for ``warm_start``;
        :func:`~flfl.estimators.saved_model.save_model` writes it to a file

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
        "added_error": [NOT_NEGATIVE, str],
        "share": [Interval(Real, 0, 1, closed="right")],
        "effort": [StrOptions({"full", "quick"})],
        "rank": [COUNT],
        "rounds": [COUNT],
        "pilot": ["boolean"],
        "transformation": [StrOptions({"none", "sqrt", "log1p"}), None],
        "season": [WHOLE, None],
        "sharing": [StrOptions({"network", "nothing", "everything"})],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "n_regions": [COUNT, None],
        "secure": ["boolean", None],
        "random_state": [WHOLE],
    }

    def __init__(
        self,
        *,
        added_error: float | str = 1.0,
        share: float = 0.5,
        effort: str = "full",
        rank: int = 20,
        rounds: int = 5,
        pilot: bool = True,
        transformation: str | None = None,
        season: int | None = None,
        sharing: str = "network",
        coverage: float = 0.9,
        n_regions: int | None = None,
        secure: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.added_error = added_error
        self.share = share
        self.effort = effort
        self.rank = rank
        self.rounds = rounds
        self.pilot = pilot
        self.transformation = transformation
        self.season = season
        self.sharing = sharing
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
        "added_error_",
    )

    progress: Progress | None = None
    """Called with (round, rounds) after every round."""
    tap: Tap | None = None
    """Hears the bytes of every message."""
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
        this table: only the new slots are released, and the copies of the others stay as they are.
        See the base class for the rest.
        """
        self._warm = warm_start
        self._table, self._given = X, (sensors, sites)
        if hasattr(self, "remembered_"):
            del self.remembered_  # of an earlier fit
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
        if not hasattr(self, "estimates_"):
            return self.fit(X, y, sensors=sensors, sites=sites)
        more = validate_data(self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False)
        table: Any = np.vstack([np.asarray(self._table, dtype=float), more])
        if isinstance(X, pd.DataFrame) and isinstance(self._table, pd.DataFrame):
            table = pd.concat([self._table, X])
        sensors, sites = self._given
        run = getattr(self, "remembered_", None)
        return self.fit(table, sensors=sensors, sites=sites, warm_start=run)

    def fold_in(
        self,
        X: Any,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
    ) -> Any:
        """Fill the gaps of sensors that had no part in the fit, at the slots that were fitted.

        Their owners fit them at home to what is public: nothing leaves. Returns a table like X,
        filled.
        """
        check_is_fitted(self, "remembered_")
        newcomer = _NewSensors(
            self.remembered_,
            effort=self.effort,
            coverage=self.coverage,
            random_state=self.random_state,
        )
        return newcomer.fit(X, sensors=sensors, sites=sites).transform(X)

    def plan(self, box: Box | None = None, period: int = 0) -> Plan:
        """What all parties of a run agree on beforehand.

        Parameters
        ----------
        box : corners of the map that the owners publish; period : the season worth trying
        """
        self._validate_params()
        return Plan(
            added_error=self._setting().multiple if self._setting().units is None else 0.0,
            share=min(float(self.share), 1.0),
            rank=int(self.rank),
            rounds=int(self.rounds),
            pilot=0.1 if self.pilot else 0.0,
            transform=self.transformation,  # type: ignore[arg-type]
            season=self.season,
            period=period,
            box=box,
        )

    def _setting(self) -> AddedError:
        if isinstance(self.added_error, str):
            return AddedError.parse(self.added_error)
        return AddedError(float(self.added_error))

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        self._validate_params()
        self.partition_ = self._owners(sensors)
        plane = box = None
        if sensors.coordinates is not None and sensors.kind is not None:
            plane = to_plane(sensors.coordinates, sensors.kind)
            box = map_box(plane)
        plan = self.plan(box, self.period_) if self._warm is None else self._warm.plan
        instants, step = _instants(self._table, positions)
        step = step if self._warm is None else self._warm.step
        tables = [
            _Part(self.partition_, sensors, plane, positions, instants, step).table(Y, name)
            for name in self.partition_.site_names
        ]
        names = self.partition_.site_names
        self.secure_ = False
        if len(names) < 2 or self.sharing == "nothing":
            return self._alone(plan, tables, Y)
        clients = self._run(plan, tables, len(positions))
        results = [self._finish(client) for client in clients]
        self._remember(clients, step)
        return self._collect(results, [_noise(client) for client in clients], Y)

    def _owners(self, sensors: Sensors) -> Partition:
        rng = np.random.default_rng(self.random_state)
        found = partition(sensors, self.n_regions, rng)
        if self.sharing != "everything":
            return found
        return Partition(np.zeros(len(sensors.ids), np.int64), ("all",) * len(sensors.ids))

    def _effort(self, name: str) -> Effort:
        seed = int.from_bytes(_secret(self.random_state, f"draws {name}")[:4], "little")
        return Effort(self.effort == "full", self.coverage, self.period_, seed)

    def _alone(self, plan: Plan, tables: list[Table], Y: Array) -> Array:
        """Each owner by itself: its own vote, nothing released."""
        self.n_rounds_ = 0
        self.settings_: dict[str, Any] = {}
        results = []
        for table in tables:
            owner = Owner(table, Copier(bytes(32), CopyStore()), AddedError())
            trial = plan.trials()[owner.vote(plan.trials()).vote]
            if table.known.any() and trial[0] != "none" and (table.raw[table.known] < 0).any():
                trial = ("none", trial[1])
            results.append(home.finish(table, self._effort(table.name), trial))
            self.settings_[table.name] = trial
        return self._collect(results, [np.full(len(t.ids), np.nan) for t in tables], Y)

    def _run(self, plan: Plan, tables: list[Table], n_slots: int) -> list[Client]:
        """Let the parties talk until the run ends."""
        warm, names = self._warm, [table.name for table in tables]
        if warm is not None and warm.n_slots >= n_slots:
            raise InputError(
                f"the earlier run has {warm.n_slots} slots, the table {n_slots}",
                remedy="Give a table that goes on after the earlier one",
            )
        self.secure_ = self._is_secure(len(names))
        sums, hiding, signers = local.secure(names) if self.secure_ else (None, {}, {})
        clients = []
        for table in tables:
            store = CopyStore() if warm is None else warm.store(table.name)
            copier = Copier(_secret(self.random_state, table.name), store)
            owner = Owner(table, copier, self._setting())
            clients.append(Client(owner, plan, signers.get(table.name)))
        run = Coordination(
            plan,
            tables[0].positions,
            self.traffic_,
            None if warm is None else warm.network,
            self.progress,
        )
        sites = [
            Site(c.owner.table.name, c, PROTOCOL, hiding.get(c.owner.table.name)) for c in clients
        ]
        coordinator = Coordinator(
            run.program(), PROTOCOL, names, run.sizes, witness=self.witness, security=sums
        )
        try:
            local.run(coordinator, sites, self.traffic_, self.tap)
        except Refusal as refusal:
            # One process plays all owners, so the owner's own reason may be told.
            raise InputError(str(refusal.__cause__ or refusal)) from None
        network = run.network
        assert network is not None
        self.network_ = network
        self.settings_ = {
            "transform": network.transform,
            "season": network.season,
            "rank": network.P.shape[1],
        }
        self.n_rounds_ = self.traffic_.rounds
        return clients

    def _finish(self, client: Client) -> Recovered:
        state = client.state
        assert isinstance(state, Published)
        network = state.network
        assert network is not None
        own = network.rows(state.name), client.outgoing, state.offsets
        table = client.owner.table
        trial = network.transform, network.season
        return home.finish(table, self._effort(table.name), trial, network, own)

    def _remember(self, clients: list[Client], step: int) -> None:
        kept = {}
        for client in clients:
            table = client.owner.table
            store = client.owner.store
            rows = [store.read(sensor, table.instants) for sensor in table.ids]
            kept[table.name] = Kept(
                tuple(table.ids),
                table.instants,
                np.array([c for c, _ in rows]),
                np.array([s for _, s in rows]),
                np.array([store.held(sensor) for sensor in table.ids]),
            )
        self.remembered_ = Remembered(self.network_, kept, step)

    def _is_secure(self, n_sites: int) -> bool:
        if self.secure is not False and n_sites >= LEAST_SITES:
            return True
        if self.secure is not None and not self.secure:
            self.traffic_.notes.append(
                "secure sums are off: the coordinator saw each site's own part of the release"
            )
            return False
        why = f"a sum over {n_sites} site{'s' * (n_sites != 1)} does not hide its terms"
        if self.secure:
            raise InputError(
                f"secure sums need {LEAST_SITES} sites or more: {why}",
                where="secure",
                remedy="Let more owners take part, or leave it out",
            )
        self.traffic_.notes.append(f"the sites' sums are not hidden from the coordinator: {why}")
        return False

    def _collect(self, results: list[Recovered], noise: list[Array], Y: Array) -> Array:
        """Every owner's own result, side by side (the estimator plays all the owners)."""
        estimate, lower, upper, holdout, inside = (np.empty_like(Y) for _ in range(5))
        self.added_error_ = np.empty(len(Y))
        for name, result, added in zip(self.partition_.site_names, results, noise, strict=True):
            at = self.partition_.members(name)
            estimate[at], lower[at], upper[at] = result.estimate, result.lower, result.upper
            holdout[at], inside[at], self.added_error_[at] = result.holdout, result.inside, added
        self.lower_, self.upper_ = lower.T, upper.T
        self.holdout_, self.inside_ = holdout.T, inside.T
        return estimate


class _NewSensors(FLFL):
    """Sensors that join a finished run: fitted at home to what is public."""

    def __init__(self, run: Remembered, *, effort: str, coverage: float, random_state: int) -> None:
        super().__init__(effort=effort, coverage=coverage, random_state=random_state)
        self.run = run

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        if Y.shape[1] != self.run.n_slots:
            raise InputError(
                f"{Y.shape[1]} slots, but the model has {self.run.n_slots}",
                remedy="Give the new sensors' readings at the slots that were fitted",
            )
        self.partition_ = partition(sensors, None, np.random.default_rng(self.random_state))
        network = self.run.network
        instants, step = _instants(self._table, positions)
        part = _Part(self.partition_, sensors, None, positions, instants, step)
        tables = [part.table(Y, name) for name in self.partition_.site_names]
        trial = network.transform, network.season
        results = [home.finish(t, self._effort(t.name), trial, network) for t in tables]
        return self._collect(results, [np.full(len(t.ids), np.nan) for t in tables], Y)


@dataclass(frozen=True)
class _Part:
    """Cuts a network's table into its owners' tables."""

    partition: Partition
    sensors: Sensors
    plane: Array | None
    positions: Array
    instants: np.ndarray
    step: int

    def table(self, Y: Array, name: str) -> Table:
        at = self.partition.members(name)
        return Table(
            name,
            [self.sensors.ids[i] for i in at],
            Y[at],
            ~np.isnan(Y[at]),
            None if self.plane is None else self.plane[at],
            self.positions,
            self.instants,
            self.step,
        )


def _noise(client: Client) -> Array:
    """Added error of an owner's sensors at their median readings, in the readings' units (m,)."""
    network = client.state.network
    assert network is not None
    return client.owner.in_units(client.outgoing, network.transform)


def _secret(seed: int, name: str) -> bytes:
    """A secret for a site that is only played here."""
    return hashlib.sha256(f"flfl {seed} {name}".encode()).digest()


def _instants(table: Any, positions: Array) -> tuple[np.ndarray, int]:
    """UTC seconds of the slots where the index holds times, else their numbers; and the step."""
    index = table.index if isinstance(table, pd.DataFrame) else None
    if isinstance(index, pd.DatetimeIndex) and index.is_unique and index.is_monotonic_increasing:
        stamps = index.tz_convert("UTC") if index.tz is not None else index
        seconds = stamps.as_unit("s").asi8
        gaps = np.diff(seconds) / np.maximum(np.diff(positions), 1e-9)
        step = int(np.median(gaps)) if len(gaps) else 1
        if step > 0 and (np.diff(seconds) > 0).all():
            return seconds, step
    return np.arange(len(positions), dtype=np.int64), 1
