"""Both sides of one run: what the coordinator saw, and the truth that the sites kept.

The first comes from a witness that stands where the coordinator's program stands: it sees totals,
never a site's own part. The second is copied from the sites' own objects, which no party of the
protocol can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.data.sensors import Sensors
from flfl.estimators.dynamic import FLFL
from flfl.federation.coordinator import Ask, Replies
from flfl.federation.factors import FactorPlan, FactorSite
from flfl.model.shared import dynamics, guard, loo, sensor_step, smoothers
from flfl.model.shared.units import BACKWARD
from flfl.model.shared.windows import Windows, numbers_per_reading

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Round:
    """One upload: the sums that arrived, the mean ``m`` that was asked about, and with whose p."""

    g: Array  # (n_windows, k), about y - P m, as the coordinator adds it up
    m: Array  # (N, k), published
    F: Array  # (k, k)
    R: Array  # (k, k)
    P: Array  # (M, k), stays with the sites
    B: Array  # (M, k), the projection with the guard's scale inside


@dataclass(frozen=True)
class Exchange:
    """One question and all that the coordinator learned from it."""

    kind: str
    asked: Mapping[str, np.ndarray | float]
    total: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class View:
    """What an auditor who owns both sides holds. Rows are sensors, site after site.

    Attributes
    ----------
    names, sites : of the sensors
    plane : (M, 2) their places on the published map, None without coordinates
    plan : what all parties agreed on
    rounds : every upload of readings in order; the first is about ``m = 0``
    exchanges : everything else that the coordinator learned, in order
    windows : published; w : (n_windows,) mean response in each window
    u : (M, n_windows) the guard's weights in the windows
    J, Y : (M, N) readings used in the fit and where they are, in model units
    raw : (M, N) the readings themselves, NaN where there is none
    m, A, S, F, R : the published model at the end
    P, r : (M, k), (M,) the sensors' last loadings and noise; ``P @ m.T`` is the common picture
    guard_r : (M,) the noise that the guard was computed with, before the first upload
    predictive : (M, N) news against the picture that the *other* sensors give
    length, noise : of the sensors' own smoothers, published
    offset : (M, N) each sensor's mean and season, in transformed units; scale : of the network
    spoken : (M, N) the series that the sites put into the sums
    clip : news of it beyond so many robust deviations are cut in every round (never, under the
        guard)
    exposure : (M,) what the sites computed before their first upload
    """

    names: Sequence[str]
    sites: Sequence[str]
    plane: Array | None
    plan: FactorPlan
    rounds: Sequence[Round]
    exchanges: Sequence[Exchange]
    windows: Windows
    w: Array
    u: Array
    J: Array
    Y: Array
    raw: Array
    m: Array
    A: Array
    S: Array
    F: Array
    R: Array
    P: Array
    r: Array
    guard_r: Array
    predictive: Array
    length: float
    noise: float
    gain: float
    offset: Array
    scale: float
    transform: str
    spoken: Array
    clip: float
    exposure: Array

    @cached_property
    def picture(self) -> Array:
        """What the shared model says of every reading, ``P m`` (M, N)."""
        return self.P @ self.m.T

    @cached_property
    def news(self) -> Array:
        """What the shared model leaves of each reading (M, N), zero where there is none."""
        return self.J * (self.Y - self.picture)

    @cached_property
    def clipped(self) -> Array:
        """The same with spikes cut at three robust deviations: the bulk of the news."""
        return guard.clip_news(self.news, self.J, 3.0)

    def uploaded(self, one: Round) -> Array:
        """What the sites smoothed and summed in a round (M, N)."""
        return guard.clip_news(self.J * (self.spoken - one.P @ one.m.T), self.J, self.clip)

    def to_raw(self, X: Array) -> Array:
        """Model units to the readings' own units (M, N)."""
        return BACKWARD[self.transform](X * self.scale + self.offset)

    def numbers_per_reading(self) -> float:
        """The most numbers released for each reading in any window."""
        return float(numbers_per_reading(self.J.sum(axis=0), self.windows).max(initial=0.0))

    def last(self, kind: str) -> Exchange | None:
        """The last exchange of a kind."""
        return next((one for one in reversed(self.exchanges) if one.kind == kind), None)


def about_news(kind: str, g: Array, opened: Array | None, plan: FactorPlan) -> Array:
    """A round's sums as sums about ``y - P m``.

    The one place that knows in which form readings travel: under the guard they are in the answer
    to "open" only, and a round's ``g`` is the model's part alone. With the guard off every round's
    is about y - P m itself.
    """
    return g + opened if kind == "round" and plan.guarded and opened is not None else g


class _EnoughError(Exception):
    """The shared fit is over, and nobody wants what comes after it."""


@dataclass
class _Heard:
    """Stands beside the coordinator and keeps what it learns; notes the sites' state with it."""

    sites: Sequence[FactorSite]
    plan: FactorPlan
    to_the_end: bool = True
    exchanges: list[Exchange] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    published: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _opened: Array | None = None

    def __call__(self, ask: Ask, replies: Replies) -> None:
        self.published[ask.kind] = ask.body
        self.exchanges.append(Exchange(ask.kind, ask.body, replies.total))
        if ask.kind == "open":  # a learning phase before this one is given up by its owners
            self.rounds.clear()
            self._opened = replies.total["g"]
        if ask.kind in ("open", "round"):
            self._keep(ask, replies.total)
        if ask.kind == "finish" and not self.to_the_end and not self.sites[0]._learning:
            raise _EnoughError

    def _keep(self, ask: Ask, total: Mapping[str, np.ndarray]) -> None:
        g = about_news(ask.kind, total["g"], self._opened, self.plan)
        N, k = self.sites[0].sizes["slots"], g.shape[1]
        m = np.asarray(ask.body["m"]) if ask.kind == "round" else np.zeros((N, k))
        P, B = (np.vstack([getattr(s, name) for s in self.sites]) for name in "PB")
        self.rounds.append(Round(g, m, total["F"], total["R"], P.copy(), B.copy()))


