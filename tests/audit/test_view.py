"""The view is what the coordinator saw; the truth is what the owners kept."""

import numpy as np
import pytest

from audit.network import M, N, case, readings, run
from flfl.audit import save_view, truth_path, watch
from flfl.model import loadings


def test_the_view_is_the_public_state_of_the_run():
    model, view = watch(*readings())
    assert view.network.digest == model.network_.digest
    assert len(view.refits) == model.n_rounds_
    np.testing.assert_array_equal(view.refits[-1].P, view.network.P)


def test_the_copies_are_those_that_were_released():
    net, C = case().network, case().copies
    z = loadings.released(C, net.weights, net.phi, net.numbers)
    np.testing.assert_allclose(z, net.z, atol=1e-6)


def test_noise_in_the_copies_has_the_declared_size():
    net, truth = case().network, case()
    noise = (truth.copies - truth.clean)[net.known] / np.sqrt(net.sigma2[net.known])
    assert 0.95 < noise.std() < 1.1


def test_nights_add_up_to_one_release_and_more_refits():
    later = run(nights=4)
    net = later.network
    assert net.n_slots == N
    assert len(net.stops) == 5
    assert len(later.refits) > len(case().refits)
    C = np.where(net.known, later.copies, 0.0)
    z = loadings.released(C, net.weights, net.phi, net.numbers)
    np.testing.assert_allclose(z, net.z, atol=1e-6)


def test_one_owner_shares_nothing():
    X, sensors = readings()
    assert watch(X, sensors, sites=["one"] * M)[1] is None


def test_a_saved_view_holds_what_was_seen_and_apart_from_it_the_truth(tmp_path):
    saved, apart = save_view(tmp_path / "view.npz", case())
    assert apart == truth_path(saved)
    seen, truth = np.load(saved), np.load(apart)
    assert {"z", "Phi", "P", "r", "A", "S", "gaps"} <= set(seen.files)
    assert seen["z"].shape == (N, M // 2)
    assert not set(seen.files) & set(truth.files)
    # What was seen follows from the copies: they are not in it.
    assert np.isnan(truth["copies"]).sum() == seen["gaps"].sum()
    assert not any(np.isin(truth["readings"], seen[name]).any() for name in ("z", "P", "r"))


@pytest.mark.parametrize("sites", [2, 5])
def test_owners_of_several_sensors_are_watched_too(sites):
    X, sensors = readings()
    model, truth = watch(X, sensors, sites=[f"site{i % sites}" for i in range(M)])
    assert truth.secure is (sites > 2)
    column = list(X.columns).index(truth.ids[3])
    np.testing.assert_array_equal(truth.raw[3], X.to_numpy()[:, column])
    assert model.network_.digest == truth.network.digest
