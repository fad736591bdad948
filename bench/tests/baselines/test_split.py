"""Clients and servers share no memory: what one of them knows of another came in a message."""

import pytest

from federations import by_message, readings, shared_memory
from flfl_bench.baselines.fedmf import FedMF
from flfl_bench.baselines.fedrec import FedRec
from flfl_bench.baselines.fedrec_plus import FedRecPlus
from flfl_bench.baselines.rfrec import RFRec


@pytest.mark.parametrize(
    "model",
    [
        FedMF(rank=2, rounds=12),
        FedMF(rank=2, rounds=12, upload="part"),
        FedRec(rank=2, rounds=12),
        FedRecPlus(rank=2, rounds=12, denoisers=2),
        RFRec(rank=2, rounds=12),
    ],
    ids=str,
)
def test_no_two_parties_hold_the_same_memory(model):
    _, _, network = by_message(model, readings())
    assert shared_memory(network) == []