class _Audited(FLFL):
    """The estimator with an auditor inside."""

    to_the_end = True

    def plan(self, *about: Any) -> FactorPlan:
        plan = super().plan(*about)
        # A curious coordinator goes on for as many rounds as it likes, useful or not.
        return plan if self.rounds is None else replace(plan, least_rounds=self.rounds)

    def _run(self, plan: FactorPlan, programs: list[FactorSite], n_slots: int) -> None:
        self.witness = self.heard_ = _Heard(programs, plan, self.to_the_end)
        super()._run(plan, programs, n_slots)


def listen(
    readings: pd.DataFrame | Array,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Any = None,
    to_the_end: bool = True,
    **settings: Any,
) -> tuple[FLFL, View | None]:
    """Run FLFL and look on. The view is None where nothing was shared.

    The boosted head comes after the sums of readings and changes none of them, so it is left out.
    ``to_the_end=False`` stops after the shared fit: for a second run of which only the sums matter.
    """
    model = _Audited(**{"effort": "quick", **settings})
    model.to_the_end = to_the_end
    if not to_the_end and settings.get("epsilon") is None:
        # Secure sums hide the terms, not the total that is seen here; the bits are the same.
        model.set_params(secure=False)
    with suppress(_EnoughError):
        model.fit(readings, sensors=sensors, sites=sites)
    heard: _Heard = model.heard_
    return model, _view(heard) if "finish" in heard.published else None


def _view(heard: _Heard) -> View:
    # Sites lie one after another in what was heard; the sums do not care.
    sites = heard.sites
    final = {name: np.asarray(value) for name, value in heard.published["finish"].items()}
    windows = heard.published["whiten"]
    span = heard.published["span"]

    def rows(part: Any) -> Array:
        return np.concatenate([part(site) for site in sites])

    planes = [site.sensing.plane for site in sites]
    return View(
        names=[name for site in sites for name in site.sensing.ids],
        sites=[site.sensing.name for site in sites for _ in site.sensing.ids],
        plane=None if planes[0] is None else np.vstack(planes),  # type: ignore[arg-type]
        plan=heard.plan,
        rounds=tuple(heard.rounds),
        exchanges=tuple(heard.exchanges),
        windows=Windows(np.asarray(windows["edges"]), np.asarray(windows["released"])),
        w=np.asarray(heard.published["open"]["w"]),
        u=rows(lambda s: s.u),
        J=rows(lambda s: s.J),
        Y=rows(lambda s: s.Y),
        raw=rows(lambda s: np.where(s.sensing.known, s.sensing.raw, np.nan)),
        P=rows(lambda s: s.P),
        r=rows(lambda s: s.r),
        guard_r=rows(lambda s: s._guard_r),
        predictive=rows(lambda s: _predictive_news(s, final)),
        length=float(span["length"]),
        noise=float(span["noise"]),
        gain=float(heard.published["open"]["gain"]),
        offset=rows(lambda s: s.units.season + s.units.centre),
        scale=float(span["scale"]),
        transform=sites[0].units.transform,
        spoken=rows(lambda s: s._spoken()[0]),
        clip=sites[0]._spoken()[1],
        exposure=rows(lambda s: s.exposure),
        **final,
    )


def _predictive_news(site: FactorSite, final: Mapping[str, np.ndarray]) -> Array:
    """A site's readings minus the best guess from m without the sensor's own readings (m, N)."""
    m, A, S, F, R = (final[name] for name in ("m", "A", "S", "F", "R"))
    E = site.J * (site.Y - site.P @ m.T)
    seen = dynamics.observe(F, R, site.windows.released)
    level = site.gain * float(np.minimum(site.windows.per_slot(site.w), 1.0).mean())
    own = loo.without_sensor(
        E, site.J, site.P, site.B, site.u, site.smoother, site.windows, seen, A, S, level, site.gain
    )
    others = m - own
    plan = site.plan
    P, _ = sensor_step.predictive_step(site.Y, site.J, site.P, site.r, others, plan.ridge, plan.dof)
    return site.J * (site.Y - np.einsum("itk,ik->it", others, P, optimize=True))


def known_part(view: View, one: Round) -> Array:
    """The sums of a round as they would be about ``y - P m`` of the end (n_windows, k).

    With public masks the differences between rounds give every p, so the adversary is granted
    it; m is published. What then still changes from round to round is where the clipping cut.
    """
    shift = view.J * (one.P @ one.m.T - view.picture)
    return np.asarray(one.g + sums_of(view, shift, one.B))


def sums_of(view: View, series: Array, B: Array) -> Array:
    """What the network would release about a series (M, N) through B: (n_windows, k)."""
    factor = smoothers.smoother(view.J, view.length, view.noise)
    said = (view.u * view.windows.mean(smoothers.smooth(factor, view.J * series))).T @ B
    return np.asarray(said * (np.arange(said.shape[1]) < view.windows.released[:, None]))
