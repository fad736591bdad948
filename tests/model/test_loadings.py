"""What a release says about the factors, and how sensors depend on them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.model import loadings
from flfl.model.state_space import Posterior, smooth
from gaussian import condition, draw_dynamics, path_covariance, rows_of


def released_path(seed, M=7, N=25, K=3, k=3):
    """Copies of M sensors, their release, and all that is public about them."""
    rng = np.random.default_rng(seed)
    dynamics = draw_dynamics(k, rng)
    J = rng.random((M, N)) < 0.7
    P, phi, w = rng.standard_normal((M, k)), rng.standard_normal((M, K)), rng.uniform(0.5, 2, M)
    noise = J * rng.uniform(0.2, 2, (M, 1)) * rng.uniform(0.5, 2, (M, N))
    numbers = np.minimum(rng.integers(0, K + 1, N), J.sum(axis=0))
    copies = J * rng.standard_normal((M, N))
    return dynamics, J, P, phi, w, noise, numbers, copies


def dense_release(dynamics, J, P, phi, w, noise, numbers):
    """The release as rows of the whole path, with the covariance of its noise."""
    N, rows, slots, blocks = J.shape[1], [], [], []
    for t in range(N):
        B = (phi * w[:, None])[:, : numbers[t]].T * J[:, t]
        rows.append(B @ P)
        slots += [t] * numbers[t]
        blocks.append(B @ np.diag(noise[:, t]) @ B.T)
    H = rows_of(np.array(slots, int), np.concatenate(rows), N)
    R, at = np.zeros((len(slots), len(slots))), 0
    for block in blocks:
        R[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return H, R


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_the_posterior_given_a_release_is_exact(seed):
    dynamics, J, P, phi, w, noise, numbers, copies = released_path(seed)
    z = loadings.released(copies, w, phi, numbers)
    made = loadings.design(P, noise, w, phi)
    post = smooth(*loadings.information(*made, z, numbers), dynamics)
    H, R = dense_release(dynamics, J, P, phi, w, noise, numbers)
    used = np.arange(z.shape[1]) < numbers[:, None]
    cov = path_covariance(dynamics, J.shape[1])
    ridge = 1e-9 * np.repeat([np.trace(made[1][t][:n, :n]) / n for t, n in enumerate(numbers) if n],
                             numbers[numbers > 0])  # fmt: skip
    mean, spread = condition(cov, H, R + np.diag(ridge), z[used])
    np.testing.assert_allclose(post.mean.ravel(), mean, atol=1e-8)
    N, k = post.mean.shape
    dense = spread.reshape(N, k, N, k)[np.arange(N), :, np.arange(N)]
    np.testing.assert_allclose(post.cov, dense, atol=1e-8)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_designs_add_up_and_the_own_part_can_be_taken_out(seed):
    _, _, P, phi, w, noise, numbers, copies = released_path(seed)
    own = np.arange(len(P)) < 3
    whole, part, rest = (
        loadings.design(P[rows], noise[rows], w[rows], phi[rows])
        for rows in (slice(None), own, ~own)
    )
    for one, own_part, others in zip(whole, part, rest, strict=True):
        np.testing.assert_allclose(one - own_part, others, atol=1e-12)
    z = loadings.released(copies, w, phi, numbers)
    mine = loadings.released(copies[own], w[own], phi[own], numbers)
    others = loadings.released(copies[~own], w[~own], phi[~own], numbers)
    np.testing.assert_allclose(z - mine, others, atol=1e-12)
    assert (z[np.arange(z.shape[1]) >= numbers[:, None]] == 0).all()


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_with_clean_readings_instead_of_the_own_copies(seed):
    """The finish at home: the release without the own part, and the own readings as they are."""
    dynamics, J, P, phi, w, noise, numbers, copies = released_path(seed, K=2)
    own, rng = np.arange(len(P)) < 3, np.random.default_rng(seed + 1)
    numbers = np.minimum(numbers, J[~own].sum(axis=0))
    z = loadings.released(copies, w, phi, numbers)
    z = z - loadings.released(copies[own], w[own], phi[own], numbers)
    made = loadings.design(P, noise, w, phi)
    own_part = loadings.design(P[own], noise[own], w[own], phi[own])
    made = [whole - part for whole, part in zip(made, own_part, strict=True)]
    information, vector = loadings.information(*made, z, numbers)
    Y, c = rng.standard_normal(J[own].shape), rng.uniform(0.1, 1, own.sum())
    for i, t in np.argwhere(J[own]):
        information[t] += np.outer(P[i], P[i]) / c[i]
        vector[t] += P[i] * Y[i, t] / c[i]
    post = smooth(information, vector, dynamics)

    H, R = dense_release(dynamics, J[~own], P[~own], phi[~own], w[~own], noise[~own], numbers)
    i, t = np.nonzero(J[own])
    H_all = np.concatenate([H, rows_of(t, P[own][i], J.shape[1])])
    R_all = np.zeros((len(H_all), len(H_all)))
    R_all[: len(R), : len(R)] = R + 1e-9 * np.diag(np.diag(R))
    R_all[range(len(R), len(H_all)), range(len(R), len(H_all))] = c[i]
    used = np.arange(z.shape[1]) < numbers[:, None]
    y = np.concatenate([z[used], Y[i, t]])
    mean, _ = condition(path_covariance(dynamics, J.shape[1]), H_all, R_all, y)
    np.testing.assert_allclose(post.mean.ravel(), mean, atol=1e-6)


def dense_curves(dynamics, J, P, phi, w, noise, numbers):
    """Every sensor's curve as a linear function of all copies: (M, N, M, N)."""
    (M, N), k = J.shape, P.shape[1]
    H, R = dense_release(dynamics, J, P, phi, w, noise, numbers)
    cov = path_covariance(dynamics, N)
    gain = np.linalg.solve(H @ cov @ H.T + R, H @ cov).T.reshape(N, k, -1)
    slots = np.repeat(np.arange(N), numbers)
    function = np.concatenate([np.arange(n) for n in numbers])
    sums = np.zeros((len(H), M, N))
    sums[np.arange(len(H)), :, slots] = ((phi * w[:, None])[:, function] * J[:, slots]).T
    return np.einsum("ia,tan,njs->itjs", P, gain, sums)


