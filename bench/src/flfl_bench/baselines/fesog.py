"""``fesog``: federated attention over neighbours and observed slots, with pseudo readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flfl.config import Count, NotNegative, Positive, Whole
from flfl.estimators.base import Array
from flfl.io.sensors import Sensors
from flfl_bench.baselines import federation
from flfl_bench.baselines.attention import (
    Dice,
    Graph,
    Home,
    Layer,
    among,
    attend,
    client_streams,
    homes_of,
    masked_softmax,
    noise_like,
    pseudo_slots,
    region_graph,
    roll,
    roll_all,
    rows_sent,
    start_layer,
)
from flfl_bench.baselines.federation import ByMessage, Form, Message, Post
from flfl_bench.baselines.neural import (
    Adam,
    NeuralBatch,
    NeuralRecoverer,
    Readings,
    Tree,
    adam_start,
    adam_step,
    double,
    jax,
    jitted,
    jnp,
    packed,
    single,
    unpacked,
)


class Model(NamedTuple):
    """The attention model: two layers, a vector for each of three relations, and their mixer."""

    neighbors: Layer
    slots: Layer
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
        start_layer(d, rng),
        start_layer(d, rng),
        single(0.1 * rng.standard_normal((3, d))),
        single(0.1 * rng.standard_normal(2 * d)),
    )
    U, Q = rng.standard_normal((sensors, d)), 0.1 * rng.standard_normal((slots, d))
    return Shared(model, single(U), single(Q))


def embed(view: View, home: Home) -> Any:
    """``h_i``: a softmax over relations of what neighbours, slots and the sensor itself say."""
    model, own = view.model, view.own
    by_neighbors = attend(model.neighbors, own, view.others, home.present)
    faces = jnp.stack([by_neighbors, attend(model.slots, own, view.Q, home.train), own])
    scores = jnp.concatenate([faces, model.relations], axis=1) @ model.mixer
    # A sensor without neighbours drops that branch.
    there = jnp.stack([jnp.any(home.present), jnp.any(home.train), True])
    return masked_softmax(scores, there) @ faces


def rmse(view: View, home: Home, pseudo: Any, labels: Any) -> Any:
    """A client's loss, over its readings and the pseudo readings."""
    target, used = jnp.where(pseudo, labels, home.z), home.train | pseudo
    error = jnp.where(used, view.Q @ embed(view, home) - target, 0.0)
    # The root has no slope at zero.
    return jnp.sqrt(jnp.sum(error**2) / jnp.maximum(jnp.sum(used), 1) + 1e-8)


def client_part(
    view: View, home: Home, memory: Any, dice: Dice, privacy: Privacy
) -> tuple[Upload, Any]:
    """A client's round: its upload, and the embedding it remembers for the next pseudo labels.

    Labels are the estimates under the last embedding, cut to the range of its own readings.
    """
    pseudo = among(pseudo_slots(dice, home.order, home.unobserved), len(home.z))
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


def _noisy(gradient: View, masks: View, privacy: Privacy, dice: Dice) -> View:
    """Every array cut and noised; the noise follows the mean over what is sent of it."""

    def blur(array: Any, mask: Any, noise: Any) -> Any:
        sent = jnp.broadcast_to(mask, array.shape)
        mean = jnp.sum(array, where=sent) / jnp.maximum(jnp.sum(sent), 1)
        cut = jnp.clip(array, -privacy.limit, privacy.limit)
        return jnp.where(mask, cut + privacy.noise * jnp.abs(mean) * noise, 0.0)

    return jax.tree_util.tree_map(blur, gradient, masks, noise_like(gradient, dice))


def server_step(
    shared: Shared, adam: Adam, sums: Shared, weights: Shared, rate: Any, decay: Any
) -> tuple[Shared, Adam]:
    """Weighted means of the gradients, a step of Adam, and decay of the rows that were touched."""
    each = jax.tree_util.tree_map
    gradient = Shared(
        each(lambda g: g / weights.model, sums.model),
        sums.U / jnp.maximum(weights.U, 1.0)[:, None],
        sums.Q / jnp.maximum(weights.Q, 1.0)[:, None],
    )
    moved, adam = adam_step(shared, gradient, adam, rate)
    U = moved.U - decay * shared.U * (weights.U > 0)[:, None]
    Q = moved.Q - decay * shared.Q * (weights.Q > 0)[:, None]
    return Shared(moved.model, U, Q), adam


client_round = jitted(client_part)
apply_step = jitted(server_step)


@jitted
def client_estimates(view: View, home: Home) -> Any:
    """One client's row, (N,)."""
    return view.Q @ embed(view, home)


def views(shared: Shared, ids: Any) -> View:
    """Every client's sight of what is shared, stacked; the model and Q are the same for all."""
    return View(shared.model, shared.U, shared.U[ids], shared.Q)


_EVERY_CLIENT: Any = (None, 0, 0, None)


@jitted
def all_estimates(shared: Shared, ids: Any, homes: Home) -> Any:
    """All rows, (M, N)."""
    h = jax.vmap(embed, in_axes=(View(*_EVERY_CLIENT), 0))(views(shared, ids), homes)
    return h @ shared.Q.T


@jitted
def joint_step(
    shared: Shared,
    adam: Adam,
    memory: Any,
    dice: Dice,
    ids: Any,
    homes: Home,
    privacy: Privacy,
    rate: Any,
    decay: Any,
) -> tuple[Shared, Adam, Any]:
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


