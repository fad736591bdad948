"""The state-space model written out as one large Gaussian, to condition on anything by hand."""

import numpy as np

from flfl.model.state_space import Dynamics, stationary


def draw_dynamics(k, rng):
    """Stable dynamics of k factors."""
    A = rng.standard_normal((k, k))
    A *= rng.uniform(0.3, 0.95) / max(np.abs(np.linalg.eigvals(A)).max(), 1e-9)
    B = rng.standard_normal((k, k))
    return Dynamics(A, B @ B.T / k + 0.1 * np.eye(k))


def path_covariance(dynamics, N):
    """Covariance of the whole path, slot by slot (N k, N k)."""
    A, k = dynamics.A, len(dynamics.A)
    cov, V = np.zeros((N, k, N, k)), stationary(dynamics.A, dynamics.S)
    for t in range(N):
        block = V
        for s in range(t, N):
            cov[s, :, t], cov[t, :, s] = block, block.T
            block = A @ block
    return cov.reshape(N * k, N * k)


def condition(cov, H, R, y):
    """Mean and covariance of x ~ N(0, cov) given ``y = H x + e``, e ~ N(0, R)."""
    C = H @ cov @ H.T + R
    K = np.linalg.solve(C, H @ cov).T
    return K @ y, cov - K @ H @ cov


def rows_of(slots, row, N):
    """Observations of single slots as rows of the whole path: (n, N k)."""
    n, k = row.shape
    H = np.zeros((n, N, k))
    H[np.arange(n), slots] = row
    return H.reshape(n, N * k)
