"""Masks known: everything but the readings is public, and the sums are noise-free equations.

    z_r,tau = sum_i b_i u_i,tau mean_tau[S_i(v_ir)]      (released components only)

``v_ir`` is what sensor i uploaded in round r about ``y - P m`` of the end; without clipping it
would be the news x_i itself in every round. The adversary holds a prior on (x, v) of each
sensor whose scales are fitted on the *truth*: white Gaussian, Student-t, or correlated in time.

The covariance of the sums is ``sum_i (W_i D_i W_i^T) kron (Sigma_i o b_i b_i^T)``, banded in
windows: one banded Cholesky factor. A prior that is correlated in time is not banded; it is
solved by conjugate gradients with that factor as preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import cho_solve_banded, cholesky_banded, lapack
from scipy.sparse.linalg import LinearOperator, cg

from flfl.audit.attack import Attack, Case, Finding
from flfl.audit.attack import r_squared as one_r_squared
from flfl.audit.attacks.readouts import r_squared
from flfl.audit.equations import Stretch, stretch
from flfl.audit.view import Round, View, known_part
from flfl.model.shared import smoothers

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

JITTER = 1e-7
"""Relative; the price of the two approximations above."""
FEWEST = 20
"""A sensor with fewer readings in the stretch has no R^2."""


@dataclass(frozen=True)
class Prior:
    """What the adversary believes of one reading: ``v ~ N(0, d Sigma_i)``, ``E[x | v] = c_i . v``.

    ``scale`` (M,) is the core of x: d = 1 there.
    """

    Sigma: Array  # (M, R, R)
    c: Array  # (M, R)
    scale: Array  # (M,)


def fitted_prior(system: Stretch) -> Prior:
    """Moments of the truth, sensor by sensor."""
    M, R = system.n_sensors, system.v.shape[1]
    Sigma, c, scale = np.tile(1e-9 * np.eye(R), (M, 1, 1)), np.zeros((M, R)), np.full(M, 1e-9)
    for i in range(M):
        own = system.sensor == i
        if own.sum() > R:
            v, x = system.v[own], system.x[own]
            Sigma[i] = v.T @ v / len(v) + 1e-9 * np.eye(R)
            c[i] = np.linalg.solve(Sigma[i] + 1e-6 * np.trace(Sigma[i]) * np.eye(R), v.T @ x)
            c[i] /= len(v)
            scale[i] = (x**2).mean() + 1e-9
    return Prior(Sigma, c, scale)


Solve = Callable[[Array], Array]


def factorise(system: Stretch, prior: Prior, d: Array, floor: float = 0.0) -> Solve:
    """``z -> Cov(z)^-1 z`` for readings with variances ``d Sigma_i``, each number plus noise of
    variance ``floor``."""
    n, R, k = system.z.shape
    size = R * k
    blocks = _blocks(system, prior, d)
    band = np.zeros((len(blocks) * size, n, size))
    for c in range(size):
        band[: size - c, :, c] = blocks[0, :, c:, c].T
        for step in range(1, len(blocks)):
            band[step * size - c : (step + 1) * size - c, :, c] = blocks[step, :, :, c].T
    band = band.reshape(-1, n * size)
    _drop_unsent(band, system.sent.ravel())
    band[0] *= 1 + JITTER
    band[0] += JITTER * band[0].mean() + system.noise + floor
    factor = cholesky_banded(band, overwrite_ab=True, lower=True, check_finite=False)

    def solve(z: Array) -> Array:
        flat = (z * system.sent[..., *[None] * (z.ndim - 3)]).reshape(n * size, -1)
        alpha = cho_solve_banded((factor, True), flat, check_finite=False)
        return np.asarray(alpha).reshape(z.shape)

    return solve


def _blocks(system: Stretch, prior: Prior, d: Array) -> Array:
    """Covariance of the sums of window tau + lag with those of tau (lags, n, R k, R k)."""
    M, (n, R, k) = system.n_sensors, system.z.shape
    gram = ((system.W * d) @ system.W.T).tocoo()
    keep = gram.row >= gram.col
    row, col, data = gram.row[keep], gram.col[keep], gram.data[keep]
    strips = np.zeros((M, int((row - col).max(initial=0)) + 1, n))
    strips[col // n, row - col, col % n] = data
    outer = np.einsum("irs,irk,isl->irksl", prior.Sigma, system.B, system.B, optimize=True)
    return np.tensordot(strips, outer.reshape(M, R * k, R * k), axes=(0, 0))


def _drop_unsent(band: Array, sent: Mask) -> None:
    """Rows and columns of numbers that were never released become the identity."""
    for step in range(len(band)):
        band[step, : len(sent) - step] *= sent[step:] & sent[: len(sent) - step]
    band[0, ~sent] = band[0, sent].mean()


def gaussian(system: Stretch, prior: Prior) -> Array:
    """Posterior mean of the uploads under a white prior (readings, R)."""
    d = np.ones(len(system.sensor))
    return _spread(system, prior, d, factorise(system, prior, d)(system.z))


def _spread(system: Stretch, prior: Prior, d: Array, alpha: Array) -> Array:
    back = system.backward(alpha)
    return np.einsum("jrs,js,j->jr", prior.Sigma[system.sensor], back, d, optimize=True)


def student(
    system: Stretch, prior: Prior, rng: np.random.Generator, n_iter: int = 5, draws: int = 8
) -> Array:
    """The same with heavy tails, by reweighting: ``d = (dof + E[x^2] / scale) / (dof + 1)``.

    The posterior variance in E[x^2] comes from posterior draws. Degrees of freedom and scales
    are fitted on the truth.
    """
    dof, scale = _student_fit(system, prior)
    shrink = scale / prior.scale
    prior = Prior(prior.Sigma * shrink[:, None, None], prior.c, scale)
    root = np.linalg.cholesky(prior.Sigma)[system.sensor]
    c = prior.c[system.sensor]
    d = np.full(len(system.sensor), dof / (dof - 2))
    for step in range(n_iter):
        solve = factorise(system, prior, d)
        v = _spread(system, prior, d, solve(system.z))
        if step == n_iter - 1:
            break
        variance = np.zeros(len(d))
        for _ in range(draws):
            noise = rng.standard_normal(system.v.shape)
            drawn = np.sqrt(d)[:, None] * np.einsum("jrs,js->jr", root, noise)
            left = drawn - _spread(system, prior, d, solve(system.forward(drawn)))
            variance += (c * left).sum(axis=1) ** 2 / draws
        square = (c * v).sum(axis=1) ** 2 + variance
        d = (dof + square / scale[system.sensor]) / (dof + 1)
    return v


def _student_fit(system: Stretch, prior: Prior) -> tuple[float, Array]:
    """Degrees of freedom of the network and scale (squared) of each sensor, by EM on the truth."""
    best, chosen = -np.inf, (8.0, prior.scale)
    for dof in (2.5, 4.0, 8.0):
        scale = prior.scale.copy()
        total = np.maximum(np.bincount(system.sensor, minlength=len(scale)), 1)
        for _ in range(30):
            weight = (dof + 1) / (dof + system.x**2 / scale[system.sensor])
            scale = np.bincount(system.sensor, weight * system.x**2, len(scale)) / total + 1e-9
        core = np.sqrt(scale[system.sensor])
        likelihood = float((stats.t.logpdf(system.x / core, dof) - np.log(core)).sum())
        if likelihood > best:
            best, chosen = likelihood, (dof, scale)
    return chosen


def correlated(system: Stretch, prior: Prior, length: Array, white: Array) -> Array:
    """The same where news is correlated in time.

    ``Cov = Sigma_i kron (white_i I + (1 - white_i) exp(-|dt| / length_i))``.
    """
    apply = _memory(system, length, white)
    shape, size = system.z.shape, system.z.size
    ones = np.ones(len(system.sensor))
    precondition = factorise(system, prior, ones)
    mean = (system.forward(system.v) ** 2).mean()  # the size of the sums, for the jitter

    def covariance(flat: Array) -> Array:
        alpha = flat.reshape(shape)
        out = system.forward(apply(_spread(system, prior, ones, alpha)))
        return (out + np.where(system.sent, JITTER * mean + system.noise, 1.0) * alpha).ravel()

    A = LinearOperator((size, size), matvec=covariance)
    P = LinearOperator((size, size), matvec=lambda f: precondition(f.reshape(shape)).ravel())
    alpha, _ = cg(A, system.z.ravel(), rtol=1e-5, maxiter=300, M=P)
    return apply(_spread(system, prior, ones, alpha.reshape(shape)))


def _memory(system: Stretch, length: Array, white: Array) -> Callable[[Array], Array]:
    """``v -> K v`` for all sensors at once: an exponential kernel has a tridiagonal inverse."""
    low, slots = int(system.slot.min()), int(np.ptp(system.slot)) + 1
    a = np.exp(-1.0 / length)[:, None] * np.ones(slots)
    diagonal, below = (1 + a * a) / (1 - a * a), -a / (1 - a * a)
    diagonal[:, [0, -1]] = 1 / (1 - a[:, [0, -1]] ** 2)
    below[:, -1] = 0.0
    d, e, _ = lapack.dpttrf(diagonal.ravel(), below.ravel()[:-1])
    at = system.sensor * slots + system.slot - low
    share = white[system.sensor][:, None]

    def apply(v: Array) -> Array:
        whole = np.zeros((diagonal.size, v.shape[1]))
        whole[at] = v
        slow, _ = lapack.dpttrs(d, e, whole)
        return share * v + (1 - share) * slow[at]

    return apply


def fitted_memory(view: View) -> tuple[Array, Array]:
    """Length and white share of each sensor's news, by likelihood on the truth (M,), (M,)."""
    X = view.clipped
    best = np.full(len(X), -np.inf)
    length, noise = np.ones(len(X)), np.ones(len(X))
    for trial in (1.0, 2.0, 4.0, 8.0, 16.0, 40.0):
        for nu in (0.03, 0.1, 0.3, 1.0, 3.0):
            likelihood, _ = smoothers.log_likelihood(X, view.J, trial, nu)
            better = likelihood > best
            best = np.where(better, likelihood, best)
            length[better], noise[better] = trial, nu
    return length, noise / (1 + noise)


