"""Differencing: two runs about the same readings, taken together.

* cohorts: the same slots once with all sites and once without one of them. The two differ by
  what that site said.
* reruns: the same sites and slots through another projection (another rank).

All numbers of both runs are noise-free equations about the same readings; the masks-known solver
takes them at once, by conjugate gradients with each run's own factor as preconditioner. One run's
guard knows nothing of the other's: exposure adds up, which is why a site keeps an account over
runs and refuses the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from flfl.audit import equations
from flfl.audit.attack import Attack, Case, Finding, worst_and_median
from flfl.audit.attacks import masks_known
from flfl.audit.attacks.masks_known import JITTER, Prior
from flfl.audit.equations import Stretch
from flfl.audit.view import View, listen
from flfl.data.sensors import Sensors
from flfl.errors import FLFLError

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Half:
    """One run's equations about the uploads of the first run, in its units.

    ``z = scale * forward(v[at])``, where ``at`` (readings,) points into all readings.
    """

    system: Stretch
    z: Array
    scale: float
    at: Index
    noise: float

    def forward(self, v: Array) -> Array:
        """(all readings,) to (n_windows, 1, k)."""
        return self.scale * self.system.forward(v[self.at, None])

    def backward(self, alpha: Array, size: int) -> Array:
        """The transpose."""
        out = np.zeros(size)
        out[self.at] = self.scale * self.system.backward(alpha)[:, 0]
        return out


def halves(one: View, other: View, slots: int) -> tuple[Half, Half, Array]:
    """Both runs' equations, and the variance of every reading under the prior.

    The second run's sensors are some of the first's. What is known of the second run (its
    picture, its units) is taken out; what then does not fit (blur drawn anew, spikes cut
    elsewhere) is counted as noise.
    """
    first = masks_known.middle(one, slots)
    A = equations.stretch(one, [one.rounds[-1]], first, slots)
    B = equations.stretch(other, [other.rounds[-1]], first, slots)
    row = {name: i for i, name in enumerate(one.names)}
    to_first = np.array([row[name] for name in other.names])
    N = one.J.shape[1]
    cells = [A.sensor * N + A.slot, to_first[B.sensor] * N + B.slot]
    every = np.unique(np.concatenate(cells))
    at_A, at_B = (np.searchsorted(every, cell) for cell in cells)
    scale = one.scale / other.scale
    shift = scale * one.picture[to_first] + (one.offset[to_first] - other.offset) / other.scale
    shift = (shift - other.picture)[B.sensor, B.slot][:, None]
    z = B.z - B.forward(shift)
    truth = np.zeros(len(every))
    truth[at_B] = (B.v - shift)[:, 0] / scale
    truth[at_A] = A.v[:, 0]
    half = Half(B, z, scale, at_B, 0.0)
    miss = float(((half.forward(truth) - z)[B.sent] ** 2).mean())
    variance = masks_known.fitted_prior(A).Sigma[:, 0, 0][every // N]
    return Half(A, A.z, 1.0, at_A, A.noise), Half(B, z, scale, at_B, miss), variance


def solve(both: tuple[Half, Half], variance: Array, iterations: int = 100) -> Array:
    """Posterior mean of the uploads given both runs, at the first run's readings (readings,)."""
    shapes = [half.z.shape for half in both]
    cut = both[0].z.size
    floors = [JITTER * float((half.z**2).mean()) + half.noise for half in both]

    def split(flat: Array) -> tuple[Array, Array]:
        return flat[:cut].reshape(shapes[0]), flat[cut:].reshape(shapes[1])

    def join(parts: Iterator[Array]) -> Array:
        return np.concatenate([part.ravel() for part in parts])

    def back(flat: Array) -> Array:
        parts = zip(both, split(flat), strict=True)
        return variance * sum(half.backward(part, len(variance)) for half, part in parts)

    def covariance(flat: Array) -> Array:
        v = back(flat)
        return join(
            half.forward(v) + np.where(half.system.sent, floor, 1.0) * part
            for half, floor, part in zip(both, floors, split(flat), strict=True)
        )

    factors = [_factor(half, variance, floor) for half, floor in zip(both, floors, strict=True)]

    def precondition(flat: Array) -> Array:
        return join(f(part) for f, part in zip(factors, split(flat), strict=True))

    size = sum(half.z.size for half in both)
    z = join(iter([half.z for half in both]))
    K = LinearOperator((size, size), matvec=covariance)
    P = LinearOperator((size, size), matvec=precondition)
    alpha, _ = cg(K, z, rtol=1e-4, maxiter=iterations, M=P)
    return np.asarray(back(alpha)[both[0].at])


