"""FedRec and FedRec++: both paths, what is made up, and what is taken out again."""

import numpy as np
import pytest

from federations import agree, by_message, names, readings
from flfl_bench.baselines.factors import Local, start_slots
from flfl_bench.baselines.fedrec import FedRec, Filling, own_vectors
from flfl_bench.baselines.fedrec_plus import FedRecPlus


@pytest.mark.parametrize("rate", [0.3, 0.8])
@pytest.mark.parametrize("filling", [0.0, 0.5, 3.0])
def test_the_batched_path_is_the_object_path(rate, filling):
    model = FedRec(rank=3, filling=filling, rounds=45, mean_rounds=20)
    estimates, _ = agree(model, readings(rate=rate))
    assert np.abs(estimates).max() > 0.5


@pytest.mark.parametrize("denoisers", [1, 2, 6, 9])
@pytest.mark.parametrize("filling", [0.0, 1.0, 3.0])
def test_denoising_takes_out_all_that_was_made_up(denoisers, filling):
    """On real messages: the noise is drawn, sent, added up and subtracted."""
    Y = readings(rate=0.3)
    options = {"rank": 3, "rounds": 35, "mean_rounds": 10}
    clean, _, _ = by_message(FedRec(**options, filling=0.0), Y)
    model = FedRecPlus(**options, filling=filling, denoisers=denoisers)
    denoised, traffic = agree(model, Y)
    np.testing.assert_allclose(denoised, clean, atol=1e-10)
    assert (traffic.up["noise"] > 0) == (filling > 0 and denoisers < 6)


def test_filling_changes_the_result_and_denoising_undoes_that():
    Y = readings(rate=0.3)
    options = {"rank": 3, "rounds": 35, "filling": 1.0}
    filled, _, _ = by_message(FedRec(**options), Y)
    denoised, _, _ = by_message(FedRecPlus(**options), Y)
    assert np.abs(filled - denoised).max() > 0.05


def test_fillings_are_fresh_free_slots_as_many_as_there_are():
    local = Local.of(readings(rate=0.3), names(range(6)), 0)
    filling = Filling(FedRec(filling=1.0), local)
    first, second = filling.draw().copy(), filling.draw().copy()
    assert not ((first + second) * local.train.J).any()
    assert (first.sum(axis=1) == local.train.per_sensor[:, 0]).all()
    assert (first != second).any(axis=1).all()
    everywhere = Filling(FedRec(filling=9.0), local).draw()
    np.testing.assert_array_equal(everywhere, 1 - local.train.J)


def test_own_vectors_are_plain_gradient_steps():
    local = Local.of(readings(), names(range(6)), 0)
    Q, P = start_slots(150, 3, seed=0, spread=1.0), local.start(3)
    stepped = P
    for _ in range(4):
        errors = local.train.residual(stepped, Q) @ Q / local.train.per_sensor
        stepped = stepped + 0.3 * (errors - 0.05 * stepped)
    np.testing.assert_allclose(own_vectors(local.train, P, Q, 0.3, 0.05, 4), stepped, atol=1e-12)


def test_the_server_cannot_tell_made_up_rows_by_their_number():
    """With all free slots filled, every upload names every slot."""
    Y = readings(rate=0.6)
    _, traffic, _ = by_message(FedRec(rank=2, filling=2.0, rounds=10), Y)
    assert traffic.up["gradient"] == 10 * Y.size * (2 + 1) * 4


@pytest.mark.parametrize("method", [FedRec, FedRecPlus])
def test_a_step_too_long_is_a_failure_and_not_a_number(method):
    with pytest.raises(ArithmeticError, match="rose to"):
        method(learning_rate=50.0).fit(readings().T)
