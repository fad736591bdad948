"""Is all that left a function of the copies, and do the copies hold the noise that was declared?

These are the two assumptions of the proof that nobody learns more than the copies. Where both
hold, no attack on the messages can beat an attack on the copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from flfl.audit.attack import Array, Case, Mask
from flfl.audit.view import offsets_of
from flfl.model import loadings
from flfl.model.transforms import season_rows
from flfl.protocol import public
from flfl.protocol.public import Network

ROUNDING = 1e-6
"""The sums travel in fixed point of 2^-30."""
EQUAL = 0.95
"""Share of a sensor's loadings that must be those of its copies. A few may lie on the edge
between two steps of the rounding."""
CHANCE = 1e-6
"""How often noise as it should be is taken for too little."""
ALIKE = 0.3
"""Correlation of two sensors' noise, or of one's noise from slot to slot, that is not chance."""
_FEWEST = 100


@dataclass(frozen=True)
class Check:
    """One check: ``wrong`` says what is wrong with which sensors, nothing if all is well."""

    name: str
    wrong: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether all is well."""
        return not self.wrong


def check(case: Case) -> list[Check]:
    """Both assumptions of the proof."""
    return [
        Check("sums follow from the copies", tuple(_sums(case))),
        Check("loadings follow from the copies", tuple(_loadings(case))),
        Check("copies hold the declared noise", tuple(_too_quiet(case))),
        Check("noise is not used twice", tuple(_shared_noise(case))),
    ]


def _sums(case: Case) -> list[str]:
    net = case.view.network
    C = np.where(net.known, case.truth.copies, 0.0)
    off = np.abs(net.z - loadings.released(C, net.weights, net.phi, net.numbers))
    size = max(float(np.abs(net.z).max()), 1.0)
    bad = int((off > ROUNDING * size).sum())
    return [f"{bad} released numbers are not those of the copies"] if bad else []


def _loadings(case: Case) -> list[str]:
    """The sites' part of each round again, from their copies."""
    now, truth = case.view.network, case.truth
    stored = np.where(now.known, truth.copies * now.scale + truth.offset, np.nan)
    same: list[Array] = []
    for refit in case.view.refits:
        P = _refitted(refit.network, stored)
        answered = np.isfinite(refit.P).all(axis=1)
        equal = np.where(answered, np.isclose(P, refit.P, rtol=1e-9).mean(axis=1), 1.0)
        same.append(np.concatenate([equal, np.ones(len(now.r) - len(equal))]))
    if not same:
        return []
    share = np.mean(same, axis=0)
    return [f"{truth.ids[i]}: {share[i]:.0%} of them" for i in np.flatnonzero(share < EQUAL)]


def _refitted(net: Network, stored: Array) -> Array:
    N = net.n_slots
    stored = stored[: len(net.r)]
    offset = offsets_of(net, stored) @ season_rows(net.positions, net.season)
    J = net.known.astype(float)
    C = J * np.nan_to_num((stored[:, :N] - offset[:, :N]) / net.scale)
    post, _ = public.posterior(net)
    P, r = loadings.fit_loadings(C, J, net.sigma2, post, net.r)
    return loadings.rounded(P, r, J, net.sigma2, post)[0]


def _noise(case: Case) -> tuple[Array, Mask]:
    """The noise of each copy in units of its declared size (M, N), and where there is one."""
    net, truth = case.view.network, case.truth
    at = net.known & truth.known & (net.sigma2 > 0)
    size = np.sqrt(np.where(at, net.sigma2, 1.0))
    return np.where(at, (truth.copies - truth.clean) / size, 0.0), at


def _too_quiet(case: Case) -> list[str]:
    """A limited reading has more error than its noise, never less."""
    noise, at = _noise(case)
    n = at.sum(axis=1)
    square = (np.minimum(noise**2, 25.0)).sum(axis=1)
    least = chi2.ppf(CHANCE / max(len(n), 1), np.maximum(n, 1))
    low = np.flatnonzero((n >= 10) & (square < 0.97 * least))
    return [
        f"{case.truth.ids[i]}: {np.sqrt(square[i] / n[i]):.2f} of what was declared" for i in low
    ]


def _shared_noise(case: Case) -> list[str]:
    noise, at = _noise(case)
    # Limited readings have errors of their own.
    at = at & (np.abs(noise) < 4)
    X, J = np.where(at, noise, 0.0), at.astype(float)
    wrong = []
    alike = _correlations(X, X, J, J)
    for i, j in zip(*np.nonzero(np.triu(alike > ALIKE, 1)), strict=True):
        wrong.append(f"{case.truth.ids[i]} and {case.truth.ids[j]} have the same noise")
    for i, (x, j) in enumerate(zip(X, J, strict=True)):
        if _correlations(x[None, 1:], x[None, :-1], j[None, 1:], j[None, :-1])[0, 0] > ALIKE + 0.2:
            wrong.append(f"{case.truth.ids[i]}: its noise is the same from slot to slot")
    return wrong


def _correlations(X: Array, Y: Array, J: Array, K: Array) -> Array:
    n = J @ K.T
    power = np.sqrt(np.maximum((X**2) @ K.T, 1e-12) * np.maximum(J @ (Y**2).T, 1e-12))
    return np.where(n >= _FEWEST, np.abs(X @ Y.T) / power, 0.0)
