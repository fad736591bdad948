"""``fesog``: federated attention over neighbours and observed slots, with pseudo readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from flfl.estimators.base import Array
from flfl.io.sensors import Sensors
from flfl_bench.baselines._attention import (
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
    start_layer,
)
from flfl_bench.baselines._jax import (
    Adam,
    Tree,
    adam_start,
    adam_step,
    double,
    jax,
    jitted,
    jnp,
    single,
)
from flfl_bench.baselines._parameters import COUNT, NOT_NEGATIVE, POSITIVE, WHOLE
from flfl_bench.baselines._rounds import AtOnce, ByMessage, Form, NeuralRecoverer, Readings
from flfl_bench.baselines.exchange import Message, Post


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


class Client:
    """Holds one sensor's readings and its last embedding."""

    def __init__(
        self, readings: Readings, home: Home, stream: np.random.Generator, d: int, pseudo: int,
        privacy: Privacy,
    ) -> None:  # fmt: skip
        self._readings, self._home, self._stream = readings, home, stream
        self._pseudo, self._privacy = pseudo, privacy
        self._memory = jnp.zeros(d, np.float32)

    def score(self, model: Message) -> Message:
        """Sums of errors under the model."""
        return Message("score", {"sums": self._readings.sums(self.recover(model)[None])})

    def learn(self, model: Message) -> Sequence[Message]:
        """Which slots its gradients are about, and these."""
        dice = roll(self._stream, self._pseudo)
        upload, self._memory = client_round(
            self._view(model), self._home, self._memory, dice, self._privacy
        )
        rows = np.flatnonzero(upload.touched)
        g = upload.gradient
        present = np.flatnonzero(self._home.present)
        sent = {"own": g.own, "others": np.asarray(g.others)[present], "Q": np.asarray(g.Q)[rows]}
        return [
            Message("rows", {"rows": rows}),
            Message("gradient", {**_named(g.model), **sent}),
        ]

    def keep(self) -> None:
        """Nothing to remember: the best model comes from the server."""

    def recover(self, model: Message) -> Array:
        """Estimates of its slots."""
        return double(client_estimates(self._view(model), self._home))

    def _view(self, message: Message) -> View:
        body = message.body
        others = np.zeros((len(self._home.present), len(body["own"])), np.float32)
        others[: len(body["others"])] = body["others"]
        return View(_model_of(body), body["own"], single(others), body["Q"])


class Server:
    """Holds the model, U and Q; sees noisy gradients."""

    def __init__(self, shared: Shared, graph: Graph, rate: float, decay: float) -> None:
        self._shared = self._best = shared
        self._adam = adam_start(shared)
        self._neighbors = [ids[has] for ids, has in zip(*graph, strict=True)]
        self._rate, self._decay = rate, decay

    def model(self, client: int) -> Message:
        """The model, Q, and the rows of U of the client and its neighbours."""
        model, U, Q = self._shared
        rows = {"own": U[client], "others": np.asarray(U)[self._neighbors[client]]}
        return Message("model", {**_named(model), **rows, "Q": Q})

    def step(self, uploads: Sequence[Sequence[Message]]) -> None:
        """Add up what the clients sent, weighted by how many slots each had, and move."""
        U, Q = (np.zeros(a.shape, np.float32) for a in self._shared[1:])
        n_U, n_Q = np.zeros(len(U), np.float32), np.zeros(len(Q), np.int32)
        models: dict[str, Any] = {}
        total = 0.0
        for client, (slots, gradient) in enumerate(uploads):
            rows, body = slots.body["rows"], gradient.body
            n = np.float32(len(rows))
            near = self._neighbors[client]
            U[client] += n * body["own"]
            U[near] += n * body["others"]
            n_U[client] += n
            n_U[near] += n
            Q[rows] += n * body["Q"]
            n_Q[rows] += 1
            total += float(n)
            for name in _named(self._shared.model):
                models[name] = models.get(name, 0.0) + n * body[name]
        sums = Shared(_model_of(models), single(U), single(Q))
        weights = Shared(single(np.array(total)), single(n_U), single(n_Q))
        self._shared, self._adam = apply_step(
            self._shared, self._adam, sums, weights, self._rate, self._decay
        )

    def keep(self) -> None:
        """The present state is the best so far."""
        self._best = self._shared

    def restore(self) -> None:
        """Go back to the best state."""
        self._shared = self._best