def mean_square(a, dynamics, P, noise):
    """Of the linear function a (M, N) of the copies, under the model."""
    cov = path_covariance(dynamics, a.shape[1]).reshape(a.shape[1], P.shape[1], a.shape[1], -1)
    path = np.einsum("it,ia->ta", a, P)
    return np.einsum("ta,tasb,sb->", path, cov, path) + (a**2 * noise).sum()


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.booleans())
def test_what_is_left_open_of_a_copy_is_never_less_than_without_it(seed, as_many_as_readings):
    """Beside the posterior that is computed anew with one copy out of z, F and R."""
    M = 6
    path = released_path(seed, M=M, N=10, K=M if as_many_as_readings else 3)
    dynamics, J, P, phi, w, noise, numbers, copies = path
    if as_many_as_readings:
        phi, numbers = np.linalg.qr(phi)[0], J.sum(axis=0)
    z, made = loadings.released(copies, w, phi, numbers), loadings.design(P, noise, w, phi)
    post = smooth(*loadings.information(*made, z, numbers), dynamics)
    F, R = loadings.used(*made, numbers)
    left = loadings.left_open(copies, J, P, (w, phi), np.linalg.solve(R, F), post)

    curves = dense_curves(dynamics, J, P, phi, w, noise, numbers)
    h = np.einsum("itit->it", curves)
    error = copies - np.einsum("itjs,js->it", curves, copies)
    square = np.where(J, error / (1 - np.clip(h, 0, 0.95)), 0.0) ** 2
    np.testing.assert_allclose(left, square.sum(axis=1) / np.maximum(J.sum(axis=1), 1), rtol=5e-4)

    for i, t in np.argwhere(J & (np.abs(h - 1) > 0.05))[::5]:
        there, itself = J.copy(), np.zeros(J.shape)
        there[i, t], itself[i, t] = False, 1.0
        fewer = np.minimum(numbers, there.sum(axis=0))
        exact = dense_curves(dynamics, there, P, phi, w, noise * there, fewer)[i, t]
        forecast = (itself - curves[i, t]) / (1 - h[i, t])
        assert abs(forecast[i, t] - 1) < 1e-6  # a function of all others
        best = mean_square(itself - exact, dynamics, P, noise)
        got = mean_square(forecast, dynamics, P, noise)
        assert got >= best * (1 - 1e-6)
        if as_many_as_readings:
            np.testing.assert_allclose(forecast, itself - exact, atol=1e-6)


def certain(mean):
    """A posterior without doubt."""
    N, k = mean.shape
    zero = np.zeros((N, k, k))
    return Posterior(mean, zero, np.zeros((3, k, k)))


