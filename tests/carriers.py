"""The protocol's tests run on every transport of the core: once in one process, once over MQTT."""

import functools

import pytest

from broker import Mosquitto
from flfl.config import BrokerSettings
from flfl.transport import local


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory):
    """A real broker, or a skip that says that there is none."""
    broker = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield BrokerSettings(host="127.0.0.1", port=broker.port, plaintext=True)
    broker.stop()


@pytest.fixture(params=["local", pytest.param("mqtt", marks=pytest.mark.slow)])
def every_engine(request, monkeypatch):
    """Who carries the messages. Flower has tests of its own, in tests/transport."""
    if request.param == "mqtt":
        pytest.importorskip("paho.mqtt")
        import together

        broker = request.getfixturevalue("mosquitto")
        monkeypatch.setattr(local, "run", functools.partial(together.run, broker=broker))
    return request.param
