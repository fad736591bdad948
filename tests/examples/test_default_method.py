"""The package equals the default method as the example writes it."""

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl import FLFL
from flfl.ensemble import estimate
from flfl.protocol.noise import NoiseKey

EXAMPLE = Path(__file__).parents[2] / "examples" / "default_method.py"
spec = importlib.util.spec_from_file_location("default_method", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

SITES = np.repeat(["a", "b", "c"], 2)
IDS = [f"s{i}" for i in range(6)]
DRAWS = 2
"""Of held-out readings: an owner of some hundred readings a sensor has two."""


@pytest.fixture(scope="module")
def network():
    """Readings of three owners of two sensors, a jump in one of them: (y, J, places)."""
    rng = np.random.default_rng(5)
    places = rng.random((6, 2))
    common = np.convolve(rng.standard_normal(158), np.ones(9), "valid")
    y = common * (1 + places[:, :1]) + 0.5 * rng.standard_normal((6, 150)) + 20
    y[1, 70:90] += 40
    J = rng.random(y.shape) < 0.8
    J[1, 69:74] = True
    return y, J, places


@pytest.fixture(scope="module")
def package(network):
    """The package's run, and what its personal smoother was given and gave: draws of held-out
    readings, in each owner by owner."""
    y, J, places = network
    calls, finish = [], estimate.finish

    def recorded(Y, used, shared, fit, steps=None):
        curve, fitted = finish(Y, used, shared, fit, steps)
        if steps is None:
            calls.append((used, curve.mean))
        return curve, fitted

    table = pd.DataFrame(np.where(J, y, np.nan).T, columns=IDS)
    sensors = pd.DataFrame({"sensor_id": IDS, "x": places[:, 0], "y": places[:, 1]})
    model = FLFL(effort="quick", rank=4, transformation="none", season=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimate, "finish", recorded)
        model.fit(table, sensors=sensors, sites=list(SITES))
    assert len(calls) == 3 * DRAWS
    return model.network_, [calls[n::DRAWS] for n in range(DRAWS)]


@pytest.fixture(scope="module")
def runs(network, package):
    """The example's runs, whose owners use the same readings at home: one a draw."""
    y, J, places = network
    uses = [np.vstack([used for used, _ in draw]) for draw in package[1]]
    return [example.default_method(y, J, use, SITES, places, _noise, rank=4) for use in uses]


def _noise(i, slot, value, sigma, limited):
    """The noise that the package gives to a reading, or to what is left of a limited one."""
    key = NoiseKey(hashlib.sha256(f"flfl 0 {SITES[i]}".encode()).digest())
    context = ("none", float(sigma), *(["limited"] if limited else []))
    return key.normals(IDS[i], context, np.array([slot]), np.array([value]))[0]


def test_it_fits_in_150_lines_and_imports_nothing_of_the_package():
    text = EXAMPLE.read_text()
    assert len(text.splitlines()) <= 150
    assert "flfl" not in text


def test_the_public_numbers_are_equal(runs, package):
    network, _ = package
    (z, P, r, A, S, scale), known, _ = runs[0]
    same(scale, network.scale)
    same(z, network.z)
    same(P, network.P)
    same(r, network.r)
    same(A, network.dynamics.A)
    same(S, network.dynamics.S)
    for _ in range(3):
        m, _, A, S = example.smooth(*known, A, S)
    same(m, network.inferred.post.mean)


@pytest.mark.parametrize("draw", range(DRAWS))
def test_the_finish_at_home_is_equal(network, runs, package, draw):
    y, (public, _, curves) = network[0], runs[draw]
    for site, (used, curve) in zip("abc", package[1][draw], strict=True):
        own = site == SITES
        centre = (used * y[own]).sum(axis=1, keepdims=True) / used.sum(axis=1, keepdims=True)
        same((curves[own] - centre) / public[-1], curve)


def same(mine, packages):
    np.testing.assert_allclose(mine, packages, rtol=1e-8, atol=1e-9)


def test_the_example_runs(capsys):
    example.main()
    error, baseline = (
        float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()
    )
    assert error < 0.6 * baseline
