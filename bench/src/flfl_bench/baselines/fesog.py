"""``fesog``: federated attention over neighbours and observed slots, with pseudo readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flfl.config import Count, NotNegative, Positive, Whole
from flfl.estimators.base import Array
from flfl.io.sensors import Sensors
from flfl_bench.baselines import attention, neural
from flfl_bench.baselines.federation import Post
from flfl_bench.baselines.neural import jax, jitted, jnp, single


class Model(NamedTuple):
    """The attention model: two layers, a vector for each of three relations, and their mixer."""

    neighbors: attention.Layer
    slots: attention.Layer
    relations: Any
    mixer: Any


class Shared(NamedTuple):
    """What the server holds: the model, sensors U (M x d) and slots Q (N x d)."""

    model: Model
    U: Any
    Q: Any


class View(NamedTuple):
    """What a client is sent: the model, its own row of U, its neighbours' rows, and Q."""

    model: Model
    own: Any
    others: Any
    Q: Any


class Privacy(NamedTuple):
    """Cut of a gradient's elements, and noise as a share of the gradient's mean."""

    limit: Any
    noise: Any


class Upload(NamedTuple):
    """A client's gradients as a :class:`View`, the slots they are about, and their number."""

    gradient: View
    touched: Any
    count: Any


def start(sensors: int, slots: int, d: int, rng: np.random.Generator) -> Shared:
    """Small slots, so that the first estimates are near each sensor's mean."""
    model = Model(
        attention.start_layer(d, rng),
        attention.start_layer(d, rng),
        single(0.1 * rng.standard_normal((3, d))),
        single(0.1 * rng.standard_normal(2 * d)),
    )
    U, Q = rng.standard_normal((sensors, d)), 0.1 * rng.standard_normal((slots, d))
    return Shared(model, single(U), single(Q))


def embed(view: View, home: attention.Home) -> Any:
    """``h_i``: a softmax over relations of what neighbours, slots and the sensor itself say."""
    model, own = view.model, view.own
    by_neighbors = attention.attend(model.neighbors, own, view.others, home.present)
    faces = jnp.stack([by_neighbors, attention.attend(model.slots, own, view.Q, home.train), own])
    scores = jnp.concatenate([faces, model.relations], axis=1) @ model.mixer
    # A sensor without neighbours drops that branch.
    there = jnp.stack([jnp.any(home.present), jnp.any(home.train), True])
    return attention.masked_softmax(scores, there) @ faces


def rmse(view: View, home: attention.Home, pseudo: Any, labels: Any) -> Any:
    """A client's loss, over its readings and the pseudo readings."""
    target, used = jnp.where(pseudo, labels, home.z), home.train | pseudo
    error = jnp.where(used, view.Q @ embed(view, home) - target, 0.0)
    # The root has no slope at zero.
    return jnp.sqrt(jnp.sum(error**2) / jnp.maximum(jnp.sum(used), 1) + 1e-8)


def client_part(
    view: View, home: attention.Home, memory: Any, dice: attention.Dice, privacy: Privacy
) -> tuple[Upload, Any]:
    """A client's round: its upload, and the embedding it remembers for the next pseudo labels.

    Labels are the estimates under the last embedding, cut to the range of its own readings.
    """
    pseudo = attention.among(attention.pseudo_slots(dice, home.order, home.unobserved), len(home.z))
    low = jnp.min(home.z, where=home.train, initial=0.0)
    high = jnp.max(home.z, where=home.train, initial=0.0)
    labels = jnp.clip(view.Q @ memory, low, high)
    gradient = jax.grad(rmse)(view, home, pseudo, labels)
    touched = home.train | pseudo
    masks = View(
        jax.tree_util.tree_map(lambda _: True, gradient.model),
        True,
        home.present[:, None],
        touched[:, None],
    )
    noisy = _noisy(gradient, masks, privacy, dice)
    return Upload(noisy, touched, jnp.sum(touched)), embed(view, home)


def _noisy(gradient: View, masks: View, privacy: Privacy, dice: attention.Dice) -> View:
    """Every array cut and noised; the noise follows the mean over what is sent of it."""

    def blur(array: Any, mask: Any, noise: Any) -> Any:
        sent = jnp.broadcast_to(mask, array.shape)
        mean = jnp.sum(array, where=sent) / jnp.maximum(jnp.sum(sent), 1)
        cut = jnp.clip(array, -privacy.limit, privacy.limit)
        return jnp.where(mask, cut + privacy.noise * jnp.abs(mean) * noise, 0.0)

    return jax.tree_util.tree_map(blur, gradient, masks, attention.noise_like(gradient, dice))


def server_step(
    shared: Shared, adam: neural.Adam, sums: Shared, weights: Shared, rate: Any, decay: Any
) -> tuple[Shared, neural.Adam]:
    """Weighted means of the gradients, a step of Adam, and decay of the rows that were touched."""
    each = jax.tree_util.tree_map
    gradient = Shared(
        each(lambda g: g / weights.model, sums.model),
        sums.U / jnp.maximum(weights.U, 1.0)[:, None],
        sums.Q / jnp.maximum(weights.Q, 1.0)[:, None],
    )
    moved, adam = neural.adam_step(shared, gradient, adam, rate)
    U = moved.U - decay * shared.U * (weights.U > 0)[:, None]
    Q = moved.Q - decay * shared.Q * (weights.Q > 0)[:, None]
    return Shared(moved.model, U, Q), adam


