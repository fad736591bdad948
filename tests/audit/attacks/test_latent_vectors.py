"""With public gaps the rounds' differences give every latent vector; their refits give little."""

import numpy as np
import pytest

from audit.real import masked
from audit.watched import Watched
from flfl.audit.attacks import latent_vectors as attack
from flfl.model.shared import dynamics
from flfl.model.shared.sensor_step import fit_loadings, news_sum, student_weights
from flfl.model.shared.smoothers import smoother
from flfl.model.shared.windows import Windows


def run(windows, M=6, N=240, k=2, rounds=3, seed=0, clip=np.inf):
    """A few rounds with given m: (sums, means, B, u, smoother, J, Y, P of each round)."""
    rng = np.random.default_rng(seed)
    J = (rng.random((M, N)) < 0.6).astype(float)
    truth = rng.standard_normal((N, k)).cumsum(axis=0) / 5
    Y = J * (rng.standard_normal((M, k)) @ truth.T + rng.standard_normal((M, N)))
    B, u = rng.standard_normal((M, k)), rng.random((M, len(windows)))
    factor = smoother(J, 1.5, 0.3)
    none = dynamics.Covariances(np.zeros((1, k, k)), np.zeros((1, k, k)), np.ones((N, 1)))
    means = [np.zeros((N, k))] + [truth + rng.standard_normal((N, k)) for _ in range(rounds - 1)]
    P = [fit_loadings(Y, J, m, none, np.ones(M))[0] for m in means]
    g = [news_sum(Y, J, p, B, u, m, factor, windows, clip) for p, m in zip(P, means, strict=True)]
    return np.array(g), np.array(means), B, u, factor, J, Y, np.array(P)


def errors(found, truth, means):
    """Of every round after the first (rounds - 1, M)."""
    rounds = zip(found, truth, means[1:], strict=True)
    return np.array([attack.relative_errors(p, q, m) for p, q, m in rounds])


def pairs(n_slots, released=2):
    edges = np.arange(0, n_slots + 1, 2)
    return Windows(edges, np.full(len(edges) - 1, released))


def test_every_latent_vector_of_every_round_is_found():
    windows = pairs(240)
    sums, means, B, u, factor, _, _, P = run(windows)
    found = attack.vectors_by_round(sums, means, B, u, factor, windows)
    assert errors(found, P[1:], means).max() < 1e-8


def test_windows_that_release_part_of_the_numbers_do_not_stop_it():
    windows = pairs(240, released=1)
    sums, means, B, u, factor, _, _, P = run(windows)
    found = attack.vectors_by_round(sums, means, B, u, factor, windows)
    assert errors(found, P[1:], means).max() < 1e-6


def test_fewer_sums_than_unknowns_leave_them_open():
    windows = Windows(np.array([0, 120, 240]), np.array([2, 2]))
    sums, means, B, u, factor, _, _, P = run(windows)
    found = attack.vectors_by_round(sums, means, B, u, factor, windows)
    assert np.median(errors(found, P[1:], means)) > 0.1


def test_readings_that_change_between_rounds_do_not_cancel():
    windows = pairs(240)
    sums, means, B, u, factor, _, _, P = run(windows, clip=0.5)
    found = attack.vectors_by_round(sums, means, B, u, factor, windows)
    assert np.median(errors(found, P[1:], means)) > 1e-3


def test_refits_tell_what_lies_in_their_span_and_no_more():
    rng = np.random.default_rng(2)
    means = rng.standard_normal((4, 300, 3))
    inside = rng.standard_normal(3) @ means[1].T
    news = np.stack([inside, rng.standard_normal(300)])
    share = attack.span_share(means, np.ones((4, 2, 300)), news)
    assert share[0] == pytest.approx(1.0)
    # White news: 12 functionals of 300 readings.
    assert share[1] < 3 * 12 / 300


def test_enough_refits_give_the_readings():
    rng = np.random.default_rng(3)
    M, N, k, rounds = 2, 40, 4, 12
    means, J = rng.standard_normal((rounds, N, k)), np.ones((M, N))
    Y = rng.standard_normal((M, N))
    P = np.array([np.linalg.solve(m.T @ m, m.T @ Y.T).T for m in means])
    curve, none = P[-1] @ means[-1].T, np.zeros((rounds, M, k, k))
    many = attack.news_read(attack.read_from_refits(P, means, none, J, 1e-9), Y, curve, J)
    few = attack.news_read(
        attack.read_from_refits(P[-2:], means[-2:], none[-2:], J, 1e-9), Y, curve, J
    )
    assert many.min() > 0.99
    assert few.max() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_beijing(rate):
    X, sensors = masked("D3_beijing_pm25", rate)
    model = Watched(effort="quick").fit(X, sensors=sensors)
    sums, means = model.rounds_seen()
    J, Y, windows, settings = model.stack("J"), model.stack("Y"), model.windows_, model.settings_
    factor = smoother(J, settings.length, settings.noise)
    P = attack.vectors_by_round(sums, means, model.stack("B"), model.stack("u"), factor, windows)
    assert errors(P, model.vectors_[1:], means).max() < 1e-5

    bodies = [ask.body for ask, _ in model.seen_ if ask.kind == "round"]
    spreads, weights = [], []
    for body, before in zip(bodies, model.vectors_[:-1], strict=True):
        cov = dynamics.published_covariances(
            *(body[name] for name in "ASFR"), model.programs_[0].w, settings.gain, windows
        )
        spreads.append(np.tensordot(J @ cov.weights, cov.table, 1))
        squares = (Y - before @ body["m"].T) ** 2 + cov.quadratic(before)
        noise = (J * squares).sum(axis=1) / J.sum(axis=1)
        weights.append(J * student_weights(squares, noise, 4.0))
    curve = P[-1] @ means[-1].T
    bound = attack.span_share(means[1:], np.array(weights), J * (Y - curve))
    read = attack.news_read(
        attack.read_from_refits(P, means[1:], np.array(spreads), J, 1.0), Y, curve, J
    )
    assert bound.max() < 0.4
    assert read.max() < 0.2
