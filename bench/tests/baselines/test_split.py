"""Clients and servers share no memory: what one of them knows of another came in a message."""

import numpy as np
import pytest

from federations import by_message, readings, shared_memory
from flfl_bench.baselines.fedmf import FedMF
from flfl_bench.baselines.fedrec import FedRec
from flfl_bench.baselines.fedrec_plus import FedRecPlus
from flfl_bench.baselines.neural import Readings
from flfl_bench.baselines.rfrec import RFRec


@pytest.mark.parametrize(
    "model",
    [
        FedMF(rank=2, rounds=12),
        FedMF(rank=2, rounds=12, upload="part"),
        FedRec(rank=2, rounds=12),
        FedRecPlus(rank=2, rounds=12, denoisers=2),
        RFRec(rank=2, rounds=12),
        RFRec(rank=2, rounds=12, variant="rfrecf"),
    ],
    ids=str,
)
def test_no_two_parties_hold_the_same_memory(model):
    _, _, network = by_message(model, readings())
    assert shared_memory(network) == []


def test_a_neural_client_holds_its_own_readings_and_no_window_on_all():
    everyone = Readings.of(readings(), np.random.default_rng(0))
    one = everyone.of_sensor(2)
    np.testing.assert_array_equal(one.Z, everyone.Z[2:3])
    assert not any(
        np.may_share_memory(own, all_of_them)
        for own, all_of_them in zip(vars(one).values(), vars(everyone).values(), strict=True)
    )