def _named(model: Model) -> dict[str, Any]:
    """The model's arrays under names, for a message."""
    layers = {
        f"{name}.{part}": array
        for name in ("neighbors", "slots")
        for part, array in getattr(model, name)._asdict().items()
    }
    return {**layers, "relations": model.relations, "mixer": model.mixer}


def _model_of(body: Any) -> Model:
    """The model from a message."""
    neighbors, slots = (
        Layer(*(body[f"{name}.{part}"] for part in Layer._fields))
        for name in ("neighbors", "slots")
    )
    return Model(neighbors, slots, body["relations"], body["mixer"])


class Together(AtOnce):
    """All clients and the server at once."""

    def __init__(
        self, readings: Readings, post: Post, shared: Shared, graph: Graph, homes: Home,
        streams: Sequence[np.random.Generator], pseudo: int, privacy: Privacy, rate: float,
        decay: float,
    ) -> None:  # fmt: skip
        M, d = shared.U.shape
        model = M * sum(a.size for a in jax.tree_util.tree_leaves(shared.model))
        rows = d * (M + int(graph.present.sum()))
        unobserved = np.asarray(homes.unobserved)
        touched = int(readings.train.sum() + np.minimum(pseudo, unobserved).sum())
        up = {"rows": touched, "gradient": model + rows + d * touched}
        memory = jnp.zeros((M, d), np.float32)
        state = (shared, adam_start(shared), memory)
        super().__init__(readings, post, state, model + rows + M * shared.Q.size, up)
        self._streams, self._pseudo = streams, pseudo
        self._ids, self._homes = jnp.asarray(graph.ids), homes
        self._settings = (privacy, rate, decay)

    def predict(self) -> Any:
        """Estimates (M, N) of the present state."""
        return all_estimates(self.state[0], self._ids, self._homes)

    def step(self) -> Tree:
        """The state after one more round."""
        dice = roll_all(self._streams, self._pseudo)
        return joint_step(*self.state, dice, self._ids, self._homes, *self._settings)


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [COUNT],
        "n_neighbors": [COUNT],
        "pseudo": [COUNT],
        "clip": [POSITIVE],
        "noise": [NOT_NEGATIVE],
        "learning_rate": [POSITIVE],
        "decay": [NOT_NEGATIVE],
        "rounds": [COUNT],
        "batched": ["boolean"],
        "random_state": [WHOLE],
    }

    def __init__(
        self,
        *,
        rank: int = 8,
        n_neighbors: int = 4,
        pseudo: int = 10,
        clip: float = 0.3,
        noise: float = 0.1,
        learning_rate: float = 0.05,
        decay: float = 1e-3,
        rounds: int = 200,
        batched: bool = True,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.n_neighbors = n_neighbors
        self.pseudo = pseudo
        self.clip = clip
        self.noise = noise
        self.learning_rate = learning_rate
        self.decay = decay
        self.rounds = rounds
        self.batched = batched
        self.random_state = random_state

    def _form(self, readings: Readings, sensors: Sensors, post: Post) -> Form:
        M, N = readings.Z.shape
        shared = start(M, N, self.rank, np.random.default_rng([self.random_state, 1]))
        graph, streams = (
            region_graph(sensors, self.n_neighbors),
            client_streams(self.random_state, M),
        )
        homes, privacy = homes_of(readings, graph.present), Privacy(self.clip, self.noise)
        if self.batched:
            return Together(
                readings, post, shared, graph, homes, streams, self.pseudo, privacy,
                self.learning_rate, self.decay,
            )  # fmt: skip
        clients = [
            Client(
                readings.of_sensor(i), Home(*(part[i] for part in homes)), stream, self.rank,
                self.pseudo, privacy,
            )
            for i, stream in enumerate(streams)
        ]  # fmt: skip
        return ByMessage(Server(shared, graph, self.learning_rate, self.decay), clients, post)

    def _remark(self, readings: Readings) -> str:
        return (
            "fesog: the noise follows each gradient's own mean, so it gives no epsilon; the slots"
            " of an upload are those observed and a few pseudo slots"
        )
