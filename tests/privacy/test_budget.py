"""The noisy release: its sensitivity bounds what a reading can do, and nothing else leaves."""

import numpy as np
import pandas as pd
import pytest

from flfl import FLFL
from flfl.data.synth import synthesize
from flfl.errors import InputError
from flfl.federation.factors import FactorPlan, RefusedError, release
from flfl.model.shared import smoothers
from flfl.model.shared.windows import Windows
from flfl.privacy import budget


@pytest.fixture(scope="module")
def network():
    return synthesize(16, 300, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


def fit(network, change=None, sites=None, **options):
    """A noisy run, and all totals that the coordinator learned."""
    table, sensors = network
    frame = table.values.copy()
    if change is not None:
        frame = change(frame)
    learned = []
    secret = options.pop("secret", None)
    model = FLFL(effort="quick", **{"epsilon": 3.0, "bounds": (-10.0, 10.0), **options})
    model.secret = secret
    frame.index = pd.date_range("2024-01-01", periods=len(frame), freq="h")
    model.witness = lambda ask, replies: learned.append((ask.kind, dict(replies.total)))
    return model.fit(frame, sensors=sensors, sites=sites), learned


@pytest.mark.parametrize(("length", "nu"), [(1.0, 0.1), (3.0, 0.3), (0.5, 0.03)])
@pytest.mark.parametrize("width", [1, 3])
def test_the_gain_bounds_every_reading_in_every_mask_and_is_reached(length, nu, width):
    rng = np.random.default_rng(0)
    N = 60
    windows = Windows(np.arange(0, N + 1, width), np.ones(N // width, int))
    bound = budget.window_gain(length, nu, windows)
    largest = 0.0
    for rate in (0.02, 0.3, 1.0):
        for _ in range(20):
            J = (rng.random((1, N)) < rate).astype(float)
            J[0, rng.integers(N)] = 1.0
            factor = smoothers.smoother(J, length, nu)
            for t in np.flatnonzero(J[0]):
                unit = np.zeros((1, N))
                unit[0, t] = 1.0
                gain = np.linalg.norm(windows.mean(smoothers.smooth(factor, unit)))
                largest = max(largest, gain)
    assert largest <= bound + 1e-12
    assert largest > 0.95 * bound


def test_one_reading_moves_the_release_by_at_most_the_sensitivity(network):
    """Without noise, brute force: the sums of neighbouring tables."""
    table, _ = network
    plan = FactorPlan(epsilon=1.0, delta=1e-7, bounds=(-3.0, 3.0), transform="none")
    rng = np.random.default_rng(1)
    Y, J = table.values.to_numpy().T[:6], table.known.T[:6].astype(float)
    windows = Windows(np.arange(0, 301, 2), np.full(150, 4))
    scale = release.public_scale(plan)
    B = rng.standard_normal((6, 4)) * 3
    B *= release.room(B, J, windows, (1.0, 0.1))[:, None]
    factor = smoothers.smoother(J, 1.0, 0.1)
    bound = release.sensitivity(plan, scale, (1.0, 0.1), windows, 4)

    def sums(raw):
        calm, _ = release.bounded_units(raw, J, plan)
        return windows.mean(smoothers.smooth(factor, calm / scale)).T @ B

    before, worst = sums(Y), 0.0
    for _ in range(200):
        i = rng.integers(6)
        t = rng.choice(np.flatnonzero(J[i]))
        moved = Y.copy()
        moved[i, t] = rng.choice([-1e6, 1e6])
        worst = max(worst, float(np.linalg.norm(sums(moved) - before)))
    assert 0.3 * bound < worst <= bound


def test_nothing_but_the_one_release_depends_on_readings(network):
    """Other readings in the same places and gaps: every total is the same but the release."""
    rng = np.random.default_rng(3)
    _, first = fit(network)
    _, second = fit(network, lambda f: f.where(f.isna(), rng.uniform(-9, 9, f.shape)))
    assert [kind for kind, _ in first] == [kind for kind, _ in second]
    differing = {
        (kind, name)
        for (kind, a), (_, b) in zip(first, second, strict=True)
        for name in a
        if not np.array_equal(a[name], b[name])
    }
    assert differing == {("open", "g")}


@pytest.mark.parametrize(("n_sites", "enough"), [(2, 1), (4, 3)])
def test_the_noise_that_arrives_is_the_noise_that_was_promised(network, n_sites, enough):
    """The same table with and without (hardly any) noise: the difference has the right size. Two
    sites cannot hide behind each other and bring all of it; four bring shares, of which three are
    enough."""
    delta = 1e-7
    owners = [f"s{i % n_sites}" for i in range(16)]
    model, loud = fit(network, sites=owners, epsilon=1.0, delta=delta)
    _, quiet = fit(network, sites=owners, epsilon=1e7, delta=delta)
    (noisy,), (plain,) = ([t["g"] for k, t in heard if k == "open"] for heard in (loud, quiet))
    sent = np.arange(noisy.shape[1]) < model.windows_.released[:, None]
    s = model.settings_
    plan = FactorPlan(epsilon=1.0, delta=delta, bounds=(-10.0, 10.0), transform="none")
    bound = release.sensitivity(plan, s.scale, (s.length, s.noise), model.windows_, s.rank)
    expected = budget.noise_multiplier(1.0, delta) * bound * np.sqrt(n_sites / enough)
    measured = (noisy - plain)[sent].std()
    assert measured == pytest.approx(expected, rel=4 / np.sqrt(2 * sent.sum()))


def test_the_budget_is_kept_over_runs(network, tmp_path):
    """Another release of the same slots, within one budget, is refused: the first took all."""
    fit(network, account=tmp_path, delta=1e-7)
    fit(network, account=tmp_path, delta=1e-7)  # the same numbers again: nothing new
    with pytest.raises(budget.BudgetError, match="used up epsilon 3"):
        fit(network, account=tmp_path, delta=1e-7, rank=1)
    bigger, _ = fit(network, account=tmp_path, delta=1e-7, epsilon=6.0)
    log = " ".join(line for lines in bigger.site_logs_.values() for line in lines)
    assert "epsilon 6 of 6 is spent" in log


def test_another_budget_has_other_noise(network):
    """The same noise scaled would cancel between two releases."""
    owners = [f"s{i % 4}" for i in range(16)]
    heard = {}
    for epsilon in (1.0, 2.0, 1e7):
        _, learned = fit(network, sites=owners, epsilon=epsilon, delta=1e-7, secret=b"same")
        (heard[epsilon],) = (total["g"] for kind, total in learned if kind == "open")
    first, second = (heard[e] - heard[1e7] for e in (1.0, 2.0))
    sent = first != 0
    assert abs(np.corrcoef(first[sent], second[sent])[0, 1]) < 0.1


def test_little_noise_leaves_a_better_picture_than_much():
    """How much of a slow common signal the published factors explain."""
    rng = np.random.default_rng(0)
    common = np.cumsum(rng.standard_normal(400)) / 4
    X = common[:, None] + 0.5 * rng.standard_normal((400, 16))
    explained = []
    for epsilon in (0.01, 1e6):
        model = FLFL(effort="quick", epsilon=epsilon, bounds=(-15.0, 15.0)).fit(X)
        m = model.remembered_.published.state.m
        fitted = m @ np.linalg.lstsq(m, common - common.mean(), rcond=None)[0]
        explained.append(1 - np.var(common - fitted) / np.var(common))
    assert explained[1] > max(explained[0] + 0.2, 0.8)


def test_a_release_without_noise_voids_a_budget_and_is_refused(network, tmp_path):
    fit(network, account=tmp_path)
    with pytest.raises(RefusedError, match="left under a privacy budget"):
        fit(network, account=tmp_path, epsilon=None, bounds=None)


def test_a_budget_after_a_plain_release_is_refused(network, tmp_path):
    fit(network, account=tmp_path, epsilon=None, bounds=None)
    with pytest.raises(RefusedError, match="before without noise"):
        fit(network, account=tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": None}, "needs the limits"),
        ({"bounds": (5.0, 5.0)}, "needs the limits"),
        ({"delta": 0.5}, "would allow a mechanism"),
        ({"max_exposure": 1.0}, "max_exposure below 1"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(network, options, words):
    with pytest.raises(InputError, match=words):
        fit(network, **options)


def test_composition_is_that_of_the_accounting_library():
    """Two releases: against the library's own composition of loss distributions."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    two = pld.from_gaussian_mechanism(3.0, value_discretization_interval=1e-3).self_compose(2)
    assert budget.epsilon_spent([3.0, 3.0], 1e-6) == pytest.approx(
        two.get_epsilon_for_delta(1e-6), rel=2e-3
    )
