"""How far an owner trusts one estimate over a simpler one: as its held-out readings show.

Interpolation needs nothing, the owner's own model needs its other sensors, the network needs the
others. Each step must earn its share, so that chance does not decide and a network that lies is not
used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl import constants

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def shares(
    base: Array,
    better: Array,
    truth: Array,
    at: tuple[Index, Index],
    run: Index,
    shape: tuple[int, int],
) -> Array:
    """Share of ``better`` in ``base + share (better - base)``, for each sensor and class (shape).

    With the errors ``e = truth - base`` and the moves ``d = better - base`` at the held-out
    readings, all (n,), the share of least error is ``sum w d e / sum w d^2``; the weights ``w``
    make it that of least absolute error. It is used at all only where the owner's readings together
    show that it is not zero by chance. A class of distance, and then a sensor, starts from the
    owner's share and follows its own readings as far as they are many.

    ``at`` are sensor and class of each reading, ``run`` (n,) which run of hidden slots it is in:
    errors within one are alike, so a run counts as one draw. Values are in units of the sensor's
    spread.

    Examples
    --------
    >>> truth, nobody = np.ones(40), np.zeros(40, int)
    >>> shares(0 * truth, truth, truth, (nobody, nobody), np.arange(40), (1, 1)).round(2)
    array([[1.]])
    >>> shares(0 * truth, -truth, truth, (nobody, nobody), np.arange(40), (1, 1))
    array([[0.]])
    """
    e, d = truth - base, better - base
    if not np.abs(d).max(initial=0.0) > 1e-9:
        return np.zeros(shape)
    share, knee = 0.5, max(constants.ERROR_KNEE * float(np.abs(e).mean()), 1e-12)
    for _ in range(3):
        w = 1.0 / np.maximum(np.abs(e - share * d), knee)
        along, size = w * d * e, w * d**2
        share = float(np.clip(along.sum() / size.sum(), 0.0, 1.0))
    _, run = np.unique(run, return_inverse=True)
    left, whole = (np.bincount(run, along - x * size) ** 2 for x in (share, 0.0))
    # Few runs may agree by chance: some more count that are as large as what is to be shown.
    chance = float(left.sum() + constants.CHOICE_RUNS * whole.mean())
    trust = float(_ramp(along.sum() / np.sqrt(max(chance, 1e-300)), *constants.CHOICE_DOUBT))
    if not trust:
        return np.zeros(shape)
    each, (sensor, group) = float(size.mean()), at
    strength = constants.CHOICE_CLASS * each
    classes = np.bincount(group, along, shape[1]) + strength * share
    classes /= np.bincount(group, size, shape[1]) + strength
    whose = np.zeros(len(left), np.intp)
    whose[run] = sensor
    count, own = np.bincount(sensor, minlength=shape[0]), np.bincount(sensor, size, shape[0])
    weight = own + constants.CHOICE_SENSOR * np.where(own > 0, own / np.maximum(count, 1), each)
    pull = np.bincount(sensor, along - classes[group] * size, shape[0])
    spread = np.bincount(whose, left, shape[0]) + constants.CHOICE_SENSOR * chance / len(e)
    own = (pull + constants.CHOICE_ERRORS * np.sqrt(spread)) / weight
    # The better estimate has the simpler one among its candidates: a large share is all.
    return trust * _ramp(classes + own[:, None], *constants.CHOICE_WHOLE)


def _ramp(x: Array, low: float, high: float) -> Array:
    """0 up to ``low``, 1 from ``high`` on, a line between."""
    return np.clip((x - low) / (high - low), 0.0, 1.0)
