"""Latent courses that predict themselves from chosen lags, each dimension on its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Autoregression:
    """``x_t ~ sum_l theta_l * x_{t-l}``, entry by entry, for slots that have all their lags.

    Attributes
    ----------
    lags : increasing, each at least 1 and below the number of slots
    theta : (lags, k) coefficients

    Examples
    --------
    >>> halving = Autoregression((1,), np.array([[0.5]]))
    >>> halving.residual(np.array([[8.0], [4.0], [3.0]])).ravel().tolist()
    [0.0, 1.0]
    """

    lags: tuple[int, ...]
    theta: Array

    @classmethod
    def fit(cls, X: Array, lags: tuple[int, ...], ridge: float) -> Autoregression:
        """Least ``|residual|^2 + ridge |theta|^2``, one small system a dimension.

        Examples
        --------
        >>> course = 0.5 ** np.arange(9.0)[:, None]
        >>> Autoregression.fit(course, (1,), 1e-9).theta.round(6).tolist()
        [[0.5]]
        """
        past = np.stack([_shifted(X, lags, lag) for lag in lags])
        gram = np.einsum("atk,btk->kab", past, past) + ridge * np.eye(len(lags))
        target = np.einsum("atk,tk->ka", past, X[lags[-1] :])
        return cls(lags, np.linalg.solve(gram, target[:, :, None])[:, :, 0].T)

    def residual(self, X: Array) -> Array:
        """``x_t - sum_l theta_l * x_{t-l}`` from the slot on that has all its lags.

        Parameters
        ----------
        X : (N, k) array

        Returns
        -------
        (N - largest lag, k) array
        """
        out = X[self.lags[-1] :].copy()
        for lag, weight in zip(self.lags, self.theta, strict=True):
            out -= weight * _shifted(X, self.lags, lag)
        return out

    def residual_adjoint(self, R: Array) -> Array:
        """The adjoint of :meth:`residual`: from (N - largest lag, k) back to (N, k)."""
        longest = self.lags[-1]
        out = np.zeros((len(R) + longest, R.shape[1]))
        out[longest:] = R
        for lag, weight in zip(self.lags, self.theta, strict=True):
            out[longest - lag : len(out) - lag] -= weight * R
        return out


def _shifted(X: Array, lags: tuple[int, ...], lag: int) -> Array:
    """What stands ``lag`` slots before each slot that has all its lags."""
    return X[lags[-1] - lag : len(X) - lag]
