"""``kalman-em``: a full-rank linear dynamical system, all data in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from flfl.config import Count, Whole
from flfl.ensemble.estimate import Units
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.model.kalman_em import fit_kalman_em
from flfl.model.transforms import FORWARD
from flfl.protocol.owner import preferred_units

Mask = NDArray[np.bool_]

COVERAGE = 0.9


@dataclass(kw_only=True, eq=False, repr=False)
class KalmanEM(BaseRecoverer):
    """``x_t = A x_{t-1} + w_t``, ``y_it = x_it + v_it`` with one state a sensor, learned by EM.

    Central: it pools the readings. ``A`` and the covariance of ``w`` are full, so every sensor
    helps every other, before and after. Readings are transformed, freed of each sensor's own
    season and scaled first. An EM step costs about ``n_slots * n_sensors ** 3``.

    Parameters
    ----------
    iterations : EM steps
    transformation : ``"none"``, ``"sqrt"`` or ``"log1p"``; None chooses by leave-one-out errors
    season : slots in a season, 0 for none; None tries the one that the time grid suggests

    Attributes
    ----------
    lower_, upper_ : (n_slots, n_sensors), 90 % intervals: the state's spread and the noise

    Examples
    --------
    >>> t = np.arange(120.0)
    >>> X = np.column_stack([np.sin(t / 4), np.cos(t / 4), np.sin(t / 4) + np.cos(t / 4)])
    >>> truth = X[50:60, 2].copy()
    >>> X[50:60, 2] = np.nan
    >>> bool(np.abs(KalmanEM().fit_transform(X)[50:60, 2] - truth).max() < 0.1)
    True
    """

    _unit_free: ClassVar[bool] = False
    _by_sensor: ClassVar[tuple[str, ...]] = ("lower_", "upper_")

    iterations: Count = 12
    transformation: Literal["none", "sqrt", "log1p"] | None = None
    season: Whole | None = None

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        known = ~np.isnan(Y)
        units = _units(Y, known, positions, *self._choose(Y, known, positions))
        # Long chunks for a long series: less is computed twice in their overlaps.
        chunk = 512 if Y.shape[1] > 4000 else 128
        dyn, post = fit_kalman_em(
            units.centred(Y, known), known, iterations=self.iterations, chunk=chunk
        )
        reach = ndtri(0.5 + COVERAGE / 2) * np.sqrt(post.var + dyn.r[:, None])
        self.lower_ = units.back(post.mean - reach).T
        self.upper_ = units.back(post.mean + reach).T
        return units.back(post.mean)

    def _choose(self, Y: Array, known: Mask, positions: Array) -> tuple[str, int]:
        """The transform and the season of least error on the known readings, each left out."""
        transforms = tuple(FORWARD) if np.nanmin(Y) >= 0 else ("none",)
        transforms = (self.transformation,) if self.transformation else transforms
        seasons = {0, self.period_} if self.season is None else {self.season}
        units = [(transform, season) for season in sorted(seasons) for transform in transforms]
        return units[preferred_units(Y, known, units, positions) if len(units) > 1 else 0]


def _units(Y: Array, known: Mask, positions: Array, transform: str, season: int) -> Units:
    """Each sensor's mean at each phase of the season, and one scale for all."""
    J = known.astype(float)
    Z = FORWARD[transform](np.where(known, Y, 0.0))
    offset = np.repeat(_mean(Z, J), Z.shape[1], axis=1)
    phases = np.round(positions).astype(np.intp) % max(season, 1)
    for p in range(season):
        at = phases == p
        offset[:, at] += _mean((Z - offset)[:, at], J[:, at])
    spread = float(np.sqrt((J * (Z - offset) ** 2).sum() / J.sum()))
    # Where nothing varies any unit will do.
    return Units(transform, offset, spread if spread > 1e-12 else 1.0)


def _mean(X: Array, J: Array) -> Array:
    """Mean of each sensor's known values (M, 1), 0 where there is none."""
    return (J * X).sum(1, keepdims=True) / np.maximum(J.sum(1, keepdims=True), 1)
