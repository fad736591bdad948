"""The default method with NumPy and SciPy alone: noisy copies, one release, rounds, the finish.

What a site does and what everybody computes stand one after the other; a test holds the package
equal to it. Left out: vote, season, pilot, secure sums (they open to the same totals), checks of
hostile input; at home the joint models, stacking, trees and intervals. Rows are sensors.
"""

import numpy as np
from scipy.linalg import block_diag, inv


def noisy_copy(i, y, J, normal):
    """A sensor's error in time s, and its copies ``limit(y_t) + s n_t``: an added error of 1."""
    t, gap = np.flatnonzero(J), np.diff(np.flatnonzero(J))
    e = np.abs(y[t[1:-1]] - (gap[1:] * y[t[:-2]] + gap[:-1] * y[t[2:]]) / (gap[1:] + gap[:-1]))
    s = np.sqrt(np.mean(np.minimum(e, 4 * 1.4826 * np.median(e)) ** 2))  # spikes count little
    s = 2 ** (np.ceil(4 * np.log2(s)) / 4)  # a rung of a ladder says little of the readings
    copy, forecast, variance, last = np.zeros(len(y)), 0.0, 1e300, 0
    for t in np.flatnonzero(J):
        variance += 2 * s**2 * (t - last)  # the limit comes from earlier copies, never readings
        reach = 3 * np.sqrt(variance + s**2)
        inside = np.clip(y[t], forecast - reach, forecast + reach)
        copy[t] = inside + s * normal(i, t, inside, s, inside != y[t])
        copy[t] = np.rint(copy[t] * 64 / s) * s / 64
        gain = variance / (variance + s**2)
        forecast, variance, last = forecast + gain * (copy[t] - forecast), gain * s**2, t
    return s, copy


def basis(places, size):
    """Cosines over the map at the sensors (M, size), from smooth to detailed."""
    extent = np.ptp(places, axis=0)
    x, y = ((places - places.min(axis=0)) / extent).T
    a, b = np.indices((size, size)).reshape(2, -1)
    detail = (np.stack([a, b]) / (extent / extent.max())[:, None]) ** 2
    a, b = (order[np.lexsort((a, detail.sum(axis=0)))[:size]] for order in (a, b))
    level = np.sqrt((1.0 + (a > 0)) * (1.0 + (b > 0)))
    return level * np.cos(np.pi * np.outer(x, a)) * np.cos(np.pi * np.outer(y, b))


