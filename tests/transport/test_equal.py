"""The same bits as in-process: of all that is public, and of every site's state."""

import numpy as np
import pytest

from broker import Mosquitto
from flfl.config import BrokerSettings
from flfl.datasets.synthetic import synthesize
from flfl.transport import local
from parties import assert_same_network, parties

pytest.importorskip("paho.mqtt")
import together


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    mosquitto = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield BrokerSettings(host="127.0.0.1", port=mosquitto.port, plaintext=True, piece=4096)
    mosquitto.stop()


@pytest.fixture(scope="module")
def network():
    return synthesize(8, 200, rank=2, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


@pytest.mark.parametrize("secure", [False, True])
def test_same_bits_as_in_process(network, broker, secure):
    coordinator, sites, traffic, run = parties(*network, secure=secure)
    local.run(coordinator, sites, traffic)
    coordinator, others, counted, carried = parties(*network, secure=secure)
    together.run(coordinator, others, counted, broker=broker)
    assert_same_network(carried.network, run.network)
    for site in others:
        assert site.program.finished
        assert_same_network(site.program.state.network, run.network)
    assert (counted.bytes_up, counted.bytes_down) == (traffic.bytes_up, traffic.bytes_down)
    assert counted.messages_up == traffic.messages_up
