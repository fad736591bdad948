"""Both sides of one run: what the coordinator saw, and the truth that the sites kept.

The first is decoded from the bytes that a tap hears, and summed as secure aggregation would;
the second is copied from the sites' own objects, which no party of the protocol can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flfl.data.sensors import Sensors
from flfl.estimators.dynamic import FLFL
from flfl.federation import fixed_point
from flfl.federation.factors import PROTOCOL, FactorPlan, FactorSite
from flfl.federation.messages import decode_answer, decode_question, kind_of
from flfl.model.shared import dynamics, guard, loo, sensor_step, smoothers
from flfl.model.shared.windows import Windows, numbers_per_reading

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Round:
    """One upload: the sums that arrived, the mean ``m`` that was asked about, and with whose p."""

    g: Array  # (n_windows, k), as the coordinator adds it up
    m: Array  # (N, k), published
    P: Array  # (M, k), stays with the sites
    B: Array  # (M, k), the projection with the guard's scale inside


@dataclass(frozen=True)
class View:
    """What an auditor who owns both sides holds.

    Attributes
    ----------
    rounds : every upload of readings in order; the first is about ``m = 0``
    windows : published
    u : (M, n_windows) the guard's weights in the windows
    J, Y : (M, N) readings used in the fit and where they are, in model units
    m, P : the last mean and the sensors' last loadings; ``P @ m.T`` is the common picture
    predictive : (M, N) news against the picture that the *other* sensors give
    length, noise : of the sensors' own smoothers, published
    spoken : (M, N) the series that the sites put into the sums
    clip : news of it beyond so many robust deviations are cut in every round (never, under the
        guard)
    leverage : (M,) what the sites computed before their first upload
    """

    names: Sequence[str]
    rounds: Sequence[Round]
    windows: Windows
    u: Array
    J: Array
    Y: Array
    m: Array
    P: Array
    predictive: Array
    length: float
    noise: float
    spoken: Array
    clip: float
    leverage: Array

    @property
    def news(self) -> Array:
        """What the shared model leaves of each reading (M, N), zero where there is none."""
        return self.J * (self.Y - self.P @ self.m.T)

    @property
    def clipped(self) -> Array:
        """The same with spikes cut at three robust deviations: the bulk of the news."""
        return guard.clip_news(self.news, self.J, 3.0)

    def uploaded(self, one: Round) -> Array:
        """What the sites smoothed and summed in a round (M, N)."""
        return guard.clip_news(self.J * (self.spoken - one.P @ one.m.T), self.J, self.clip)

    def numbers_per_reading(self) -> float:
        """The most numbers released for each reading in any window."""
        return float(numbers_per_reading(self.J.sum(axis=0), self.windows).max(initial=0.0))


@dataclass
class _Listener:
    """Hears the bytes of a run and adds up what the coordinator adds up."""

    sites: Sequence[FactorSite]
    published: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    _question: bytes = b""
    _terms: list[np.ndarray] = field(default_factory=list)

    def __call__(self, direction: str, site: str, data: bytes) -> None:
        kind = kind_of(data)
        if direction == "down" and data is not self._question:
            self._question = data
            self.published[kind] = dict(decode_question(data, PROTOCOL, {}).body)
            if kind == "open":  # a learning phase before this one is given up by its owners
                self.rounds.clear()
        if direction == "up" and kind in ("open", "round"):
            self._terms.append(decode_answer(data, PROTOCOL, {}).body["g"])
            if len(self._terms) == len(self.sites):
                self._close(kind)

    def _close(self, kind: str) -> None:
        g = fixed_point.from_fixed(fixed_point.add(self._terms))
        self._terms = []
        N, k = self.sites[0].sizes["slots"], g.shape[1]
        m = self.published["round"]["m"] if kind == "round" else np.zeros((N, k))
        if kind == "round" and self.sites[0]._once:  # the readings came with the first upload
            g = g + self.rounds[0].g
        P, B = (np.vstack([getattr(s, name) for s in self.sites]) for name in "PB")
        self.rounds.append(Round(g, m, P.copy(), B.copy()))


class _Audited(FLFL):
    """The estimator with an auditor inside."""

    def _run(self, plan: FactorPlan, programs: list[FactorSite], n_slots: int) -> None:
        self.tap = self.listener_ = _Listener(programs)
        super()._run(plan, programs, n_slots)


def listen(
    readings: pd.DataFrame | Array, sensors: Sensors | None = None, **settings: object
) -> tuple[FLFL, View | None]:
    """Run FLFL and look on. The view is None where nothing was shared.

    The boosted head comes after the sums of readings and changes none of them, so it is left out.
    """
    # Secure sums hide the terms, not the total that is listened to here; the bits are the same.
    model = _Audited(**{"effort": "quick", "secure": False, **settings})
    model.fit(readings, sensors=sensors)
    heard = model.listener_
    if "finish" not in heard.published:
        return model, None
    # Sites lie one after another in what was heard; the sums do not care.
    final = heard.published["finish"]
    stacked = {
        name: np.vstack([getattr(site, name) for site in heard.sites]) for name in ("J", "Y", "u")
    }
    return model, View(
        names=[name for site in heard.sites for name in site.sensing.ids],
        rounds=tuple(heard.rounds),
        windows=Windows(heard.published["whiten"]["edges"], heard.published["whiten"]["released"]),
        m=final["m"],
        P=np.vstack([site.P for site in heard.sites]),
        predictive=np.vstack([_predictive_news(site, final) for site in heard.sites]),
        length=float(heard.published["span"]["length"]),
        noise=float(heard.published["span"]["noise"]),
        spoken=np.vstack([site._spoken()[0] for site in heard.sites]),
        clip=heard.sites[0]._spoken()[1],
        leverage=np.concatenate([site.exposure for site in heard.sites]),
        **stacked,
    )


def _predictive_news(site: FactorSite, final: dict[str, np.ndarray]) -> Array:
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
    shift = view.J * (one.P @ one.m.T - view.P @ view.m.T)
    factor = smoothers.smoother(view.J, view.length, view.noise)
    said = (view.u * view.windows.mean(smoothers.smooth(factor, shift))).T @ one.B
    sent = np.arange(said.shape[1]) < view.windows.released[:, None]
    return np.asarray(one.g + said * sent)