def _factor(half: Half, variance: Array, floor: float) -> Any:
    """The run's own covariance, inverted: exact for one run alone."""
    M = half.system.n_sensors
    unit = Prior(np.ones((M, 1, 1)), np.ones((M, 1)), np.ones(M))
    return masks_known.factorise(half.system, unit, half.scale**2 * variance[half.at], floor)


def _run(case: Case, attack: Attack) -> Iterator[Finding]:
    view = case.view
    names = list(dict.fromkeys(view.sites))
    if len(names) > 1:
        smallest = min(names, key=lambda name: list(view.sites).count(name))
        apart = np.array([site == smallest for site in view.sites])
        keep = {name for name, out in zip(view.names, apart, strict=True) if not out}
        yield _pair(case, attack, "cohorts", apart, keep, {}, f"without site {smallest}")
    if view.m.shape[1] > 1 and case.effort.reruns:
        everyone = np.ones(len(view.names), dtype=bool)
        rank = {"rank": view.m.shape[1] - 1}
        yield _pair(case, attack, "rerun", everyone, set(view.names), rank, "with one rank less")


def _pair(
    case: Case,
    attack: Attack,
    variant: str,
    scored: NDArray[np.bool_],
    keep: set[str],
    changed: dict[str, Any],
    words: str,
) -> Finding:
    view = case.view
    try:
        other = _again(case, keep, changed)
    except FLFLError as problem:
        return attack.finding(
            variant, judged=False, sentence=f"The second run ({words}) was refused: {problem}"
        )
    if other is None:
        return attack.finding(
            variant, judged=False, sentence=f"The second run ({words}) shared nothing."
        )
    first, second, variance = halves(view, other, case.effort.slots)
    system = first.system
    x = solve((first, second), variance)
    prior = masks_known.fitted_prior(system)
    c = prior.c[system.sensor, 0]
    alone = masks_known.by_sensor(system, c * masks_known.gaussian(system, prior)[:, 0])
    scores = np.where(scored, masks_known.by_sensor(system, c * x), np.nan)
    guess = masks_known.on_table(system, view, c * x)
    guess[~scored] = np.nan
    single = worst_and_median(np.where(scored, alone, np.nan), view.names)["news_read_max"]
    return attack.read(
        view,
        guess,
        np.isfinite(guess),
        variant,
        scores=scores,
        # Not a promise of one run: the sites' account over runs refuses the second.
        judged=False,
        sentence=f"A second run of the same slots {words} would read {{max:.0%}} of the worst"
        f" sensor's news, {{median:.0%}} of the median one's (one run: {max(single or 0, 0):.0%})."
        " Exposure adds up over runs: sites must refuse the second.",
        figures={"one_run_alone": float("nan") if single is None else single},
    )


def _again(case: Case, keep: set[str], changed: dict[str, Any]) -> View | None:
    """The same run with other sensors or settings; what the first one chose is kept."""
    view, chosen = case.view, case.model.settings_
    # A sensor without a single reading is in no run.
    columns = [str(name).strip() in keep for name in case.readings.columns]
    sites = dict(zip(view.names, view.sites, strict=True))
    sensors: Sensors = case.sensors.subset(np.array(columns))
    settings = {
        **case.settings,
        "transformation": chosen.transform,
        "season": chosen.period,
        "length": chosen.length,
        "noise": chosen.noise,
        **changed,
    }
    owners = [sites[name] for name in sensors.ids]
    table = case.readings.loc[:, columns]
    return listen(table, sensors, sites=owners, to_the_end=False, **settings)[1]


ATTACK = Attack(
    "differencing",
    "the coordinator of two runs",
    "what masks-known does, in two runs over the same slots: with and without one site, or"
    " through two projections",
    lambda case, attack: list(_run(case, attack)),
)
