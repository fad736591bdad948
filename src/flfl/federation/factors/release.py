"""A site's part of the one noisy release: what it may depend on, how far, and the noise.

Guarantee: with noise of :func:`noisy` from at least ``plan.noise_sites`` honest sites, the release
is (epsilon, delta) differentially private for one reading, together with the earlier releases of
the same slots in the site's account. All else that the run sends depends on gaps and places only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from flfl.federation.factors.promise import Promise
from flfl.federation.factors.protocol import FactorPlan
from flfl.federation.fixed_point import FRACTION_BITS, Fixed, to_fixed
from flfl.model.shared.units import FORWARD, Units, known_mean
from flfl.model.shared.windows import Windows
from flfl.privacy import budget
from flfl.privacy.noise import SecretStream, discrete_gaussian

Array = NDArray[np.float64]

_SPREADS = 6.0
"""The declared limits lie about so many spreads apart: a matter of scale, not of the promise."""


def limits(plan: FactorPlan) -> tuple[float, float]:
    """The declared limits in transformed units."""
    assert plan.bounds is not None
    low, high = FORWARD[plan.transform or "none"](np.array(plan.bounds, dtype=float))
    return float(low), float(high)


def public_scale(plan: FactorPlan) -> float:
    """One scale for the network that no reading has a part in."""
    low, high = limits(plan)
    return (high - low) / _SPREADS


def bounded_units(raw: Array, J: Array, plan: FactorPlan) -> tuple[Array, Units]:
    """Readings within the declared limits minus their sensor's mean (M, N), and the way back."""
    name = plan.transform or "none"
    Z = J * np.clip(FORWARD[name](np.where(J > 0, raw, 0.0)), *limits(plan))
    centre = known_mean(Z, J)
    return J * (Z - centre), Units(name, centre, np.zeros_like(Z))


def room(B: Array, J: Array, windows: Windows, smoothing: tuple[float, float]) -> Array:
    """Factors (M,) that bring every sensor's projection within the network's sensitivity.

    ``|b_i| (gain + centring_i) <= sqrt(k) gain``: then one number bounds all sensors.
    """
    gain = budget.window_gain(*smoothing, windows)
    own = gain + budget.centring_gain(J.sum(axis=1), windows)
    norms = np.linalg.norm(B, axis=1)
    return np.minimum(1.0, math.sqrt(B.shape[1]) * gain / np.maximum(norms * own, 1e-300))


def sensitivity(
    plan: FactorPlan, scale: float, smoothing: tuple[float, float], windows: Windows, k: int
) -> float:
    """Most by which one reading can move the released sums (2-norm): limits x projection x gain."""
    low, high = limits(plan)
    rounding = 2.0**-FRACTION_BITS * math.sqrt(max(int(windows.released.sum()), 1))
    gain = budget.window_gain(*smoothing, windows)
    return (high - low) / scale * math.sqrt(k) * gain + rounding


def multiplier(plan: FactorPlan, promise: Promise, span: slice, name: str, readings: int) -> float:
    """Noise over sensitivity, within what earlier releases of the same slots have left."""
    assert plan.epsilon is not None
    assert plan.delta is not None
    budget.check_delta(plan.delta, readings)
    stamps = promise.stamps[span]
    earlier = promise.account.multipliers(stamps, name)
    if promise.account.plain(stamps):
        raise promise.refuse("readings at these slots were released before without noise")
    value = budget.noise_multiplier(plan.epsilon, plan.delta, earlier)
    promise.log.append(
        f"one release with noise {value:.2f} times its sensitivity; epsilon"
        f" {budget.epsilon_spent([*earlier, value], plan.delta):.3g} of {plan.epsilon:g} is spent"
    )
    return value


def noisy(g: Array, windows: Windows, sigma: float, sites: int, stream: SecretStream) -> Fixed:
    """``g`` in fixed point with this site's share of the noise, on released numbers only."""
    values = to_fixed(g)
    sent = np.arange(g.shape[1]) < windows.released[:, None]
    share = sigma / math.sqrt(sites) * 2.0**FRACTION_BITS
    values[sent] += discrete_gaussian(stream, share, int(sent.sum()))
    return Fixed(values)
