"""``fedgnn``: a local graph network whose gradients are cut and noised, with fixed neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flfl.config import Count, NotNegative, Positive, Whole
from flfl.estimators.base import Array
from flfl.io.sensors import Sensors
from flfl_bench.baselines import attention, neural
from flfl_bench.baselines.federation import WORD, Post
from flfl_bench.baselines.neural import jax, jitted, jnp, single


class Shared(NamedTuple):
    """What the server holds: the attention layer and the slots Q (N x d)."""

    layer: attention.Layer
    Q: Any


class Private(NamedTuple):
    """What a client keeps: its own embedding, Adam's state for it, and its neighbours' embeddings.

    ``met`` says which of the K neighbour rows were received.
    """

    own: Any
    adam: neural.Adam
    others: Any
    met: Any


class Rules(NamedTuple):
    """Cut of the uploaded gradients' elements, Laplace scale, and the length of steps."""

    clip: Any
    noise: Any
    rate: Any


def start_shared(slots: int, d: int, rng: np.random.Generator) -> Shared:
    """Small slots, so that the first estimates are near each sensor's mean."""
    return Shared(attention.start_layer(d, rng), single(0.1 * rng.standard_normal((slots, d))))


def start_private(stream: np.random.Generator, d: int, n_neighbors: int) -> Private:
    """A client's own embedding; it has met no neighbour yet."""
    own = single(stream.standard_normal(d))
    nobody = jnp.zeros((n_neighbors, d), np.float32), jnp.zeros(n_neighbors, bool)
    return Private(own, neural.adam_start(own), *nobody)


def embed(shared: Shared, own: Any, private: Private, home: attention.Home) -> Any:
    """``h_i``: the own node, plus attention over its slots, plus attention over its neighbours."""
    by_slots = attention.attend(shared.layer, own, shared.Q, home.train)
    return own + by_slots + attention.attend(shared.layer, own, private.others, private.met)


def squared_error(shared: Shared, own: Any, private: Private, home: attention.Home) -> Any:
    """A client's loss: the sum, as the mean's gradients would drown in the noise."""
    estimates = shared.Q @ embed(shared, own, private, home)
    return jnp.sum(jnp.where(home.train, estimates - home.z, 0.0) ** 2)


def client_part(
    shared: Shared,
    private: Private,
    home: attention.Home,
    dice: attention.Dice,
    normals: Any,
    rules: Rules,
) -> tuple[Shared, Any, Private]:
    """A client's round: gradients it uploads, the slots they are about, and what it keeps.

    Pseudo slots get gradients drawn from a normal distribution with the mean and the covariance
    of the real ones.
    """
    gradient, for_own = jax.grad(squared_error, argnums=(0, 1))(shared, private.own, private, home)
    chosen = attention.pseudo_slots(dice, home.order, home.unobserved)
    fake = _alike(gradient.Q, home.train, normals)
    Q = gradient.Q.at[chosen].set(fake, mode="drop")
    touched = home.train | attention.among(chosen, len(home.z))
    noisy = jax.tree_util.tree_map(
        lambda g, noise: jnp.clip(g, -rules.clip, rules.clip) + rules.noise * noise,
        Shared(gradient.layer, Q),
        attention.noise_like(gradient, dice),
    )
    upload = noisy._replace(Q=jnp.where(touched[:, None], noisy.Q, 0.0))
    mean = for_own / jnp.maximum(jnp.sum(home.train), 1)
    own, adam = neural.adam_step(private.own, mean, private.adam, rules.rate)
    return upload, touched, private._replace(own=own, adam=adam)


def _alike(rows: Any, real: Any, normals: Any) -> Any:
    """As many rows as normals (n x d), with the mean and the covariance of the real rows."""
    n = jnp.maximum(jnp.sum(real), 1)
    mean = jnp.where(real, 1.0, 0.0) @ rows / n
    apart = jnp.where(real[:, None], rows - mean, 0.0)
    covariance = apart.T @ apart / n
    # The rows are nearly parallel: a little more in every direction, and it has a root.
    more = 1e-3 * jnp.trace(covariance) + 1e-12
    root = jnp.linalg.cholesky(covariance + more * jnp.eye(len(covariance), dtype=np.float32))
    return mean + normals @ root.T


def server_step(
    shared: Shared, adam: neural.Adam, sums: Shared, clients: Any, observers: Any, rate: Any
) -> tuple[Shared, neural.Adam]:
    """The layer by the mean over clients, a slot by the mean over those who sent it."""
    layer = jax.tree_util.tree_map(lambda g: g / clients, sums.layer)
    mean = Shared(layer, sums.Q / jnp.maximum(observers, 1)[:, None])
    return neural.adam_step(shared, mean, adam, rate)


@jitted
def all_estimates(shared: Shared, private: Private, homes: attention.Home) -> Any:
    """All rows, (M, N)."""
    h = jax.vmap(lambda own, home: embed(shared, own.own, own, home))(private, homes)
    return h @ shared.Q.T


@jitted
def joint_step(
    shared: Shared,
    adam: neural.Adam,
    private: Private,
    homes: attention.Home,
    dice: attention.Dice,
    normals: Any,
    rules: Rules,
) -> tuple[Shared, neural.Adam, Private]:
    """A round of all clients and the server."""
    uploads, touched, private = jax.vmap(
        lambda one, home, drawn, normal: client_part(shared, one, home, drawn, normal, rules)
    )(private, homes, dice, normals)
    ones = jnp.ones(len(touched), np.float32)
    # A product, not a sum: XLA would draw the noise again inside the sum.
    sums = jax.tree_util.tree_map(lambda g: jnp.tensordot(ones, g, 1), uploads)
    observers = jnp.sum(touched, axis=0)
    return *server_step(shared, adam, sums, jnp.sum(ones), observers, rules.rate), private


