"""``RegionalFLFL``: many networks with shared edges, for more sensors than one sum should carry.

The map is cut into regions of bounded size. Each is a federation of its own, with the sensors
beyond its edge that are nearest. A sensor near an edge so takes part in two or more, with the same
one copy of each reading: its owner has one store for all of them, so that a second network gets
functions of the copies that the first one got. At home the owner blends what they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from flfl.config import Count, MethodSettings, Settings
from flfl.errors import InputError
from flfl.estimators.base import Array
from flfl.estimators.flfl import FLFL, Hooks
from flfl.estimators.owners import partition
from flfl.estimators.saved_model import Remembered
from flfl.io.sensors import Sensors
from flfl.model import Index
from flfl.model.basis import to_plane
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import preferred_units
from flfl.protocol.plan import Plan
from flfl.protocol.server import tally


class RegionalSettings(MethodSettings):
    """Those of the default method, and how the map is cut."""

    region_size: Annotated[int, Field(ge=8)] = 2000
    edge: Annotated[float, Field(ge=0, le=1)] = 0.1
    n_regions: Count | None = None


def cut(plane: Array, most: int) -> list[Index]:
    """Regions of at most so many sensors: halved across the longer side, again and again.

    Examples
    --------
    >>> places = np.array([[0.0, 0.0], [9.0, 1.0], [1.0, 1.0], [8.0, 0.0]])
    >>> [region.tolist() for region in cut(places, 2)]
    [[0, 2], [1, 3]]
    """
    regions = [np.arange(len(plane))]
    while any(len(rows) > most for rows in regions):
        regions = [half for rows in regions for half in _halves(plane, rows, most)]
    return regions


def _halves(plane: Array, rows: Index, most: int) -> list[Index]:
    if len(rows) <= most:
        return [rows]
    side = int(np.argmax(np.ptp(plane[rows], axis=0)))
    order = np.argsort(plane[rows, side], kind="stable")
    return [np.sort(rows[half]) for half in np.array_split(order, 2)]


def with_edge(plane: Array, rows: Index, share: float) -> Index:
    """A region and the sensors outside that are nearest to its box: ``share`` of its size."""
    low, high = plane[rows].min(axis=0), plane[rows].max(axis=0)
    away = np.linalg.norm(np.maximum(np.maximum(low - plane, plane - high), 0.0), axis=1)
    away[rows] = np.inf
    outside = min(int(np.ceil(share * len(rows))), len(plane) - len(rows))
    return np.sort(np.concatenate([rows, np.argsort(away, kind="stable")[:outside]]))


@dataclass(kw_only=True, eq=False, repr=False)
class RegionalFLFL(FLFL):
    """Federated recovery in regions of bounded size, which share the sensors at their edges.

    A table with no more sensors than ``region_size``, or without coordinates, is one network.
    All regions use one transform and one season, for which every owner votes once. Besides those
    below it has the parameters of :class:`~flfl.FLFL`.

    Parameters
    ----------
    region_size : int
        Sensors of a region at the most, without those beyond its edge.
    edge : float
        Sensors beyond its edge that take part in a region, as a share of its own.

    Attributes
    ----------
    networks_ : list
        The public state of each region. There is no ``network_``, and no warm start.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> t, places = np.arange(150.0), rng.random((20, 2))
    >>> X = np.sin(t[:, None] / 9 + places[:, 0]) + 0.1 * rng.standard_normal((150, 20))
    >>> X[20:23, 1] = np.nan
    >>> where = Sensors(tuple(map(str, range(20))), places, "metric")
    >>> model = RegionalFLFL(effort="quick", region_size=10).fit(X, sensors=where, sites="each")
    >>> len(model.networks_), bool(np.isnan(model.transform(X)).any())
    (2, False)
    """

    region_size: int = 2000
    edge: float = 0.1

    settings: ClassVar[type[Settings] | None] = RegionalSettings

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
        place = sensors.coordinates
        if len(Y) <= self.region_size or place is None or sensors.kind is None:
            made = super()._estimate(Y, positions, sensors, warm, hooks, finish, stores)
            self.networks_ = [self.network_] if self.remembered_ else []
            return made
        if warm is not None:
            raise InputError("regions cannot go on with an earlier run", remedy="Fit them anew")
        plane = to_plane(place, sensors.kind)
        rng = np.random.default_rng(self.random_state)
        self.partition_ = partition(sensors, self.n_regions, rng)
        owned = sensors.with_sites(self.partition_.sites)
        transform, season = self._agree(Y, positions)
        self.remembered_: Remembered | None = None
        self.networks_, self.settings_ = [], {"transform": transform, "season": season}
        found, stores, self.n_rounds_ = _Blend(Y.shape), {}, 0
        added = np.full(len(Y), np.nan)
        for region in cut(plane, self.region_size):
            rows = with_edge(plane, region, self.edge)
            part = self._part(transform, season)
            here = owned.subset(rows)
            told = part._estimate(Y[rows], positions, here, None, hooks, finish, stores)
            if part.remembered_:
                self.networks_.append(part.network_)
            self.n_rounds_ = max(self.n_rounds_, part.n_rounds_)
            self.secure_ = part.secure_
            added[rows] = np.fmax(added[rows], part.added_error_)
            if finish:
                found.add(rows, told, part, Y[rows])
        self.added_error_ = added
        arrays = found.result() if finish else dict.fromkeys(_ALL, np.full(Y.shape, np.nan))
        for name in _ALL[1:]:
            setattr(self, name, arrays[name].T)
        return arrays["estimates_"]

    def _agree(self, Y: Array, positions: Array) -> tuple[str, int]:
        """One transform and one season for all regions: one vote an owner."""
        plan = Plan(
            transform=self.transformation,  # type: ignore[arg-type]
            season=self.season,
            period=self.period_,
        )
        choices, votes = [*plan.units()], []
        for rows in self.partition_.members.values() if len(choices) > 1 else ():
            known = np.isfinite(Y[rows])
            vote = preferred_units(Y[rows], known, choices, positions)
            votes.append((vote, bool((Y[rows][known] < 0).any())))
        return choices[tally(choices, votes) if votes else 0]

    def _part(self, transform: str, season: int) -> FLFL:
        """The estimator of one region, before it is fitted."""
        own = {"region_size", "edge", "transformation", "season"}
        given: dict[str, Any] = {k: v for k, v in self.get_params().items() if k not in own}
        part = FLFL(**given, transformation=transform, season=season)
        part.index_, part.period_, part.per_hour_ = self.index_, self.period_, self.per_hour_
        part.traffic_ = self.traffic_
        return part


_MEANS = "estimates_", "lower_", "upper_", "site_estimates_"
_BEST = "method_", "holdout_", "inside_", "site_holdout_"
_ALL = *_MEANS, *_BEST


class _Blend:
    """What regions say of their sensors. Owners of sensors in several weight the estimates at home,
    with the inverse mean square of each region's error on the readings that it held out; the
    method and the held-out readings are those of the best region."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._sums, self._weights = np.zeros((len(_MEANS), *shape)), np.zeros(shape[0])
        self._best, self._most = np.full((len(_BEST), *shape), np.nan), np.full(shape[0], -np.inf)

    def add(self, rows: Index, estimate: Array, part: FLFL, Y: Array) -> None:
        """What a region says of some sensors, whose estimates and readings are (m, N)."""
        held = np.isfinite(part.holdout_)
        error = np.where(held, part.holdout_ - Y.T, 0.0)
        n, square = held.sum(axis=0), (error**2).sum(axis=0)
        whole = float(square.sum() / max(n.sum(), 1))
        # A few readings say little of one sensor: they count beside twenty of the region.
        weight = (n + 20) / np.maximum(square + 20 * whole, 1e-300)
        told = np.stack([estimate, *(getattr(part, name).T for name in _MEANS[1:])])
        self._sums[:, rows] += weight[:, None] * told
        self._weights[rows] += weight
        better = weight > self._most[rows]
        best = np.stack([getattr(part, name).T for name in _BEST])
        self._best[:, rows[better]] = best[:, better]
        self._most[rows[better]] = weight[better]

    def result(self) -> dict[str, Array]:
        """Every array of a fit by its name (M, N)."""
        means = self._sums / self._weights[:, None]
        return dict(zip(_ALL, [*means, *self._best], strict=True))
