"""``metamf``: a server that generates a small private model for every sensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flfl.config import Count, NotNegative, Positive, Whole
from flfl.estimators.base import Array
from flfl.io.sensors import Sensors
from flfl_bench.baselines import neural
from flfl_bench.baselines.federation import Post
from flfl_bench.baselines.neural import jax, jitted, jnp, single

_CLIP = 5.0
"""The longest gradient of the server's weights."""


class Sizes(NamedTuple):
    """Widths: d of a slot's embedding, s of its low form, m of the memory, o of hidden layers."""

    sensors: int
    slots: int
    d: int
    s: int
    m: int
    o: int

    @property
    def hidden(self) -> int:
        """Hidden units of a private network: d/4."""
        return max(1, self.d // 4)


class Net(NamedTuple):
    """``relu(x V + a) W + b``."""

    V: Any
    a: Any
    W: Any
    b: Any


class Theta(NamedTuple):
    """What the server learns: sensors' embeddings, the memory, four generating networks."""

    sensors: Any
    memory: Any
    low: Net
    rise: Net
    layer: Net
    out: Net


class Phi(NamedTuple):
    """One sensor's model: its slots' embeddings ``low rise`` (N x d), and a two-layer network."""

    low: Any
    rise: Any
    weight: Any
    bias: Any
    out: Any
    shift: Any


def start(sizes: Sizes, rng: np.random.Generator) -> Theta:
    """Random weights, scaled by the widths they connect (Xavier)."""

    def normal(*shape: int) -> Any:
        return single(rng.standard_normal(shape) * np.sqrt(2 / sum(shape)))

    def net(width: int) -> Net:
        zeros = (single(np.zeros(n)) for n in (sizes.o, width))
        return Net(normal(sizes.m, sizes.o), next(zeros), normal(sizes.o, width), next(zeros))

    d, s, h = sizes.d, sizes.s, sizes.hidden
    return Theta(
        normal(sizes.sensors, d),
        normal(d, sizes.m),
        net(sizes.slots * s),
        net(s * d),
        net(d * h + h),
        net(h + 1),
    )


def generate(theta: Theta, sensor: Any, sizes: Sizes) -> Phi:
    """The model of one sensor, from its embedding (d,) through the memory and the networks."""
    d, s, h = sizes.d, sizes.s, sizes.hidden
    c = sensor @ theta.memory
    low, rise, layer, out = (
        jax.nn.relu(c @ net.V + net.a) @ net.W + net.b
        for net in (theta.low, theta.rise, theta.layer, theta.out)
    )
    return Phi(
        low.reshape(sizes.slots, s), rise.reshape(s, d), layer[: d * h].reshape(d, h),
        layer[d * h :], out[:h], out[h],
    )  # fmt: skip


def generate_all(theta: Theta, sizes: Sizes) -> Phi:
    """The models of all sensors, stacked."""
    return jax.vmap(lambda sensor: generate(theta, sensor, sizes))(theta.sensors)


def estimates(phi: Phi) -> Any:
    """``relu(low rise weight + bias) out + shift`` for every slot, (N,)."""
    # The three matrices have few columns: this order never builds the N x d embeddings.
    hidden = jax.nn.relu(phi.low @ (phi.rise @ phi.weight) + phi.bias)
    return hidden @ phi.out + phi.shift


def squared_error(phi: Phi, z: Any, train: Any) -> Any:
    """Sum over a sensor's training readings: a client's whole loss."""
    return jnp.sum(jnp.where(train, estimates(phi) - z, 0.0) ** 2)


def joint_loss(theta: Theta, Z: Any, train: Any, sizes: Sizes) -> Any:
    """The sum of all clients' losses, as a function of the server's weights."""
    return jnp.sum(jax.vmap(squared_error)(generate_all(theta, sizes), Z, train))


def server_step(
    theta: Theta, adam: neural.Adam, gradient: Theta, count: Any, rate: Any, decay: Any
) -> tuple[Theta, neural.Adam]:
    """Mean over the readings, decay of the generating networks, a cut to length, Adam."""
    each = jax.tree_util.tree_map
    gradient = each(lambda g: g / count, gradient)
    length = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree_util.tree_leaves(gradient)))
    gradient = each(lambda g: g * jnp.minimum(1.0, _CLIP / jnp.maximum(length, 1e-12)), gradient)
    decayed = Theta(*gradient[:2], *each(lambda g, w: g + decay * w, gradient[2:], theta[2:]))
    return neural.adam_step(theta, decayed, adam, rate)