class Together(neural.NeuralBatch):
    """All clients, the server and the third party, which knows who is near whom, at once."""

    def __init__(
        self,
        model: FedGNN,
        readings: neural.Readings,
        shared: Shared,
        graph: attention.Graph,
        post: Post,
    ) -> None:
        M, d = len(readings.Z), model.rank
        self._streams = attention.client_streams(model.random_state, M)
        alone = [start_private(stream, d, graph.ids.shape[1]) for stream in self._streams]
        private = jax.tree_util.tree_map(lambda *parts: jnp.stack(parts), *alone)
        layer = sum(a.size for a in shared.layer)
        touched = int(attention.rows_sent(readings, model.pseudo).sum())
        up = {"rows": touched, "gradient": M * layer + d * touched}
        state = (shared, neural.adam_start(shared), private)
        super().__init__(readings, post, state, M * (layer + shared.Q.size), up)
        self._graph, self._homes = graph, attention.homes_of(readings, graph.present)
        self._pseudo, self._refresh = model.pseudo, model.refresh
        self._rules = Rules(model.clip, model.noise, model.learning_rate)

    def predict(self, state: neural.Tree) -> Array:
        """Estimates (M, N)."""
        shared, _, private = state
        return neural.double(all_estimates(shared, private, self._homes))

    def round(self, number: int) -> None:
        """As for all, after the neighbours were met where it is time."""
        if number > 0 and number % self._refresh == 0:
            shared, adam, private = self.state
            M, d = private.own.shape
            ids, present = (jnp.asarray(a) for a in self._graph)
            others = jnp.where(present[..., None], private.own[ids], 0.0)
            self.state = (shared, adam, private._replace(others=others, met=present))
            self.post.count_up("embedding", WORD * M * d, M)
            self.post.count_down("neighbors", WORD * d * int(self._graph.present.sum()), M)
        super().round(number)

    def step(self) -> neural.Tree:
        """The state after one more round."""
        d = self.state[2].own.shape[1]
        rolled = [
            (attention.roll(stream, self._pseudo), _normals(stream, self._pseudo, d))
            for stream in self._streams
        ]
        dice = attention.Dice(
            *(np.stack(part) for part in zip(*(one for one, _ in rolled), strict=True))
        )
        normals = np.stack([one for _, one in rolled])
        return joint_step(*self.state, self._homes, dice, normals, self._rules)


def _normals(stream: np.random.Generator, pseudo: int, d: int) -> Any:
    return stream.standard_normal((pseudo, d), np.float32)


@dataclass(kw_only=True, eq=False, repr=False)
class FedGNN(neural.NeuralRecoverer):
    """Attention over a sensor's observed slots and its neighbours' fixed embeddings.

    A client keeps its own embedding; of the gradients of the shared layer and slots it uploads,
    every element is cut to ``[-clip, clip]`` and gets Laplace noise, and pseudo slots get
    gradients drawn to look like the real ones. A third party passes neighbours' embeddings on
    without names. Departures from the original: the graph inside a region stands in for sensors
    that share a slot (all do), the loss is a sum, and the server steps by Adam.

    Parameters
    ----------
    rank : width of the embeddings (d)
    n_neighbors : neighbours of a sensor in its region's graph
    pseudo : unobserved slots that a client adds in each round
    clip, noise : cut of the uploaded elements, and Laplace scale: epsilon is 2 clip / noise for
        **one number of one round** (the notes of a run tell what all of them come to)
    learning_rate : of Adam, on the server and at the clients
    refresh : rounds before neighbours' embeddings are fetched, and between two times
    rounds : rounds at most; the run stops early when readings kept back say so
    random_state : seed

    Examples
    --------
    >>> FedGNN(rounds=5).get_params()["clip"]
    0.1
    """

    rank: Count = 8
    n_neighbors: Count = 4
    pseudo: Count = 100
    clip: Positive = 0.1
    noise: NotNegative = 0.2
    learning_rate: Positive = 0.02
    refresh: Count = 50
    rounds: Count = 200
    random_state: Whole = 0

    def at_once(
        self, readings: neural.Readings, sensors: Sensors, post: Post
    ) -> neural.NeuralBatch:
        """All clients, the server and the third party."""
        rng = np.random.default_rng([self.random_state, 1])
        shared = start_shared(readings.Z.shape[1], self.rank, rng)
        return Together(
            self, readings, shared, attention.region_graph(sensors, self.n_neighbors), post
        )

    def _remark(self, readings: neural.Readings) -> str:
        if self.noise == 0:
            return "fedgnn: without noise there is no epsilon"
        one, rounds, d = 2 * self.clip / self.noise, self.traffic_.rounds, self.rank
        numbers = 2 * d * d + 2 * d + d * int(attention.rows_sent(readings, self.pseudo).max())
        return (
            f"fedgnn: epsilon is {one:.3g} for one number of one round, {one * rounds:.3g} for it"
            f" over the {rounds} rounds, and {one * rounds * numbers:.3g} for the up to {numbers}"
            " numbers that a client sends in each; embeddings go to the third party without noise"
        )
