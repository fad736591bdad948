"""Two rounds of FedMF in the clear give every reading away; in ciphertext they give none."""

import numpy as np
import pytest

from federations import names, readings
from flfl.audit.attacks.plain_inversion import score
from flfl.protocol.traffic import Traffic
from flfl_bench.attacks.fedmf_inversion import invert
from flfl_bench.baselines.factors import Local
from flfl_bench.baselines.federation import Message, Post
from flfl_bench.baselines.fedmf import FedMF
from flfl_bench.baselines.paillier import KeyPair


class Wire(Post):
    """Keeps what passes, as the server sees it."""

    def __init__(self):
        super().__init__(Traffic())
        self.seen = []

    def up(self, message: Message) -> Message:
        self.seen.append(message)
        return super().up(message)

    def down(self, message: Message) -> Message:
        self.seen.append(message)
        return super().down(message)

    def all(self, kind, key):
        return [message.body[key] for message in self.seen if message.kind == kind]


def watch(model, Y, rounds=2, keys=None):
    wire = Wire()
    network = model.by_message(Y, names(Y), wire, keys)
    for number in range(rounds):
        network.round(number)
    M = len(Y)
    factors, moves = wire.all("factors", "Q"), wire.all("move", "values")
    density = float(wire.all("begin", "density")[0][0])
    return [((factors[i], factors[M + i]), (moves[i], moves[M + i])) for i in range(M)], density


def skewed(sensors, slots):
    Y = readings(sensors, slots)
    return np.exp(0.5 * (Y - np.nanmean(Y, axis=1, keepdims=True)))


def attack(model, seen, density):
    plan = {"rate": model.learning_rate, "ridge": model.ridge, "density": density}
    return np.array([invert(Q, moves, **plan) for Q, moves in seen])


def truth(Y):
    local = Local.of(Y, names(Y), 0)
    return np.where(local.train.J > 0, local.values, np.nan)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_every_reading_in_use_is_recovered_from_plain_uploads(ridge):
    Y, model = skewed(6, 150), FedMF(rank=4, ridge=ridge)
    found = score(attack(model, *watch(model, Y)), truth(Y))
    assert found["readings"] == np.isfinite(truth(Y)).sum()
    assert found["exposed"] == 1.0
    assert found["relative_error"] < 1e-6


def test_float32_messages_do_not_help():
    Y, model = skewed(6, 150), FedMF(rank=4)
    seen, density = watch(model, Y)
    rounded = [
        (Q, tuple(move.astype(np.float32).astype(float) for move in moves)) for Q, moves in seen
    ]
    assert score(attack(model, rounded, density), truth(Y))["exposed"] > 0.9


def test_ciphertexts_give_nothing():
    """Read as the numbers that they are, ciphertexts are as good as noise: guessing is no worse."""
    Y, model, keys = skewed(3, 20), FedMF(rank=3), KeyPair.generate(256)
    seen, density = watch(model, Y, keys=keys)
    largest = float(keys.public.n**2)

    def as_numbers(sealed):
        return np.array([item.value / largest - 0.5 for item in sealed.flat]).reshape(sealed.shape)

    numbers = [(tuple(map(as_numbers, Q)), tuple(map(as_numbers, moves))) for Q, moves in seen]
    found = score(attack(model, numbers, density), truth(Y))
    assert found["exposed"] <= 0.1
    assert found["relative_error"] > 0.9
    # The slots are hidden as well: no row stands out, and no two zeros are alike.
    values = [item.value for item in seen[0][1][0].flat]
    assert len(set(values)) == len(values)
    # The same view, opened with the key that the server does not have, gives all away.
    opened = [
        (tuple(map(keys.private.open, Q)), tuple(map(keys.private.open, moves)))
        for Q, moves in seen
    ]
    assert score(attack(model, opened, density), truth(Y))["exposed"] > 0.8
