"""Coalitions: the coordinator together with some of the sites.

Colluding sites know their own contributions and subtract them; what is left is a sum over the
honest sensors, which the masks-known solver reads. Beside what it reads on the real news stands
what was to be expected: the same solver on a synthetic network with the same gaps, projections,
weights, noise levels, correlations and dynamics. "Absorbed" is the same after the synthetic
network's model has taken its part of the news, as the real one does: mostly too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flfl.audit import equations
from flfl.audit.attack import Attack, Case, Finding
from flfl.audit.attacks import masks_known
from flfl.audit.equations import Stretch
from flfl.audit.view import View, sums_of
from flfl.model.shared import dynamics

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ALL_AT_ONCE = 6
"""Updates that a coordinator makes of one single release."""
TRIES = 200
"""Coalitions drawn, of which the ones nearest to the wanted share of sensors are used."""


def honest_rest(system: Stretch, honest: Mask) -> Stretch:
    """The equations after the colluders took their own part out."""
    B = system.B * honest[:, None, None]
    theirs = replace(system, B=system.B - B)
    return replace(system, B=B, z=system.z - theirs.forward(system.v))


def with_news(system: Stretch, news: Array) -> Stretch:
    """The same equations about other news (M, N)."""
    x = news[system.sensor, system.slot]
    v = np.repeat(x[:, None], system.v.shape[1], axis=1)
    return replace(system, x=x, v=v, z=system.forward(v))


def solve(system: Stretch, honest: Mask) -> tuple[Array, Array]:
    """R^2 of every honest sensor (M,), NaN for the others; the guesses (readings,)."""
    prior = masks_known.fitted_prior(system)
    x = masks_known.guessed_news(system, prior, masks_known.gaussian(system, prior))
    scores = masks_known.by_sensor(system, x)
    return np.where(honest, scores, np.nan), x


def synthetic_news(view: View, rng: np.random.Generator) -> tuple[Array, Array]:
    """News (M, N) of a synthetic network: as it is, and as the shared model leaves it.

    ``y = P q + e`` with ``q_t = A q_t-1 + w_t`` and ``e_i ~ N(0, r_i)``, correlated between sensors
    and in time as the real news are (a low rank leaves patterns that neighbours share); then as
    many rounds of the coordinator's update as the run had, and ``y - P m``.
    """
    N, k = view.J.shape[1], view.m.shape[1]
    e = _together(view) @ _slow(view, rng) * np.sqrt(view.guard_r)[:, None]
    root = np.linalg.cholesky(view.S + 1e-12 * np.eye(k))
    steps = rng.standard_normal((N, k)) @ root.T
    q = np.zeros((N, k))
    for t in range(1, N):
        q[t] = view.A @ q[t - 1] + steps[t]
    y, m = view.P @ q.T + e, np.zeros((N, k))
    seen = dynamics.observe(view.F, view.R, view.windows.released)
    weight = view.gain * np.minimum(view.w, 1.0)
    information = view.windows.per_slot(weight[:, None, None] * seen.CF[seen.kind])
    for _ in range(len(view.rounds) - 1 or ALL_AT_ONCE):
        g = sums_of(view, y - view.P @ m.T, view.rounds[-1].B)
        vector = view.gain * view.windows.per_slot(seen.apply(seen.C, g))
        vector += (information @ dynamics.seen(m, view.windows)[:, :, None])[:, :, 0]
        m = dynamics.smoothed_mean(view.A, view.S, information, vector, view.windows)
    return e, y - view.P @ m.T


def _together(view: View) -> Array:
    """A root (M, M) of the correlations of the sensors' news, from slots that both observed."""
    X, J = view.clipped, view.J
    both = np.maximum(J @ J.T, 1.0)
    cov = (X @ X.T) / both
    spread = np.sqrt(np.maximum(np.diag(cov), 1e-12))
    # Pairs that met rarely are believed little.
    correlation = cov / np.outer(spread, spread) * both / (both + 30.0)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _slow(view: View, rng: np.random.Generator) -> Array:
    """Independent series (M, N) of unit variance with each sensor's memory: white and AR(1)."""
    length, white = masks_known.fitted_memory(view)
    fast, steps = rng.standard_normal((2, *view.J.shape))
    a = np.exp(-1.0 / length)
    slow = steps
    for t in range(1, slow.shape[1]):
        slow[:, t] = a * slow[:, t - 1] + np.sqrt(1 - a * a) * steps[:, t]
    return np.sqrt(white)[:, None] * fast + np.sqrt(1 - white)[:, None] * slow