@jitted
def joint_step(
    theta: Theta, adam: neural.Adam, Z: Any, train: Any, rate: Any, decay: Any, sizes: Sizes
) -> tuple[Theta, neural.Adam]:
    """A round at once: the chain rule makes the joint gradient the pulled-back one."""
    gradient = jax.grad(joint_loss)(theta, Z, train, sizes)
    return server_step(theta, adam, gradient, jnp.sum(train), rate, decay)


@jitted
def joint_estimates(theta: Theta, sizes: Sizes) -> Any:
    """All rows, (M, N)."""
    return jax.vmap(estimates)(generate_all(theta, sizes))


class Together(neural.NeuralBatch):
    """All clients and the server in one joint pass."""

    def __init__(
        self,
        readings: neural.Readings,
        post: Post,
        theta: Theta,
        sizes: Sizes,
        rate: float,
        decay: float,
    ) -> None:
        model = sizes.slots * sizes.s + sizes.s * sizes.d + (sizes.d + 2) * sizes.hidden + 1
        down = sizes.sensors * model
        up = {"gradient": down + sizes.sensors}
        super().__init__(readings, post, (theta, neural.adam_start(theta)), down, up)
        self._sizes, self._steps = sizes, (rate, decay)
        self._data = single(readings.Z), jnp.asarray(readings.train)

    def predict(self, state: neural.Tree) -> Array:
        """Estimates (M, N)."""
        return neural.double(joint_estimates(state[0], self._sizes))

    def step(self) -> neural.Tree:
        """The weights and Adam's state after one more round."""
        return joint_step(*self.state, *self._data, *self._steps, self._sizes)


@dataclass(kw_only=True, eq=False, repr=False)
class MetaMF(neural.NeuralRecoverer):
    """A meta network on the server generates every sensor's embeddings of the slots and network.

    Sensor i is sent ``Phi_i``, estimates its readings by ``relu(E_i W_i + b_i) w_i + v_i`` and
    uploads the gradient of its squared error; the server pulls it back into its own weights.

    **The server can compute every recovered series itself**, as it generates the models.

    Departures from the original: standardised readings, all of a sensor's readings in each round
    instead of batches of 64 (so longer steps and less decay), and narrow generators: 512 hidden
    units learn every sensor by heart where there are 35 of them. With ``rank=8`` a private network
    has two hidden units, and stays at the mean on some tables.

    Parameters
    ----------
    rank : width d of a slot's embedding (a private network has d/4 hidden units)
    low_rank : width s of the generated embeddings before they are raised to d
    memory : width m of the memory
    hidden : width o of the generating networks
    learning_rate : of Adam
    decay : weight decay of the generating networks
    rounds : rounds at most; the run stops early when readings kept back say so
    random_state : seed

    Examples
    --------
    >>> MetaMF(rounds=5).get_params()["rank"]
    32
    """

    rank: Count = 32
    low_rank: Count = 8
    memory: Count = 32
    hidden: Count = 16
    learning_rate: Positive = 0.02
    decay: NotNegative = 0.0001
    rounds: Count = 300
    random_state: Whole = 0

    def at_once(
        self, readings: neural.Readings, sensors: Sensors, post: Post
    ) -> neural.NeuralBatch:
        """All clients and the server."""
        M, N = readings.Z.shape
        sizes = Sizes(M, N, self.rank, self.low_rank, self.memory, self.hidden)
        theta = start(sizes, np.random.default_rng([self.random_state, 1]))
        return Together(readings, post, theta, sizes, self.learning_rate, self.decay)

    def _remark(self, readings: neural.Readings) -> str:
        return (
            "metamf: the server generates every sensor's model, so it can compute every estimate"
            " itself; uploads carry neither noise nor encryption"
        )
