"""An empirical lower bound on epsilon: does a noisy release keep its promise?

Adversary: it knows everything but which of two neighbouring inputs was used, and sees one release.

Assumes: the mechanism can be run many times on both inputs, with fresh noise.

Scored: a lower bound on epsilon that holds with the stated confidence. Differential privacy with
(epsilon, delta) forces every test to obey ``1 - delta <= FPR + e^eps FNR`` and the same with the
two errors exchanged, so measured error rates bound epsilon from below. A bound *above* the claim
refutes the mechanism; a bound below it proves nothing.

How: releases are projected on the known difference of the two means, half of the runs choose the
threshold, the other half measures the errors, and Clopper-Pearson bounds make them certain enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Array = NDArray[np.float64]
Mechanism = Callable[[np.random.Generator], Array]


def upper_rate(errors: int, trials: int, confidence: float) -> float:
    """Clopper-Pearson upper bound on an error rate.

    Examples
    --------
    >>> round(upper_rate(0, 100, 0.95), 4)
    0.0295
    """
    if errors >= trials:
        return 1.0
    return float(beta.ppf(confidence, errors + 1, trials - errors))


def epsilon_from_rates(fpr: float, fnr: float, delta: float) -> float:
    """Smallest epsilon that allows a test with these error rates (upper bounds), at least 0.

    ``max(log((1 - delta - fpr) / fnr), log((1 - delta - fnr) / fpr), 0)``

    Examples
    --------
    >>> round(epsilon_from_rates(0.1, 0.1, 0.0), 4)
    2.1972
    """
    sides = ((1 - delta - fpr, fnr), (1 - delta - fnr, fpr))
    return max(
        [0.0] + [float(np.log(top / bottom)) for top, bottom in sides if top > 0 and bottom > 0]
    )


def best_threshold(a: Array, b: Array, delta: float) -> float:
    """Threshold whose raw error rates (half an error added) give the largest epsilon.

    ``a`` are the values without, ``b`` those with the reading; larger means with.
    """
    ordered = np.sort(np.concatenate([a, b]))
    cuts = np.unique(np.quantile(ordered, np.linspace(0.001, 0.999, 999)))
    a, b = np.sort(a), np.sort(b)
    fpr = (len(a) - np.searchsorted(a, cuts, "right") + 0.5) / (len(a) + 1)
    fnr = (np.searchsorted(b, cuts, "right") + 0.5) / (len(b) + 1)
    # A cut that few runs pass promises much and proves little: ask for both errors' bounds.
    slack = 2 * np.sqrt(fpr / len(a)), 2 * np.sqrt(fnr / len(b))
    values = [
        epsilon_from_rates(min(p + s, 1.0), min(q + t, 1.0), delta)
        for p, q, s, t in zip(fpr, fnr, *slack, strict=True)
    ]
    return float(cuts[int(np.argmax(values))])


def lower_bound(
    without: Array,
    with_it: Array,
    delta: float = 0.0,
    confidence: float = 0.95,
    direction: Array | None = None,
) -> float:
    """Lower bound on epsilon from releases on two neighbouring inputs.

    Parameters
    ----------
    without, with_it : (n, ...) releases; direction : (...) the known difference of the two means,
        estimated from the first half of the runs where it is not given
    """
    a, b = (np.asarray(x, dtype=float).reshape(len(x), -1) for x in (without, with_it))
    learn = slice(0, min(len(a), len(b)) // 2)
    test = slice(learn.stop, None)
    if direction is None:
        direction = b[learn].mean(axis=0) - a[learn].mean(axis=0)
    line = np.asarray(direction, dtype=float).ravel()
    a, b = a @ line, b @ line
    cut = best_threshold(a[learn], b[learn], delta)
    # Two bounds must hold together, so each gets half of the doubt.
    each = 1 - (1 - confidence) / 2
    fpr = upper_rate(int((a[test] > cut).sum()), len(a[test]), each)
    fnr = upper_rate(int((b[test] <= cut).sum()), len(b[test]), each)
    return epsilon_from_rates(fpr, fnr, delta)


def audit_mechanism(
    without: Mechanism,
    with_it: Mechanism,
    runs: int,
    rng: np.random.Generator,
    delta: float = 0.0,
    confidence: float = 0.95,
    direction: Array | None = None,
) -> float:
    """Run both mechanisms ``runs`` times and bound epsilon from below."""
    a = np.stack([np.asarray(without(rng), dtype=float) for _ in range(runs)])
    b = np.stack([np.asarray(with_it(rng), dtype=float) for _ in range(runs)])
    return lower_bound(a, b, delta, confidence, direction)