class Client(federation.Client):
    """Holds one sensor's readings and its last embedding."""

    def __init__(
        self, readings: Readings, home: Home, stream: np.random.Generator, model: FeSoG
    ) -> None:
        super().__init__(readings)
        self._home, self._stream = home, stream
        self._pseudo, self._privacy = model.pseudo, model.privacy()
        self._memory = jnp.zeros(model.rank, np.float32)

    def learn(self, model: Message) -> Sequence[Message]:
        """Which slots its gradients are about, and these."""
        dice = roll(self._stream, self._pseudo)
        upload, self._memory = client_round(
            self._view(model), self._home, self._memory, dice, self._privacy
        )
        rows, present = np.flatnonzero(upload.touched), np.flatnonzero(self._home.present)
        g = upload.gradient
        sent = {"own": g.own, "others": np.asarray(g.others)[present], "Q": np.asarray(g.Q)[rows]}
        return [Message("rows", {"rows": rows}), Message("gradient", packed(g.model) | sent)]

    def estimate(self, model: Message, *, best: bool) -> Array:
        """The best model comes from the server: there is nothing to remember."""
        return double(client_estimates(self._view(model), self._home))[None]

    def _view(self, message: Message) -> View:
        body = message.body
        others = np.zeros((len(self._home.present), len(body["own"])), np.float32)
        others[: len(body["others"])] = body["others"]
        return View(unpacked(_FORM, body), body["own"], single(others), body["Q"])


_FORM = Model(Layer(0, 0, 0, 0), Layer(0, 0, 0, 0), 0, 0)


class Server(federation.Server):
    """Holds the model, U and Q; sees noisy gradients."""

    def __init__(self, shared: Shared, graph: Graph, rate: float, decay: float) -> None:
        super().__init__(shared)
        self._adam = adam_start(shared)
        self._neighbors = [ids[has] for ids, has in zip(*graph, strict=True)]
        self._steps = (rate, decay)

    def model(self, client: int) -> Message:
        """The model, Q, and the rows of U of the client and its neighbours."""
        model, U, Q = self.shared
        rows = {"own": U[client], "others": np.asarray(U)[self._neighbors[client]]}
        return Message("model", {**packed(model), **rows, "Q": Q})

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Add up what the clients sent, weighted by how many slots each had, and move."""
        U, Q = (np.zeros(a.shape, np.float32) for a in self.shared[1:])
        n_U, n_Q = np.zeros(len(U), np.float32), np.zeros(len(Q), np.int32)
        models: Any = 0.0
        total = 0.0
        for client, (slots, gradient) in enumerate(uploads):
            rows, body = slots.body["rows"], gradient.body
            n, near = np.float32(len(rows)), self._neighbors[client]
            U[client] += n * body["own"]
            U[near] += n * body["others"]
            n_U[client] += n
            n_U[near] += n
            Q[rows] += n * body["Q"]
            n_Q[rows] += 1
            total += float(n)
            own = jax.tree_util.tree_map(lambda a, n=n: n * a, unpacked(_FORM, body))
            models = jax.tree_util.tree_map(jnp.add, models, own) if client else own
        sums = Shared(models, single(U), single(Q))
        weights = Shared(single(np.array(total)), single(n_U), single(n_Q))
        self.shared, self._adam = apply_step(self.shared, self._adam, sums, weights, *self._steps)


class Together(NeuralBatch):
    """All clients and the server at once."""

    def __init__(
        self, readings: Readings, post: Post, shared: Shared, graph: Graph, homes: Home,
        streams: Sequence[np.random.Generator], model: FeSoG,
    ) -> None:  # fmt: skip
        M, d = shared.U.shape
        size = M * sum(a.size for a in jax.tree_util.tree_leaves(shared.model))
        rows = d * (M + int(graph.present.sum()))
        touched = int(rows_sent(readings, model.pseudo).sum())
        up = {"rows": touched, "gradient": size + rows + d * touched}
        state = (shared, adam_start(shared), jnp.zeros((M, d), np.float32))
        super().__init__(readings, post, state, size + rows + M * shared.Q.size, up)
        self._streams, self._pseudo = streams, model.pseudo
        self._ids, self._homes = jnp.asarray(graph.ids), homes
        self._settings = (model.privacy(), model.learning_rate, model.decay)

    def predict(self, state: Tree) -> Array:
        """Estimates (M, N)."""
        return double(all_estimates(state[0], self._ids, self._homes))

    def step(self) -> Tree:
        """The state after one more round."""
        dice = roll_all(self._streams, self._pseudo)
        return joint_step(*self.state, dice, self._ids, self._homes, *self._settings)


@dataclass(kw_only=True, eq=False, repr=False)
class FeSoG(NeuralRecoverer):
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
    batched : compute all clients at once; False passes every message (slow, same result)
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
    batched: bool = True
    random_state: Whole = 0

    def privacy(self) -> Privacy:
        """What is done to a gradient before it leaves."""
        return Privacy(self.clip, self.noise)

    def _form(self, readings: Readings, sensors: Sensors, post: Post) -> Form:
        M, N = readings.Z.shape
        shared = start(M, N, self.rank, np.random.default_rng([self.random_state, 1]))
        graph = region_graph(sensors, self.n_neighbors)
        streams, homes = client_streams(self.random_state, M), homes_of(readings, graph.present)
        if self.batched:
            return Together(readings, post, shared, graph, homes, streams, self)
        clients = [
            Client(readings.of_sensor(i), Home(*(part[i] for part in homes)), stream, self)
            for i, stream in enumerate(streams)
        ]
        return ByMessage(Server(shared, graph, self.learning_rate, self.decay), clients, post)

    def _remark(self, readings: Readings) -> str:
        return (
            "fesog: the noise follows each gradient's own mean, so it gives no epsilon; the slots"
            " of an upload are those observed and a few pseudo slots"
        )
