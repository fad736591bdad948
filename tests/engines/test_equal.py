"""The same bits as in-process: of the shared model and of every recovered series."""

import numpy as np
import pytest

from broker import Mosquitto
from flfl.data.synth import synthesize
from flfl.engines import inprocess
from flfl.engines.mqtt import together
from flfl.engines.mqtt.link import Broker
from parties import parties


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    mosquitto = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield Broker("127.0.0.1", mosquitto.port, piece=4096)
    mosquitto.stop()


@pytest.fixture(scope="module")
def network():
    return synthesize(16, 400, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


@pytest.mark.parametrize("secure", [False, True])
def test_same_bits_as_in_process(network, broker, secure):
    coordinator, sites, ledger, run = parties(*network, secure=secure)
    inprocess.run(coordinator, sites, ledger)
    coordinator, others, counted, carried = parties(*network, secure=secure)
    together.run(coordinator, others, counted, broker=broker)
    for name in ("m", "A", "S", "F", "R"):
        mine, theirs = (getattr(r.published.state, name) for r in (carried, run))
        np.testing.assert_array_equal(mine, theirs)
    for one, other in zip(sites, others, strict=True):
        np.testing.assert_array_equal(other.program.recover(), one.program.recover())
    assert (counted.bytes_up, counted.bytes_down) == (ledger.bytes_up, ledger.bytes_down)
    assert counted.messages_up == ledger.messages_up