def views(shared: Shared, ids: Any) -> View:
    """Every client's sight of what is shared, stacked; the model and Q are the same for all."""
    return View(shared.model, shared.U, shared.U[ids], shared.Q)


_EVERY_CLIENT: Any = (None, 0, 0, None)


@jitted
def all_estimates(shared: Shared, ids: Any, homes: attention.Home) -> Any:
    """All rows, (M, N)."""
    h = jax.vmap(embed, in_axes=(View(*_EVERY_CLIENT), 0))(views(shared, ids), homes)
    return h @ shared.Q.T


@jitted
def joint_step(
    shared: Shared,
    adam: neural.Adam,
    memory: Any,
    dice: attention.Dice,
    ids: Any,
    homes: attention.Home,
    privacy: Privacy,
    rate: Any,
    decay: Any,
) -> tuple[Shared, neural.Adam, Any]:
    """A round of all clients and the server."""
    uploads, memory = jax.vmap(
        lambda view, home, last, drawn: client_part(view, home, last, drawn, privacy),
        in_axes=(View(*_EVERY_CLIENT), 0, 0, 0),
    )(views(shared, ids), homes, memory, dice)
    g, n = uploads.gradient, uploads.count.astype(np.float32)
    model = jax.tree_util.tree_map(lambda a: jnp.tensordot(n, a, 1), g.model)
    U = (n[:, None] * g.own).at[ids].add(n[:, None, None] * g.others)
    per_sensor = n.at[ids].add(n[:, None] * homes.present)
    # A product, not a sum of products: XLA would draw the noise again inside the sum.
    sums = Shared(model, U, jnp.tensordot(n, g.Q, 1))
    weights = Shared(jnp.sum(n), per_sensor, jnp.sum(uploads.touched, axis=0))
    return *server_step(shared, adam, sums, weights, rate, decay), memory


class Together(neural.NeuralBatch):
    """All clients and the server at once."""

    def __init__(
        self,
        model: FeSoG,
        readings: neural.Readings,
        shared: Shared,
        graph: attention.Graph,
        post: Post,
    ) -> None:
        M, d = shared.U.shape
        size = M * sum(a.size for a in jax.tree_util.tree_leaves(shared.model))
        rows = d * (M + int(graph.present.sum()))
        touched = int(attention.rows_sent(readings, model.pseudo).sum())
        up = {"rows": touched, "gradient": size + rows + d * touched}
        state = (shared, neural.adam_start(shared), jnp.zeros((M, d), np.float32))
        super().__init__(readings, post, state, size + rows + M * shared.Q.size, up)
        self._streams, self._pseudo = attention.client_streams(model.random_state, M), model.pseudo
        self._ids, self._homes = jnp.asarray(graph.ids), attention.homes_of(readings, graph.present)
        self._settings = (Privacy(model.clip, model.noise), model.learning_rate, model.decay)

    def predict(self, state: neural.Tree) -> Array:
        """Estimates (M, N)."""
        return neural.double(all_estimates(state[0], self._ids, self._homes))

    def step(self) -> neural.Tree:
        """The state after one more round."""
        dice = attention.roll_all(self._streams, self._pseudo)
        return joint_step(*self.state, dice, self._ids, self._homes, *self._settings)


@dataclass(kw_only=True, eq=False, repr=False)
class FeSoG(neural.NeuralRecoverer):
    """Each sensor's embedding comes from attention over its neighbours and its observed slots.

    The server holds sensors U, slots Q and the attention model; a client uploads cut and noisy
    gradients for the slots it observed and for a few pseudo slots with its own earlier estimates
    as labels. The graph inside a region stands in for social links. Departures from the original,
    each for a reason: pseudo labels are not rounded and are cut to the sensor's own range, noise
    is drawn for every element, and the server steps by Adam, as plain steps need thousands of
    rounds.

    Parameters
    ----------
    rank : width of the embeddings (d)
    n_neighbors : neighbours of a sensor in its region's graph
    pseudo : unobserved slots that a client adds in each round
    clip, noise : cut of a gradient's elements; Laplace scale as a share of the gradient's mean
    learning_rate : of Adam
    decay : share by which touched rows shrink in a round
    rounds : rounds at most; the run stops early when readings kept back say so
    random_state : seed

    Examples
    --------
    >>> FeSoG(rounds=5).get_params()["pseudo"]
    10
    """

    rank: Count = 8
    n_neighbors: Count = 4
    pseudo: Count = 10
    clip: Positive = 0.3
    noise: NotNegative = 0.1
    learning_rate: Positive = 0.05
    decay: NotNegative = 0.001
    rounds: Count = 200
    random_state: Whole = 0

    def at_once(
        self, readings: neural.Readings, sensors: Sensors, post: Post
    ) -> neural.NeuralBatch:
        """All clients and the server."""
        M, N = readings.Z.shape
        shared = start(M, N, self.rank, np.random.default_rng([self.random_state, 1]))
        return Together(
            self, readings, shared, attention.region_graph(sensors, self.n_neighbors), post
        )

    def _remark(self, readings: neural.Readings) -> str:
        return (
            "fesog: the noise follows each gradient's own mean, so it gives no epsilon; the slots"
            " of an upload are those observed and a few pseudo slots"
        )
