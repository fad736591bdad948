"""A site as a whole: its sensors trust each other, so their residuals are modelled jointly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.model.kalman_em import Dynamics, fit_kalman_em, leave_one_out, smooth

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SiteEstimate:
    """Joint estimate of a site's residuals: ``mean`` with the entry itself, the rest without.

    Each is (M, N).
    """

    mean: Array
    loo_mean: Array
    loo_var: Array


def estimate_site(R: Array, J: Mask, dyn: Dynamics | None = None) -> tuple[SiteEstimate, Dynamics]:
    """Kalman-EM on the residuals of the sensors of one site.

    With ``dyn`` given: one smoothing pass under those parameters. Otherwise 6 long steps, 12 for
    a short series, where they are cheap and the noise is learned slowly. Residuals forget fast,
    so short chunks and overlaps do, and many chunks at a time keep the Python loop short.

    Parameters
    ----------
    R : (M, N) residuals ``y - p . m``, any value where unknown
    J : (M, N) known entries

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> R = rng.standard_normal((1, 200)) + 0.1 * rng.standard_normal((3, 200))
    >>> J = rng.random(R.shape) < 0.6
    >>> made, _ = estimate_site(R, J)
    >>> bool(np.abs(made.loo_mean - R)[J].mean() < np.abs(R[J]).mean())
    True
    """
    scale = float(np.sqrt(np.where(J, R**2, 0.0).sum() / max(J.sum(), 1))) or 1.0
    Z = np.where(J, R, 0.0) / scale
    if dyn is None:
        long_enough = R.shape[1] > 3000
        dyn, post = fit_kalman_em(
            Z, J, iterations=6 if long_enough else 12, chunk=64, overlap=12, factor=2.5
        )
    else:
        dyn = dyn.in_units(1 / scale)
        post = smooth(Z, J, dyn, chunk=64, overlap=12)
    loo_mean, loo_var = leave_one_out(post, Z, J, dyn.r)
    made = SiteEstimate(post.mean * scale, loo_mean * scale, loo_var * scale**2)
    return made, dyn.in_units(scale)