def test_known_loadings_are_found_again():
    rng = np.random.default_rng(0)
    N, k, m = 4000, 4, 5
    mean, P = rng.standard_normal((N, k)), rng.standard_normal((m, k))
    J = (rng.random((m, N)) < 0.6).astype(float)
    sigma2 = J * rng.choice([0.5, 2.0], (m, N))
    r = rng.uniform(0.1, 0.5, m)
    error = np.sqrt(r[:, None] + sigma2) * rng.standard_normal((m, N))
    Y = J * (P @ mean.T + error)
    fitted, left = loadings.fit_loadings(Y, J, sigma2, certain(mean), np.ones(m))
    for _ in range(3):
        fitted, left = loadings.fit_loadings(Y, J, sigma2, certain(mean), left)
    np.testing.assert_allclose(fitted, P, atol=0.15)
    np.testing.assert_allclose(left, r, atol=0.15)


def test_a_sensor_without_copies_has_no_loadings():
    mean = np.random.default_rng(0).standard_normal((50, 2))
    zero = np.zeros((1, 50))
    P, r = loadings.fit_loadings(zero, zero, zero, certain(mean), np.ones(1))
    assert (P == 0).all()
    assert (r > 0).all()
    P, r = loadings.rounded(P, r, zero, zero, certain(mean))
    assert np.isfinite(P).all()
    assert np.isfinite(r).all()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_loadings_are_rounded_within_a_quarter_of_their_standard_error(seed):
    rng = np.random.default_rng(seed)
    N, k, m = 200, 3, 4
    mean = rng.standard_normal((N, k)) * 10.0 ** rng.uniform(-3, 3)
    J = (rng.random((m, N)) < rng.uniform(0.05, 1)).astype(float)
    sigma2, r = J * rng.uniform(0.1, 4, (m, 1)), 10.0 ** rng.uniform(-6, 3, m)
    P = rng.standard_normal((m, k)) / 10.0 ** rng.uniform(-3, 3)
    made, left = loadings.rounded(P, r, J, sigma2, certain(mean))
    W = J / (r[:, None] + sigma2)
    error = 1 / np.sqrt(
        1 + W.sum(axis=1)[:, None] * (J @ mean**2) / np.maximum(J.sum(1), 1)[:, None]
    )
    assert (np.abs(made - P) <= error / 8 + 1e-12).all()  # half a step, a step at most a quarter
    grid = np.exp2(np.floor(np.log2(error / 4)))
    np.testing.assert_allclose(made / grid, np.rint(made / grid), atol=1e-6)
    np.testing.assert_allclose(np.log2(left) * 16, np.rint(np.log2(left) * 16), atol=1e-9)
    assert (np.abs(np.log2(left / r)) <= 1 / 32 + 1e-9).all()


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=60), share=st.floats(0.01, 1),
    most=st.integers(1, 20),
)  # fmt: skip
def test_numbers_a_slot(counts, share, most):
    n = np.array(counts)
    out = loadings.numbers_a_slot(n, share, most)
    assert ((out >= 0) & (out <= most)).all()
    # Half of the readings' number, unless more was asked for.
    assert (out <= (n // 2 if share <= 0.5 else n)).all()
    assert (out.cumsum() <= share * n.cumsum() + 1e-6).all()
    steady = loadings.numbers_a_slot(np.full(1000, 20), min(share, 0.45), 20)
    assert abs(steady.sum() - min(share, 0.45) * 20000) < 3


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_one_sensor_is_taken_out_by_a_correction_of_rank_one(seed):
    _, J, P, phi, w, noise, numbers, copies = released_path(seed, M=8, N=12, K=3)
    z, made = loadings.released(copies, w, phi, numbers), loadings.design(P, noise, w, phi)
    F, R = loadings.used(*made, numbers)
    solved = loadings.solved([(F, R, z, numbers)], w[:, None] * phi)
    whole = loadings.information(*made, z, numbers)
    for i in range(2):
        rest = np.arange(8) != i
        less = loadings.design(P[rest], noise[rest], w[rest], phi[rest])
        others = z - loadings.released(copies[[i]], w[[i]], phi[[i]], numbers)
        expected = loadings.information(*less, others, numbers)
        own = i, P[i], w[i] * phi[i], np.where(J[i], noise[i], 0.0), np.where(J[i], copies[i], 0.0)
        # Where fewer others have readings than numbers were released, there is no inverse.
        enough = J[rest].sum(axis=0) > numbers
        for got, want in zip(solved.without(*own, *whole), expected, strict=True):
            np.testing.assert_allclose(got[enough], want[enough], rtol=1e-4, atol=1e-5)
