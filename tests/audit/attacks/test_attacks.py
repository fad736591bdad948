"""Each attack reads what it can, and no more."""

from dataclasses import replace

import numpy as np
import pytest

from audit.network import case, run
from flfl.audit.attacks import (
    Channel,
    components,
    everything_else,
    gaussian,
    known_sample,
    refits,
    states,
)
from flfl.audit.report import read
from flfl.model.state_space import Dynamics, stationary

COORDINATOR = {
    "by slot": gaussian.by_slot,
    "with memory": gaussian.with_memory,
    "heavy-tailed": gaussian.heavy_tailed,
    "known sample": known_sample.run,
    "refits": refits.run,
}


def scores(attack, of, copies=False):
    guess = attack(of, copies).value
    at = of.network.known & np.isfinite(guess)
    return read(of.wanted.residual, guess, at)


def tiny(seed=0):
    """Four sensors, two numbers a slot, one factor."""
    rng = np.random.default_rng(seed)
    n = 6
    known = rng.random((4, n)) < 0.8
    heard = Channel(
        rng.standard_normal((n, 2)), np.full(n, 2), rng.standard_normal((4, 2)), known,
        np.full((4, n), 0.3) * known, rng.standard_normal((4, 1)), np.array([0.5, 1.0, 0.7, 0.9]),
        Dynamics(np.array([[0.8]]), np.array([[0.4]])),
    )  # fmt: skip
    return heard


def test_factors_are_those_of_dense_conditioning():
    heard = tiny()
    n = len(heard.z)
    noise = np.where(heard.known, heard.r[:, None] + heard.sigma2, 0.0)
    found = states(heard, heard.P, noise, heard.dynamics)
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    prior = 0.8**lags * stationary(heard.dynamics.A, heard.dynamics.S)[0, 0]
    E = np.zeros((2 * n, n))
    R = np.zeros((2 * n, 2 * n))
    for t in range(n):
        B = heard.B.T * heard.known[:, t]
        E[2 * t : 2 * t + 2, t] = (B @ heard.P)[:, 0]
        R[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = B @ np.diag(noise[:, t]) @ B.T
    gain = prior @ E.T @ np.linalg.inv(E @ prior @ E.T + R + 1e-9 * np.eye(2 * n))
    np.testing.assert_allclose(found[:, 0], gain @ heard.z.ravel(), atol=1e-6)


@pytest.mark.parametrize("name", COORDINATOR)
def test_the_copies_tell_more_than_the_sums(name):
    messages, copies = (scores(COORDINATOR[name], case(), which) for which in (False, True))
    assert (messages < copies + 0.05).all()
    assert np.median(messages) < 0.5 * np.median(copies)


@pytest.mark.parametrize("name", COORDINATOR)
def test_without_noise_the_coordinator_reads_more(name):
    private, trusted = (scores(COORDINATOR[name], case(beta)) for beta in (1.0, 0.0))
    assert np.median(trusted) > 1.4 * np.median(private)
    # One number for two readings: even then it does not read most of a typical sensor.
    assert np.median(trusted) < 0.5


def test_memory_helps_where_residuals_have_one():
    slot, memory = (scores(attack, case()) for attack in (gaussian.by_slot, gaussian.with_memory))
    assert np.median(memory) > 1.1 * np.median(slot)


def test_spikes_are_read_better_by_heavy_tails():
    """A copy with a spike that a Gaussian reader puts down to everybody."""
    one = case(0.0)
    net = one.network
    C = np.where(net.known, one.clean, 0.0)
    C[2, 100] += 8.0
    used = np.arange(net.z.shape[1]) < net.numbers[:, None]
    z = np.where(used, C.T @ (net.weights[:, None] * net.phi), 0.0)
    spiky = replace(one, network=replace(net, z=z))
    plain = gaussian.by_slot(spiky, False).value[:, 100]
    heavy = gaussian.heavy_tailed(spiky, False).value[:, 100]
    assert heavy[2] > 1.5 * plain[2] > 0
    assert np.abs(np.delete(heavy, 2)).mean() < 0.8 * np.abs(np.delete(plain, 2)).mean()


def test_components_undo_a_mixture_that_can_be_undone():
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(3000, 4))
    found = components.components(sources @ rng.standard_normal((4, 4)))
    alike = np.abs(np.corrcoef(found.T, sources.T)[:4, 4:])
    assert alike.max(axis=0).min() > 0.95


def test_components_of_half_as_many_sums_tell_little():
    assert np.median(scores(components.run, case())) < 0.2


def test_exact_loadings_of_few_slots_would_tell_copies():
    """Why loadings are rounded: with all digits, k numbers of few copies are k equations."""
    few = case()
    start = few.refits[-1]
    plain = scores(gaussian.by_slot, few)
    rounded = scores(refits.run, few)
    np.testing.assert_allclose(scores(refits.run, replace(few, refits=())), plain, atol=1e-9)
    assert np.median(rounded) >= np.median(plain) - 0.02
    # k equations in n copies tell k / n of them at the most, and rounding takes part of that.
    k, n = start.P.shape[1], few.network.known.sum(axis=1).mean()
    assert np.median(rounded) - np.median(plain) < 2 * k / n


def test_everybody_else_gets_the_copies_and_nothing_else():
    x, seen = everything_else.own_copies(case(), copies=False)
    assert seen.sum() == case().network.known.sum()
    np.testing.assert_allclose(x[seen], case().copies[seen], atol=1e-6)


def test_without_noise_everybody_else_reads_everything():
    assert scores(everything_else.everybody, case(0.0)).min() > 0.95
    guess = everything_else.everybody(case(0.0), False)
    assert read(case(0.0).wanted.residual, guess.value, case(0.0).network.known).min() > 0.95


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_one_reading_shows_about_what_the_bound_says(beta):
    one = run(added_error=beta)
    guess = everything_else.all_but_one(one, False).value
    found = read(one.wanted.surprise, guess, one.network.known)
    bound = 1 / (1 + beta**2)
    assert 0.4 * bound < np.median(found) < bound + 0.05
    assert found.max() < bound + 0.15