def score(system: Stretch, view: View, prior: Prior, v: Array) -> Array:
    """R^2 of each sensor (M, 3): of its news, of its predictive news, of its clipped news.

    A guess of x is a guess of y, since the picture ``P m`` is public: the predictive score is
    the share of what the *other* sensors leave open that the guess of y removes.
    """
    out = np.full((system.n_sensors, 3), np.nan)
    x = (prior.c[system.sensor] * v).sum(axis=1)
    clipped = view.clipped
    for i in range(system.n_sensors):
        own = (system.sensor == i) & system.inside
        if own.sum() < FEWEST:
            continue
        slots = system.slot[own]
        miss = ((system.x[own] - x[own]) ** 2).sum()
        alone = view.predictive[i, slots]
        out[i, 0] = r_squared(system.x[own], x[own])
        out[i, 1] = 1 - miss / max(((alone - alone.mean()) ** 2).sum(), 1e-12)
        out[i, 2] = r_squared(clipped[i, slots], v[own, -1])
    return out


def guessed_news(system: Stretch, prior: Prior, v: Array) -> Array:
    """The guess of the news of each reading (readings,) from guessed uploads."""
    return np.asarray((prior.c[system.sensor] * v).sum(axis=1))


def by_sensor(system: Stretch, x: Array) -> Array:
    """R^2 of each sensor's news inside the stretch (M,), NaN for too few readings."""
    sensor, truth, guess = (a[system.inside] for a in (system.sensor, system.x, x))
    return np.array(
        [one_r_squared(truth[sensor == i], guess[sensor == i]) for i in range(system.n_sensors)]
    )


