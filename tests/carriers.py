"""The protocol's tests run on every engine: a test that lets parties talk is done once on each."""

import functools

import pytest

import grid
import together
from broker import Mosquitto
from flfl.transport import local
from flfl.transport.mqtt.link import Broker


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory):
    """A real broker, or a plain word that there is none."""
    broker = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield Broker("127.0.0.1", broker.port)
    broker.stop()


def pytest_collection_modifyitems(items):
    """Whole fits say little about a carrier that the protocol's own tests do not: on Flower's grid
    they run with the slow ones."""
    fits = ("TestEstimator", "test_it_learns", "test_early_stop", "test_hidden_readings")
    for item in items:
        if "[flower" in item.name and any(name in item.nodeid for name in fits):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["local", "flower", pytest.param("mqtt", marks=pytest.mark.slow)])
def every_engine(request, monkeypatch):
    """Who carries the messages. Flower's grid is one of this process here; real SuperNodes are in
    tests/service."""
    if request.param == "flower":
        monkeypatch.setattr(local, "run", grid.run)
    if request.param == "mqtt":
        broker = request.getfixturevalue("mosquitto")
        carried = functools.partial(together.run, broker=broker)
        monkeypatch.setattr(local, "run", carried)
    return request.param
