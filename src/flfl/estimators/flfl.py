"""``FLFL``: the default method behind the estimator's contract."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted, validate_data

from flfl.config import SENTINELS, MethodSettings, Settings
from flfl.errors import InputError
from flfl.estimators.base import Array, BaseRecoverer, Progress, plain_frame
from flfl.estimators.owners import Partition, Sites, partition
from flfl.estimators.saved_model import Kept, Remembered
from flfl.io.grid import Grid
from flfl.io.sensors import Sensors
from flfl.model.basis import map_box, to_plane
from flfl.protocol.added_error import AddedError
from flfl.protocol.client import Client, Finished, Refusal
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.finish import Effort, OwnPart, finish_at_home
from flfl.protocol.network import Network, together
from flfl.protocol.owner import Owner, Table, own_units
from flfl.protocol.plan import Plan
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator, Site, Witness
from flfl.secagg import LEAST_SITES
from flfl.transport import local
from flfl.transport.local import Tap

_ARRAYS = (
    "lower_", "upper_", "method_", "holdout_", "inside_", "site_estimates_", "site_holdout_",
    "added_error_",
)  # fmt: skip
Hooks = tuple[Progress | None, Tap | None, Witness | None]
Job = tuple[Table, Network | None, OwnPart | None, Array]
"""An owner's finish at home: its table, the public state, its own part of that, and the added error
of its sensors."""


@dataclass(kw_only=True, eq=False, repr=False)
class FLFL(BaseRecoverer):
    """Federated recovery from one release of noisy copies, with exact inference.

    Every owner makes a noisy copy of its readings, once. The sites release sums over all owners
    made from the copies, fit a dynamic factor model to them in a few rounds, and each owner
    finishes at home with its own clean readings. Nothing needs tuning.

    Parameters
    ----------
    added_error : float or str
        Noise in the copies: a multiple of each sensor's own error in time, or a text such as
        ``"2 ug/m3"``, in the readings' units. 0 means that the coordinator is trusted.
    share : float
        Numbers released for each reading. Above one half the coordinator learns about as much as
        the copies hold: for networks that trust it.
    effort : {"full", "quick"}
        Quick is without trees.
    rank : int
        Factors at the most.
    rounds : int
        Rounds of the shared fit.
    pilot : bool
        Release a tenth of the slots first, to learn how little noise is enough.
    transformation : "none", "sqrt" or "log1p", optional
        Of the readings before they are modelled. None lets the sites vote.
    season : int, optional
        Slots of a period (0: none). None lets the sites vote.
    sharing : {"network", "nothing", "everything"}
        Nothing: each owner by itself. Everything: one owner holds all sensors.
    coverage : float
        Of the prediction intervals.
    n_regions : int, optional
        Regions to find from the coordinates; None for one for about 8 sensors.
    secure : bool, optional
        Hide every site's part of the sums from the coordinator; None does so with three sites or
        more, which it takes.
    missing : sequence of float
        Numbers that stand for a missing reading, as in a file; a warning counts them. They are
        filled like NaN.
    random_state : int
        Seed of every draw. Here one process plays all owners, so the noise of the copies follows
        from it too; real sites draw theirs from a secret.

    Attributes
    ----------
    estimates_, lower_, upper_ : (n_slots, n_sensors) arrays
        Every entry and its interval.
    holdout_, inside_ : (n_slots, n_sensors) arrays
        Estimates of the readings that were held out for choosing, and whether each lay in its
        interval; NaN elsewhere.
    method_ : (n_slots, n_sensors) array
        Where each estimate comes from: 0 interpolation, 1 the owner's own sensors, 2 the network.
    site_estimates_, site_holdout_ : (n_slots, n_sensors) arrays
        What each owner gets by itself: every entry, and the readings that were held out.
    added_error_ : (n_sensors,) array
        Median added error of each sensor's copies at its median reading, in the readings' units;
        NaN for a sensor that stayed at home.
    network_, settings_, secure_, n_rounds_, traffic_, partition_
        The public state, what was chosen, and what their names say.
    readings_, remembered_
        The fitted table, for ``partial_fit``; the finished run, for ``warm_start`` and
        :func:`~flfl.estimators.saved_model.save_model`, None where nothing was shared.

    Examples
    --------
    >>> t = np.arange(200.0)
    >>> X = np.column_stack([np.sin(t / 9 + i / 20) + i for i in range(6)])
    >>> X[20:23, 1] = np.nan
    >>> filled = FLFL(effort="quick").fit_transform(X)
    >>> bool(np.isnan(filled).any())
    False
    """

    added_error: float | str = 1.0
    share: float = 0.5
    effort: str = "full"
    rank: int = 20
    rounds: int = 5
    pilot: bool = True
    transformation: str | None = None
    season: int | None = None
    sharing: str = "network"
    coverage: float = 0.9
    n_regions: int | None = None
    secure: bool | None = None
    missing: Sequence[float] = SENTINELS
    random_state: int = 0

    settings: ClassVar[type[Settings] | None] = MethodSettings
    _unit_free: ClassVar[bool] = False
    _by_sensor: ClassVar[tuple[str, ...]] = _ARRAYS

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
        grid: Grid | None = None,
        warm_start: Remembered | None = None,
        progress: Progress | None = None,
        tap: Tap | None = None,
        witness: Witness | None = None,
        finish: bool = True,
    ) -> Self:
        """Learn from the known entries of a time x sensor table; see also the base class.

        Parameters
        ----------
        warm_start : Remembered, optional
            The ``remembered_`` of an earlier fit whose slots are the first ones of this table: only
            the new slots are released, and the copies of the others stay as they are.
        tap, witness : callable, optional
            Called with ("up" or "down", site, bytes) for every message, and with all that the
            coordinator learns; the audit stands here.
        finish : bool
            False leaves out the finish at home, from which nothing leaves: estimates stay NaN.
        """
        X, _ = plain_frame(X)
        self.readings_ = X
        hooks = progress, tap, witness
        estimate = partial(self._estimate, warm=warm_start, hooks=hooks, finish=finish)
        return self._fit(X, sensors, sites, grid, estimate)

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
        X, _ = plain_frame(X)
        more = validate_data(self, X, ensure_all_finite="allow-nan", dtype=np.float64, reset=False)
        table: Any = np.vstack([np.asarray(self.readings_, dtype=float), more])
        if isinstance(X, pd.DataFrame) and isinstance(self.readings_, pd.DataFrame):
            table = pd.concat([self.readings_, X])
        return self.fit(table, sensors=self.sensors_, warm_start=self.remembered_)

    def fold_in(
        self,
        X: Any,
        *,
        sensors: Sensors | pd.DataFrame | None = None,
        sites: Sites | None = None,
    ) -> Any:
        """Fill the gaps of sensors that had no part in the fit, at the slots that were fitted.

        Their owners fit them at home to what is public: nothing leaves. Returns X, filled.
        """
        check_is_fitted(self)
        if self.remembered_ is None:
            raise InputError("nothing was shared in this fit, so no sensor can join it")
        kept = ("effort", "coverage", "missing", "random_state")
        new = FLFL(**{name: getattr(self, name) for name in kept})
        new._fit(X, sensors, sites, None, partial(new._join, self.remembered_.network))
        return new.transform(X)

    def _estimate(
        self,
        Y: Array,
        positions: Array,
        sensors: Sensors,
        warm: Remembered | None = None,
        hooks: Hooks = (None, None, None),
        finish: bool = True,
        stores: dict[str, CopyStore] | None = None,
    ) -> Array:
        self.remembered_: Remembered | None = None
        self.secure_, self.n_rounds_ = False, 0
        plane = None
        if sensors.coordinates is not None and sensors.kind is not None:
            plane = to_plane(sensors.coordinates, sensors.kind)
        added = AddedError.parse(str(self.added_error))
        plan = Plan(
            added_error=added.multiple if added.units is None else 0.0,
            share=float(self.share),
            rank=int(self.rank),
            rounds=int(self.rounds),
            pilot=0.1 if self.pilot else 0.0,
            transform=self.transformation,  # type: ignore[arg-type]
            season=self.season,
            period=self.period_,
            box=None if plane is None else map_box(plane),
        )
        tables = self._tables(Y, positions, sensors, plane)
        if len(tables) > 1 and self.sharing == "network":
            jobs = self._run(plan, added, tables, warm, hooks, {} if stores is None else stores)
        else:
            # Each owner by itself: its own units, nothing released.
            jobs = [(table, None, None, np.full(len(table.ids), np.nan)) for table in tables]
            self.settings_: dict[str, Any] = {
                t.name: own_units(t.raw, t.known, plan.units(), t.positions) for t in tables
            }
        return self._finish(plan, jobs, Y, finish)

    def _join(self, network: Network, Y: Array, positions: Array, sensors: Sensors) -> Array:
        """Sensors that join a finished run: fitted at home to what is public."""
        if Y.shape[1] != network.n_slots:
            raise InputError(
                f"{Y.shape[1]} slots, but the model has {network.n_slots}",
                remedy="Give the new sensors' readings at the slots that were fitted",
            )
        tables = self._tables(Y, positions, sensors, None)
        jobs: list[Job] = [(t, network, None, np.full(len(t.ids), np.nan)) for t in tables]
        return self._finish(network.plan, jobs, Y)

    def _tables(
        self, Y: Array, positions: Array, sensors: Sensors, plane: Array | None
    ) -> list[Table]:
        """The owners' tables: rows are their sensors, slots have UTC seconds or numbers."""
        if self.sharing == "everything":
            self.partition_ = Partition(np.zeros(len(Y), np.int64), ("all",) * len(Y))
        else:
            rng = np.random.default_rng(self.random_state)
            self.partition_ = partition(sensors, self.n_regions, rng)
        instants, step = np.arange(len(positions), dtype=np.int64), 1
        index = self.index_
        if isinstance(index, pd.DatetimeIndex) and index.is_unique:
            stamps = index.tz_convert("UTC") if index.tz is not None else index
            seconds = stamps.as_unit("s").asi8
            # Finer than a second, or out of order: slots have numbers.
            if (np.diff(seconds) > 0).all():
                gaps = np.diff(seconds) / np.maximum(np.diff(positions), 1e-9)
                instants, step = seconds, max(int(np.median(gaps)), 1)
        return [
            Table(
                name,
                [sensors.ids[i] for i in at],
                Y[at],
                ~np.isnan(Y[at]),
                None if plane is None else plane[at],
                positions,
                instants,
                step,
            )
            for name, at in self.partition_.members.items()
        ]

    def _run(
        self,
        plan: Plan,
        added: AddedError,
        tables: list[Table],
        warm: Remembered | None,
        hooks: Hooks,
        stores: dict[str, CopyStore],
    ) -> list[Job]:
        """Let the parties talk until the run ends; what each owner has left to do. Owners who have
        a store already use its copies, and new ones get one."""
        earlier, n_slots, (progress, tap, witness) = None, len(tables[0].positions), hooks
        if warm is not None:
            earlier, plan = warm.network, warm.network.plan
            tables = [replace(table, step=warm.step) for table in tables]
            if earlier.n_slots >= n_slots:
                raise InputError(
                    f"the earlier run has {earlier.n_slots} slots, the table {n_slots}",
                    remedy="Give a table that goes on after the earlier one",
                )
        names = [table.name for table in tables]
        self.secure_ = self.secure is not False and len(names) >= LEAST_SITES
        if not self.secure_:
            why = f"a sum over {len(names)} sites does not hide its terms"
            if self.secure:
                raise InputError(
                    f"secure sums need {LEAST_SITES} sites or more: {why}",
                    where="secure",
                    remedy="Let more owners take part, or leave it out",
                )
            why = "secure sums are off" if self.secure is False else why
            note = f"the sites' sums are not hidden from the coordinator: {why}"
            self.traffic_.notes.append(note)
        sums, hiding = local.secure(names) if self.secure_ else (None, {})
        clients, once = [], together()
        for table in tables:
            secret = hashlib.sha256(f"flfl {self.random_state} {table.name}".encode()).digest()
            if warm is not None:
                stores[table.name] = warm.store(table.name)
            store = stores.setdefault(table.name, CopyStore())
            owner = Owner(table, Copier(secret, store), added)
            clients.append(Client(owner, plan, hiding.get(table.name), once, earlier))
        run = Coordination(plan, tables[0].positions, self.traffic_, earlier, progress, once=once)
        sites = [Site(n, c, PROTOCOL, hiding.get(n)) for n, c in zip(names, clients, strict=True)]
        program = run.program()
        coordinator = Coordinator(
            program, PROTOCOL, names, run.sizes, witness=witness, security=sums
        )
        try:
            local.run(coordinator, sites, self.traffic_, tap)
        except Refusal as refusal:
            # One process plays all owners, so the owner's own reason may be told.
            raise InputError(str(refusal.__cause__ or refusal)) from None
        network = run.network
        assert network is not None
        self.network_ = network
        self.settings_ = {
            "transform": network.transform, "season": network.season, "rank": network.P.shape[1]
        }  # fmt: skip
        self.n_rounds_ = self.traffic_.rounds
        jobs: list[Job] = []
        kept = {}
        for table, client in zip(tables, clients, strict=True):
            assert isinstance(client.state, Finished)
            out, store = client.outgoing, client.owner.store
            own = OwnPart(network.rows(table.name), out.copies, client.state.offsets)
            jobs.append((table, network, own, client.owner.in_units(out, network.transform)))
            copies, sigmas = zip(*(store.read(i, table.instants) for i in table.ids), strict=True)
            held = np.array([store.held(sensor)[1] for sensor in table.ids])
            kept[table.name] = Kept(
                tuple(table.ids), table.instants, np.array(copies), np.array(sigmas), held
            )
        self.remembered_ = Remembered(network, kept, tables[0].step)
        return jobs

    def _finish(self, plan: Plan, jobs: list[Job], Y: Array, finish: bool = True) -> Array:
        """Every owner's finish at home, side by side (the estimator plays all the owners)."""
        parts, self.added_error_ = np.full((8, *Y.shape), np.nan), np.empty(len(Y))
        for table, network, own, noise in jobs:
            at = self.partition_.members[table.name]
            self.added_error_[at] = noise
            if finish:
                draws = f"flfl {self.random_state} draws {table.name}".encode()
                seed = int.from_bytes(hashlib.sha256(draws).digest()[:4], "little")
                effort = Effort(
                    self.effort == "full", self.coverage, self.period_, seed, self.per_hour_
                )
                made = finish_at_home(table, effort, plan.units(), network, own)
                parts[:, at] = [getattr(made, field.name) for field in fields(made)]
        estimate, self.lower_, self.upper_, self.method_, *tests = (x.T for x in parts)
        self.holdout_, self.inside_, self.site_estimates_, self.site_holdout_ = tests
        return estimate.T