def on_table(system: Stretch, view: View, x: Array) -> Array:
    """Guesses of the readings inside the stretch as a table (M, N), NaN elsewhere."""
    out = np.full(view.J.shape, np.nan)
    inside = system.inside
    out[system.sensor[inside], system.slot[inside]] = x[inside]
    return out


def largest(system: Stretch, x: Array, share: float = 0.01) -> float:
    """Share of the squares of the largest news that a guess removes, each sensor in its own unit.

    Spikes are what an adversary wants to see, and what a sum shows best.
    """
    truth, guess, sensor = system.x[system.inside], x[system.inside], system.sensor[system.inside]
    power = np.bincount(sensor, truth**2, system.n_sensors)
    spread = np.sqrt(power / np.maximum(np.bincount(sensor, minlength=system.n_sensors), 1))
    unit = np.maximum(spread, 1e-12)[sensor]
    top = np.abs(truth / unit) >= np.quantile(np.abs(truth / unit), 1 - share)
    left = (((truth - guess) / unit)[top] ** 2).sum()
    return float(1 - left / max(((truth / unit)[top] ** 2).sum(), 1e-12))


def middle(view: View, slots: int) -> int:
    """Where the stretch starts: after a third of what remains."""
    return max((view.J.shape[1] - slots) // 3, 0)


def everywhere(view: View, slots: int = 1000) -> Array:
    """The Gaussian guess of every reading from the last round, stretch by stretch (M, N)."""
    out = np.full(view.J.shape, np.nan)
    first, N = 0, view.J.shape[1]
    while first < N:
        # A last piece shorter than half a stretch joins the one before it.
        span = slots if N - first >= 1.5 * slots else N - first
        system = stretch(view, [view.rounds[-1]], first, span)
        prior = fitted_prior(system)
        found = on_table(system, view, guessed_news(system, prior, gaussian(system, prior)))
        out = np.where(np.isfinite(found), found, out)
        first += span
    return np.where(view.J > 0, np.nan_to_num(out), np.nan)


def round_sets(view: View) -> list[list[Round]]:
    """The last round; with the first, where together they say more than one alone."""
    first, last = view.rounds[0], view.rounds[-1]
    one, other = known_part(view, first), known_part(view, last)
    same = np.linalg.norm(one - other) < 1e-3 * np.linalg.norm(other)
    return [[last]] if same and np.allclose(first.B, last.B) else [[last], [first, last]]


def _run(case: Case, attack: Attack) -> list[Finding]:
    view, rng = case.view, case.rng(attack.name)
    length, white = fitted_memory(view)
    solvers: dict[str, Callable[[Stretch, Prior], Array]] = {
        "Gaussian": gaussian,
        "Student-t": lambda system, prior: student(system, prior, rng),
        "memory": lambda system, prior: correlated(system, prior, length, white),
    }
    slots = case.effort.slots
    tried: dict[str, list[_Try]] = {name: [] for name in solvers}
    for rounds in round_sets(view):
        system = stretch(view, rounds, middle(view, slots), slots)
        prior = fitted_prior(system)
        for name, solver in solvers.items():
            v = solver(system, prior)
            x = guessed_news(system, prior, v)
            scores = score(system, view, prior, v)
            tried[name].append(_Try(scores, on_table(system, view, x), largest(system, x)))
    every = np.stack([one.scores[:, 0] for found in tried.values() for one in found])
    # Each sensor by the prior that suits it, which a few known readings would tell.
    least = float(np.nanmin(every.max(axis=0)))
    return [_finding(view, attack, name, found, least) for name, found in tried.items()]


@dataclass(frozen=True)
class _Try:
    """Scores (M, 3) of one guess, the guess (M, N), and what it shows of the largest news."""

    scores: Array
    guess: Array
    spikes: float


def _finding(view: View, attack: Attack, name: str, found: list[_Try], least: float) -> Finding:
    """The best of one or several sets of rounds."""
    scores = np.stack([one.scores for one in found]).max(axis=0)
    best = max(found, key=lambda one: float(np.nanmedian(one.scores[:, 0])))
    alone, bulk = (float(np.nanmax(scores[:, column])) for column in (1, 2))
    return attack.read(
        view,
        best.guess,
        np.isfinite(best.guess),
        name,
        scores=scores[:, 0],
        sentence=SENTENCE + f" Of the largest 1 % of news: {max(best.spikes, 0):.0%}.",
        # Against what the *other* sensors leave open; against news without its spikes.
        figures={
            "largest_news_read": best.spikes,
            "alone_max": alone,
            "bulk_max": bulk,
            "news_read_min": float(np.nanmin(scores[:, 0])),
            "news_read_min_best_prior": least,
        },
    )


SENTENCE = (
    "Knowing everything but the readings, it reads {max:.0%} of the worst sensor's news,"
    " {median:.0%} of the median one's."
)
ATTACK = Attack(
    "masks-known",
    "the coordinator",
    "who observed when, every projection, weight, latent vector and noise level, and how news is"
    " distributed (fitted on the truth): everything but the readings",
    _run,
)
