"""Does the noisy release keep its promise? The bound on epsilon, on the release of this very run.

Adversary: the coordinator; knows every reading but one, that it is at one of the declared limits,
and which sensor and slot it belongs to.

Scored: an empirical lower bound on epsilon from fresh draws of the sites' real noise around the
change that this one reading makes in the released sums: the most telling of many readings.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from flfl.audit.attack import Attack, Case, Finding
from flfl.audit.attacks.epsilon_bound import lower_bound
from flfl.audit.view import View, sums_of
from flfl.federation.factors import release
from flfl.federation.fixed_point import FRACTION_BITS
from flfl.privacy.budget import noise_multiplier
from flfl.privacy.noise import SecretStream, discrete_gaussian

Array = NDArray[np.float64]

READINGS = 40
"""Readings that are tried for the most telling one."""
RUNS = 4000
_PIECE = 250


def largest_change(view: View, rng: np.random.Generator) -> Array:
    """By how much the released sums differ when one reading goes from limit to limit (n, k)."""
    low, high = release.limits(view.plan)
    known = np.argwhere(view.J > 0)
    # Lone readings move the sums most, and so do sensors with a large projection.
    lonely = view.J.sum(axis=0)[known[:, 1]]
    order = np.argsort(lonely + 1e-3 * rng.random(len(known)))[: READINGS // 2]
    tried = np.concatenate([known[order], rng.permutation(known)[: READINGS // 2]])
    best = np.zeros_like(view.rounds[0].g)
    for i, t in tried:
        moved = np.zeros_like(view.J)
        # The sensor's own mean moves too.
        moved[i] = -view.J[i] / view.J[i].sum()
        moved[i, t] += 1.0
        change = sums_of(view, moved * (high - low) / view.scale, view.rounds[0].B)
        if np.linalg.norm(change) > np.linalg.norm(best):
            best = change
    return best


def draws(sigma: float, n_sites: int, share: int, line: Array, runs: int) -> Array:
    """The sites' noise along a unit ``line`` (n,), drawn anew ``runs`` times as they draw it."""
    out = []
    for _ in range(0, runs, _PIECE):
        noise = np.zeros((_PIECE, len(line)))
        for _ in range(n_sites):
            stream = SecretStream(secrets.token_bytes(32), "audit")
            scale = sigma / np.sqrt(share) * 2.0**FRACTION_BITS
            noise += discrete_gaussian(stream, scale, noise.size).reshape(noise.shape)
        out.append(noise * 2.0**-FRACTION_BITS @ line)
    return np.concatenate(out)[:runs]


def _bound(case: Case, attack: Attack) -> list[Finding]:
    view, plan = case.view, case.view.plan
    if plan.epsilon is None or plan.delta is None:
        return []
    change = largest_change(view, case.rng(attack.name))
    size = float(np.linalg.norm(change))
    kept = np.abs(change) > 1e-6 * size
    line = change[kept] / size
    smoothing = view.length, view.noise
    bound = release.sensitivity(plan, view.scale, smoothing, view.windows, view.m.shape[1])
    sigma = noise_multiplier(plan.epsilon, plan.delta) * bound
    n_sites = len(set(view.sites))
    without = draws(sigma, n_sites, plan.noise_sites, line, RUNS)
    with_it = size + draws(sigma, n_sites, plan.noise_sites, line, RUNS)
    found = lower_bound(without, with_it, plan.delta)
    return [
        attack.finding(
            judged=False,
            figures={"epsilon_bound": found, "epsilon": plan.epsilon, "change": size / bound},
            sentence=f"The most telling reading moves the release by {size / bound:.0%} of the"
            f" sensitivity that the noise was made for; tests on {RUNS} draws show an epsilon of at"
            f" least {found:.2f}, the claim is at most {plan.epsilon:g}.",
        )
    ]


ATTACK = Attack(
    "noisy-release",
    "the coordinator",
    "every reading but one, and that it is at one of the declared limits",
    _bound,
)