@dataclass(frozen=True)
class Size:
    """So many sites collude; ``share`` is the share of the sensors they should hold."""

    label: str
    sites: int
    share: float | None = None


def sizes(n_sites: int) -> list[Size]:
    """None, a quarter, half, all but two, all but one of the sites.

    Examples
    --------
    >>> [(one.label, one.sites) for one in sizes(8)]
    [('none', 0), ('a quarter', 2), ('half', 4), ('all but two', 6), ('all but one', 7)]
    >>> [one.label for one in sizes(2)]
    ['none', 'half', 'all but one']
    """
    wanted = [Size("a quarter", round(n_sites / 4), 0.25), Size("half", n_sites // 2, 0.5)]
    wanted += [Size("all but two", n_sites - 2), Size("all but one", n_sites - 1)]
    return [Size("none", 0), *(one for one in wanted if 0 < one.sites < n_sites)]


def coalitions(
    owners: Sequence[str], size: Size, count: int, rng: np.random.Generator
) -> Iterator[Mask]:
    """Which sensors are honest (M,), for a few coalitions of a size."""
    owner = np.asarray(owners)
    names = np.array(list(dict.fromkeys(owners)))
    if size.sites == 0:
        yield np.ones(len(owner), dtype=bool)
        return
    drawn = {
        tuple(sorted(rng.choice(len(names), size.sites, replace=False).tolist()))
        for _ in range(TRIES)
    }

    def distance(sites: tuple[int, ...]) -> float:
        if size.share is None:
            return 0.0
        over = float(np.isin(owner, names[list(sites)]).mean()) - size.share
        # A coalition that holds more than its share would be another question.
        return over * 10 if over > 0 else -over

    for sites in sorted(sorted(drawn), key=distance)[:count]:
        yield ~np.isin(owner, names[list(sites)])


@dataclass(frozen=True)
class Reading:
    """What one coalition reads: measured, computed, computed after absorption (M,) each."""

    honest: Mask
    measured: Array
    computed: Array
    absorbed: Array
    guess: Array


def against(case: Case, rng: np.random.Generator) -> Iterator[tuple[Size, list[Reading]]]:
    """Every size of coalition, a few of each."""
    view, slots = case.view, case.effort.slots
    system = equations.stretch(view, [view.rounds[-1]], masks_known.middle(view, slots), slots)
    before, after = synthetic_news(view, rng)
    for size in sizes(len(set(view.sites))):
        found = []
        for honest in coalitions(view.sites, size, case.effort.coalitions, rng):
            rest = honest_rest(system, honest)
            measured, x = solve(rest, honest)
            computed, absorbed = (
                solve(with_news(rest, news), honest)[0] for news in (before, after)
            )
            guess = masks_known.on_table(rest, view, x)
            guess[~honest] = np.nan
            found.append(Reading(honest, measured, computed, absorbed, guess))
        yield size, found


def _run(case: Case, attack: Attack) -> Iterator[Finding]:
    view = case.view
    allowed = float(case.settings.get("collusion") or 0.0)
    for size, found in against(case, case.rng(attack.name)):
        worst = max(found, key=lambda one: np.nanmax(one.measured, initial=-np.inf))
        measured, computed, absorbed = (
            float(np.nanmax([np.nanmax(getattr(one, kind)) for one in found]))
            for kind in ("measured", "computed", "absorbed")
        )
        held = float(1 - worst.honest.mean())
        last = size.label == "all but one"
        # Without secure sums the coordinator needs no colluders to see one site alone.
        alone = last and not case.secure
        who = f"the coordinator and {size.label} of the sites" if size.sites else "the coordinator"
        yield attack.read(
            view,
            worst.guess,
            np.isfinite(worst.guess),
            size.label,
            scores=worst.measured,
            adversary="the coordinator, which sees each site's own sums" if alone else who,
            judged=alone or held <= allowed + 1e-9,
            sentence=f"Colluders with {held:.0%} of the sensors: {{max:.0%}} of the worst honest"
            f" sensor's news, {{median:.0%}} of the median one's; computed {computed:.0%} for the"
            " worst." + (" By definition: nobody else is left to hide among." if last else ""),
            figures={
                "colluding_sites": float(size.sites),
                "colluding_sensors": held,
                "measured": measured,
                "computed": computed,
                "computed_absorbed": absorbed,
                "computed_median": float(np.nanmedian(worst.computed)),
            },
        )


ATTACK = Attack(
    "coalition",
    "the coordinator with some of the sites",
    "what masks-known does, and the colluding sites' own contributions, which are subtracted",
    lambda case, attack: list(_run(case, attack)),
)
