"""FedMF: both paths, its rank, its encryption, and what its server can read."""

import numpy as np
import pytest

from federations import agree, by_message, names, readings
from flfl_bench.baselines.factors import Local, start_slots
from flfl_bench.baselines.fedmf import FedMF
from flfl_bench.baselines.paillier import Ciphertext, KeyPair, PrivateKey


@pytest.mark.parametrize("upload", ["full", "part"])
@pytest.mark.parametrize("rounds", [7, 400])
def test_the_batched_path_is_the_object_path(upload, rounds):
    _, traffic = agree(FedMF(rank=3, upload=upload, rounds=rounds), readings())
    assert traffic.rounds >= min(rounds, 20)


def test_full_and_part_uploads_give_the_same_at_other_sizes():
    X = readings().T
    full, part = (FedMF(rank=2, rounds=50, upload=upload).fit(X) for upload in ("full", "part"))
    np.testing.assert_array_equal(full.estimates_, part.estimates_)
    assert full.traffic_.bytes_up > part.traffic_.bytes_up
    assert full.traffic_.bytes_down == part.traffic_.bytes_down


def test_the_start_has_full_rank_and_the_model_uses_it():
    assert (np.linalg.svd(start_slots(50, 10, seed=1), compute_uv=False) > 1e-3).all()
    assert (np.linalg.svd(Local.of(readings(12), names(range(12)), 0).start(10))[1] > 1e-3).all()
    Y = readings(8, rate=0.9)
    estimates, _, _ = by_message(FedMF(rank=3, rounds=300, ridge=1e-3), Y)
    sizes = np.linalg.svd(estimates, compute_uv=False)
    assert sizes[2] > 0.1 * sizes[0]
    assert sizes[3] < 1e-10 * sizes[0]


def test_a_step_too_long_is_a_failure_and_not_a_number():
    with pytest.raises(ArithmeticError, match="rose to"):
        FedMF(learning_rate=50.0).fit(readings().T)


@pytest.fixture(scope="module")
def keys():
    return KeyPair.generate(256)  # short: for tests only


@pytest.mark.parametrize("upload", ["full", "part"])
def test_encrypted_training_equals_plain_training(keys, upload):
    Y, model = readings(4, 20), FedMF(rank=3, rounds=2, upload=upload)
    plain, in_the_clear, _ = by_message(model, Y)
    hidden, traffic, network = by_message(model, Y, keys=keys)
    np.testing.assert_allclose(hidden, plain, atol=1e-4)
    assert np.abs(plain).max() > 1e-3
    assert traffic.messages_up == in_the_clear.messages_up
    indices = 2 * np.isfinite(Y).sum() if upload == "part" else 0
    assert traffic.up["move"] == 64 * in_the_clear.numbers + 4 * indices
    assert (traffic.numbers, in_the_clear.numbers > 0) == (0, True)
    everything = vars(network.server)
    assert not any(isinstance(value, PrivateKey | KeyPair) for value in everything.values())
    assert all(isinstance(entry, Ciphertext) for entry in everything["shared"].flat)