def released(J, site, share, most):
    """Which numbers leave (N, most): a share of a slot's readings, at most half of them."""
    out, saved = np.zeros(J.shape[1], int), 0.0
    for t, known in enumerate(J.T):
        at = np.unique(site[known], return_counts=True)[1]
        # Of two sites each knows its own part of the sums; of one site nothing is released.
        hidden = (0, 0, at.min(initial=known.sum()), known.sum())[min(len(at), 3)]
        saved += share * known.sum() * (hidden > 1)
        out[t] = min(int(saved + 1e-9), known.sum() // 2, most)
        saved, out[t] = min(saved - out[t], 3.0), min(out[t], hidden // 2)
    return np.arange(most) < out[:, None]


def information(z, used, J, noise, P, Phi):
    """What the released sums tell of the factors: ``F' R^-1 F`` (N, k, k), ``F' R^-1 z`` (N, k)."""
    F = np.einsum("it,iq,ia->tqa", J, Phi, P) * used[:, :, None]
    R = np.einsum("it,i,iq,ir->tqr", J, noise, Phi, Phi) * used[:, :, None] * used[:, None]
    level = np.trace(R, axis1=1, axis2=2)[:, None] / np.maximum(used.sum(axis=1), 1)[:, None]
    R += np.eye(R.shape[1]) * np.where(used & (level > 0), 1e-9 * level, 1.0)[:, None]
    W = np.linalg.solve(R, F)
    return F.swapaxes(1, 2) @ W, np.einsum("tqa,tq->ta", W, z)


def smooth(info, h, A, S):
    """Exact posterior of q_t = A q_{t-1} + w_t by one inverse; A and S that would explain it."""
    (N, k), prior, B = h.shape, S, A
    for _ in range(12):  # the stationary covariance, by doubling
        prior, B = prior + B @ prior @ B.T, B @ B
    step = np.eye(N * k) - np.kron(np.eye(N, k=-1), A)
    noise = block_diag(inv(prior), np.kron(np.eye(N - 1), inv(S)))
    V = inv(block_diag(*info) + step.T @ noise @ step)
    m = V @ h.ravel()
    E, V, t = (V + np.outer(m, m)).reshape(N, k, N, k), V.reshape(N, k, N, k), np.arange(N)
    S11, S10, S00 = (E[t[1:] - a, :, t[1:] - b].sum(axis=0) for a, b in ((0, 0), (0, 1), (1, 1)))
    A = np.linalg.solve(S00 + 1e-9 * np.trace(S00) / k * np.eye(k), S10.T).T
    A *= min(1, 0.999 / np.abs(np.linalg.eigvals(A)).max())
    S = (S11 - A @ S10.T - S10 @ A.T + A @ S00 @ A.T) / (N - 1)
    return m.reshape(N, k), V[t, :, t], A, S + 1e-5 * np.trace(S) / k * np.eye(k)


def regress(Y, J, noise, m, V):
    """Loadings of some series on the factors, and the mean square of what they leave."""
    H = np.einsum("it,tab->iab", J, m[:, :, None] * m[:, None] + V)
    H += noise[:, None, None] * np.eye(m.shape[1])
    P = np.linalg.solve(H, ((J * Y) @ m)[..., None])[..., 0]
    square = J * ((Y - P @ m.T) ** 2 + np.einsum("ia,tab,ib->it", P, V, P))
    return P, square.sum(axis=1) / J.sum(axis=1)


def default_method(y, J, use, site, places, normal, share=0.5, rank=20, rounds=5):
    """What becomes public, what that tells of the factors, and each owner's curves (M, N).

    y, J, use : (M, N) readings, where they are, and which of them their owner uses at home
    """
    # Each site: copies of its readings. Centre, scale and weights come from copies, too.
    made = [noisy_copy(i, *row, normal) for i, row in enumerate(zip(y, J, strict=True))]
    s, copies = (np.array(part) for part in zip(*made, strict=True))
    (M, N), n, owners = J.shape, J.sum(axis=1), site == np.unique(site)[:, None]
    C = J * (copies - copies.sum(axis=1, keepdims=True) / (n[:, None] + 1e-9))
    scale = np.sqrt(np.mean((C**2).sum(axis=1) / n))
    C, sigma2, K, k = C / scale, (s / scale) ** 2, min(64, M // 2), min(rank, M - 1, N // 10)
    # All sites together: the release, one secure sum in fixed point.
    Phi = basis(places, K) * (scale / np.maximum(s, np.median(s) / 2))[:, None]
    used = released(J, site, share, K)
    z = used * sum(np.rint(2**30 * (C[own].T @ Phi[own])) for own in owners) / 2**30
    # Rounds: everybody smooths and learns the dynamics, each site refits its loadings.
    P, r = basis(places, max(k, K))[:, :k], np.maximum(2 * sigma2, 0.05)
    P /= np.sqrt((P**2).mean(axis=0))
    A, S = 0.95 * np.eye(k), (1 - 0.95**2) / (P**2).sum(axis=1).mean() * np.eye(k)
    for _ in range(rounds):
        info, h = information(z, used, J, r + sigma2, P, Phi)
        m, V, A, S = smooth(info, h, *smooth(info, h, *smooth(info, h, A, S)[2:])[2:])
        P, square = regress(C, J, r + sigma2, m, V)
        r = np.maximum(square - sigma2, 1e-3 * (C**2).sum(axis=1) / n)
        # Published with no more digits than they have: a quarter of their standard errors.
        grid = np.exp2(np.floor(np.log2(0.25 / np.sqrt(1 + (J @ m**2) / (r + sigma2)[:, None]))))
        P, r = np.rint(P / grid) * grid, np.exp2(np.rint(np.log2(r) * 16) / 16)
    # Each owner at home: its own copies out of the sums, its clean readings in.
    curves, noise = np.empty_like(y), r + sigma2
    for own in owners:
        others = J * ~own[:, None]
        info, h = information(z - used * (C[own].T @ Phi[own]), used, others, noise, P, Phi)
        Jo, c = use[own], np.maximum(r, 0.15 * noise)[own, None]
        centre = ((Jo * y[own]).sum(axis=1) / Jo.sum(axis=1))[:, None]
        Y, (m, V, *_) = Jo * (y[own] - centre) / scale, smooth(info, h, A, S)
        for _ in range(2):  # loadings from clean readings: the published ones saw all copies
            p, square = regress(Y, Jo, c[:, 0], m, V)
            c = np.maximum(square, 1e-3 * (Y**2).sum(axis=1) / Jo.sum(axis=1))[:, None]
        for _ in range(3):
            seen = np.einsum("it,ia,ib->tab", Jo / c, p, p), (Y / c).T @ p
            m, V, *_ = smooth(info + seen[0], h + seen[1], A, S)
            curves[own] = centre + scale * p @ m.T
            p, square = regress(Y, Jo, c[:, 0], m, V)
            c = np.maximum(square, 2e-3 * (Y**2).sum(axis=1) / Jo.sum(axis=1))[:, None]
    return (z, P, r, A, S, scale), information(z, used, J, noise, P, Phi), curves


def main():
    rng, site, t = np.random.default_rng(0), np.repeat([0, 1, 2], 2), np.arange(150)
    places, common = rng.random((6, 2)), np.convolve(rng.standard_normal(158), np.ones(9), "valid")
    y = common + places @ [[1.0], [2.0]] + 0.3 * rng.standard_normal((6, 150))
    J = rng.random(y.shape) < 0.8
    curves = default_method(y, J, J, site, places, lambda *_: rng.standard_normal())[-1]
    lines = np.array([np.interp(t, t[j], x[j]) for x, j in zip(y, J, strict=True)])
    for name, guess in ("the network", curves), ("linear interpolation", lines):
        print(f"mean absolute error in the gaps, {name}: {np.abs(guess - y)[~J].mean():.3f}")


if __name__ == "__main__":
    main()
