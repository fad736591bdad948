"""What ``fesog`` and ``fedgnn`` share: attention over neighbours and slots, and Laplace noise.

Everything here is what one client computes; ``jax.vmap`` makes all clients of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flfl.estimators.owners import partition
from flfl.io.sensors import Sensors
from flfl.paper.graph import distances, neighbor_weights
from flfl_bench.baselines.federation import Mask
from flfl_bench.baselines.neural import Readings, Tree, jax, jnp, single

_LEAK = 0.1


class Layer(NamedTuple):
    """Attention: scores ``leaky(a . W x_self + b . W x_other)``, values ``V x_other``."""

    W: Any
    V: Any
    a: Any
    b: Any


class Graph(NamedTuple):
    """Neighbours of every sensor inside its region.

    Attributes
    ----------
    ids : (M, K) their numbers, zero where there are fewer than K
    present : (M, K) which of these are meant
    """

    ids: NDArray[np.int32]
    present: Mask


def region_graph(sensors: Sensors, n_neighbors: int) -> Graph:
    """The nearest neighbours inside each region: what stands in for social links.

    Examples
    --------
    >>> region_graph(Sensors(("a", "b")), 2).present.any()
    np.False_
    """
    M = len(sensors.ids)
    linked = np.zeros((M, M), dtype=bool)
    if sensors.coordinates is not None and sensors.kind is not None:
        regions = partition(sensors).regions
        for region in np.unique(regions):
            here = np.flatnonzero(regions == region)
            apart = distances(sensors.coordinates[here], sensors.kind)
            linked[np.ix_(here, here)] = neighbor_weights(apart, n_neighbors) > 0
    order = np.argsort(~linked, axis=1, kind="stable")[:, :n_neighbors]
    present = np.take_along_axis(linked, order, axis=1)
    return Graph(np.where(present, order, 0).astype(np.int32), present)


def start_layer(d: int, rng: np.random.Generator) -> Layer:
    """Random weights that keep the length of what passes through."""
    scale = 1 / np.sqrt(d)
    W, V = (single(scale * rng.standard_normal((d, d))) for _ in range(2))
    return Layer(W, V, *(single(0.1 * rng.standard_normal(d)) for _ in range(2)))


def attend(layer: Layer, own: Any, others: Any, present: Any) -> Any:
    """What a node (d,) takes from others (n, d), by a softmax over those present: zero of none.

    The scores are sums of one number a node, so all clients and slots are one M x N table.
    """
    scores = (own @ layer.W) @ layer.a + others @ (layer.W @ layer.b)
    weights = masked_softmax(jnp.where(scores > 0, scores, _LEAK * scores), present)
    return (weights @ others) @ layer.V


def masked_softmax(scores: Any, present: Any) -> Any:
    """``exp(s_i) / sum_present exp(s_j)``, zero for what is not present, and all zero of none."""
    top = jax.lax.stop_gradient(jnp.max(scores, where=present, initial=-1e30))
    shares = jnp.where(present, jnp.exp(jnp.where(present, scores - top, 0.0)), 0.0)
    total = jnp.sum(shares)
    return shares / jnp.where(total > 0, total, 1.0)


class Home(NamedTuple):
    """What a client has: readings, the order of its slots with unobserved ones first, neighbours.

    ``unobserved`` is how many they are, ``present`` which of K neighbour rows are in use.
    """

    z: Any
    train: Any
    order: Any
    unobserved: Any
    present: Any


def homes_of(readings: Readings, present: Mask) -> Home:
    """What every client has, stacked."""
    order = np.argsort(readings.train, axis=1, kind="stable").astype(np.int32)
    unobserved = (~readings.train).sum(axis=1).astype(np.int32)
    return Home(
        single(readings.Z), *(jnp.asarray(a) for a in (readings.train, order, unobserved, present))
    )


class Dice(NamedTuple):
    """One client's random numbers for one round: where its pseudo slots lie, the noise's key."""

    places: Any
    key: Any


def client_streams(seed: int, clients: int) -> list[np.random.Generator]:
    """A random stream for each client."""
    return [np.random.default_rng([seed, 2, client]) for client in range(clients)]


def roll(stream: np.random.Generator, pseudo: int) -> Dice:
    """The next round's numbers."""
    # Drawn here and not in JAX, where compiling a draw takes a second, whatever its size.
    return Dice(stream.random(pseudo, np.float32), stream.integers(2**32, size=2, dtype=np.uint32))


def roll_all(streams: Sequence[np.random.Generator], pseudo: int) -> Dice:
    """Every client's, stacked."""
    return Dice(*map(np.stack, zip(*(roll(stream, pseudo) for stream in streams), strict=True)))


def rows_sent(readings: Readings, pseudo: int) -> NDArray[np.int64]:
    """Slots in each client's upload, (M,)."""
    seen = readings.train.sum(axis=1)
    return seen + np.minimum(pseudo, readings.train.shape[1] - seen)


def pseudo_slots(dice: Dice, order: Any, unobserved: Any) -> Any:
    """Unobserved slots: one from each of as many equal parts of them as there are places.

    ``order`` (N,) has the ``unobserved`` ones first. Where there are fewer of them than places,
    all are chosen, and N, which is no slot, fills the rest.
    """
    number = len(dice.places)
    parts, part = jnp.minimum(number, unobserved), jnp.arange(number)
    first, after = (p * unobserved // jnp.maximum(parts, 1) for p in (part, part + 1))
    at = first + (dice.places * (after - first)).astype(np.int32)
    return jnp.where(part < parts, order[jnp.clip(at, 0, after - 1)], len(order))


def among(slots: Any, size: int) -> Any:
    """The mask (size,) of these slots."""
    return jnp.zeros(size, bool).at[slots].set(True, mode="drop")


def noise_like(tree: Tree, dice: Dice) -> Tree:
    """Laplace noise of scale 1 (variance 2), drawn for every element of every array.

    Each takes 16 random bits: drawing is most of a round's work, and the steps of such noise are
    far below what matters for accuracy. It is a simulation's noise, not a secret's.
    """
    arrays, shape = jax.tree_util.tree_flatten(tree)
    ends = np.cumsum([array.size for array in arrays])
    key = jax.random.wrap_key_data(dice.key, impl="threefry2x32")
    words = jax.random.bits(key, ((int(ends[-1]) + 1) // 2,), np.uint32)
    halves = jnp.concatenate([words & 0xFFFF, words >> 16])
    u = (halves.astype(np.float32) + 0.5) / 32768.0 - 1.0
    parts = jnp.split((-jnp.sign(u) * jnp.log1p(-jnp.abs(u)))[: ends[-1]], ends[:-1])
    drawn = [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]
    return jax.tree_util.tree_unflatten(shape, drawn)
