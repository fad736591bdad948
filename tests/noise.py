"""A site that shouts: damaged, doubled, huge, foreign and non-finite packets under its own name."""

import random
import time

import numpy as np
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from flfl.protocol.messages import Answer, encode
from flfl.protocol.schema import PROTOCOL
from flfl.transport.link import Message
from flfl.transport.mqtt import packets


def client_of(deployment, name, client_id=""):
    """A plain MQTT client with a site's certificate."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv311)
    if deployment.tls:
        keys = deployment.keys
        client.tls_set(f"{keys}/authority.pem", f"{keys}/{name}.pem", f"{keys}/{name}.key")
    client.connect("localhost", deployment.broker.port)
    client.loop_start()
    return client


def one(message):
    """The one packet of a small message."""
    return packets(message, 2**18)[0]


def rubbish(rng, run="test-1"):
    """One packet that nobody should act on."""
    answer = encode(Answer("run", 1, "finish", "site0", {}), PROTOCOL)
    good = one(Message("answer", run, {"re": "0" * 32}, answer))
    nan = np.array([np.nan, np.inf]).tobytes()
    return rng.choice(
        [
            b"",
            b"\x00" * 40,
            good[: rng.randrange(len(good))],
            bytes(byte ^ (rng.random() < 0.02) for byte in good),
            good,
            one(Message("answer", run, {"re": "0" * 32}, nan)),
            one(Message("here", run)),
            one(Message("ready", "", {"call": "x", "sensors": -1, "readings": 10**12})),
            one(Message("refused", run, {"re": "", "why": "x" * 4000})),
            one(Message("unheard of", run, {}, rng.randbytes(5000))),
            rng.randbytes(1 << 20),
        ]
    )


class Noise:
    """Publishes rubbish on a site's own topic for a while."""

    def __init__(self, deployment, name, seed=0):
        self._deployment, self._name, self._rng = deployment, name, random.Random(seed)

    def make(self, enough):
        """Until ``enough()`` says so."""
        client = client_of(self._deployment, self._name)
        topic = f"flfl/test/from/{self._name}"
        while not enough():
            client.publish(topic, rubbish(self._rng), qos=1)
            time.sleep(0.05)
        client.disconnect()
        client.loop_stop()
