"""The bound on epsilon, on a run's own release: kept by the right noise, refuted by too little."""

import numpy as np
import pytest

from flfl.audit.attacks import noisy_release
from flfl.audit.attacks.epsilon_bound import lower_bound
from flfl.audit.view import listen
from flfl.data.synth import synthesize
from flfl.federation.factors import release
from flfl.privacy.budget import noise_multiplier


@pytest.fixture(scope="module")
def view():
    table, sensors = synthesize(
        16, 300, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0)
    )
    owners = [f"s{i % 4}" for i in range(16)]
    settings = {"epsilon": 2.0, "delta": 1e-6, "bounds": (-10, 10)}
    return listen(table.values, sensors, sites=owners, **settings)[1]


@pytest.mark.parametrize(("factor", "kept"), [(1.0, True), (0.2, False)])
def test_the_release_keeps_its_promise_and_less_noise_would_not(view, factor, kept):
    change = noisy_release.largest_change(view, np.random.default_rng(0))
    size = np.linalg.norm(change)
    plan, smoothing = view.plan, (view.length, view.noise)
    bound = release.sensitivity(plan, view.scale, smoothing, view.windows, view.m.shape[1])
    assert 0.3 * bound < size <= bound
    sigma = factor * noise_multiplier(2.0, 1e-6) * bound
    line = change[np.abs(change) > 1e-6 * size] / size
    draws = [noisy_release.draws(sigma, 4, plan.noise_sites, line, 4000) for _ in range(2)]
    found = lower_bound(draws[0], size + draws[1], 1e-6)
    assert found <= 2.0 if kept else found > 2.0
