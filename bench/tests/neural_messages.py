"""The neural federations message by message: slow references for the batched forms.

Each client sees its own readings and what it is sent, the server what it is sent.
"""

import numpy as np

from flfl_bench.baselines import fedgnn, fesog, metamf
from flfl_bench.baselines.attention import Home, Layer, client_streams, homes_of, region_graph, roll
from flfl_bench.baselines.federation import ByMessage, Client, Message, Server
from flfl_bench.baselines.neural import Readings, adam_start, double, jax, jitted, jnp, single

fesog_round, fesog_move = jitted(fesog.client_part), jitted(fesog.server_step)
fedgnn_round, fedgnn_move = jitted(fedgnn.client_part), jitted(fedgnn.server_step)
meta_models, meta_row = jitted(metamf.generate_all), jitted(metamf.estimates)
meta_move = jitted(metamf.server_step)


@jitted
def meta_gradient(phi, z, train):
    return jax.grad(metamf.squared_error)(phi, z, train)


@jitted
def pull_back(theta, uploads, sizes):
    """The gradient of the server's weights from the uploads: the chain rule."""
    _, back = jax.vjp(lambda weights: metamf.generate_all(weights, sizes), theta)
    return back(uploads)[0]


def packed(tree):
    """The arrays of a tree under numbers, for a message."""
    return {str(number): leaf for number, leaf in enumerate(jax.tree_util.tree_leaves(tree))}


def unpacked(like, body):
    """The tree again, in the form of another one."""
    form = jax.tree_util.tree_structure(like)
    return jax.tree_util.tree_unflatten(form, [body[str(n)] for n in range(form.num_leaves)])


def of_sensor(readings, number):
    """The one row that a client has."""
    one = slice(number, number + 1)
    return Readings(*(part[one].copy() for part in (readings.Z, readings.train, readings.held)))


def by_message(model, readings, sensors, post):
    """Clients and server of a neural method."""
    kind = {
        metamf.MetaMF: meta_network, fesog.FeSoG: fesog_network, fedgnn.FedGNN: fedgnn_network
    }  # fmt: skip
    return kind[type(model)](model, readings, sensors, post)


class MetaClient(Client):
    def __init__(self, readings):
        super().__init__(readings)
        self._data = single(readings.Z[0]), jnp.asarray(readings.train[0])
        self._count = np.array(int(readings.train.sum()))

    def learn(self, model):
        gradient = meta_gradient(metamf.Phi(**model.body), *self._data)
        return [Message("gradient", {**gradient._asdict(), "count": self._count})]

    def estimate(self, model, *, best):
        return double(meta_row(metamf.Phi(**model.body)))[None]


class MetaServer(Server):
    def __init__(self, theta, sizes, *steps):
        super().__init__(theta)
        self._adam, self._sizes, self._steps = adam_start(theta), sizes, steps

    def model(self, client):
        models = meta_models(self.shared, self._sizes)._asdict()
        return Message("model", {name: array[client] for name, array in models.items()})

    def step(self, uploads):
        bodies = [parts[0].body for parts in uploads]
        stacked = metamf.Phi(
            *(jnp.stack([body[name] for body in bodies]) for name in metamf.Phi._fields)
        )
        gradient = pull_back(self.shared, stacked, self._sizes)
        count = single(np.sum([body["count"] for body in bodies]))
        self.shared, self._adam = meta_move(self.shared, self._adam, gradient, count, *self._steps)


def meta_network(model, readings, sensors, post):
    M, N = readings.Z.shape
    sizes = metamf.Sizes(M, N, model.rank, model.low_rank, model.memory, model.hidden)
    theta = metamf.start(sizes, np.random.default_rng([model.random_state, 1]))
    server = MetaServer(theta, sizes, model.learning_rate, model.decay)
    return ByMessage(server, [MetaClient(of_sensor(readings, i)) for i in range(M)], post)


class AttentiveClient(Client):
    """What clients of fesog and fedgnn share."""

    def __init__(self, readings, home, stream, model):
        super().__init__(readings)
        self._home, self._stream, self._model = home, stream, model


class FesogClient(AttentiveClient):
    FORM = fesog.Model(Layer(0, 0, 0, 0), Layer(0, 0, 0, 0), 0, 0)

    def __init__(self, *given):
        super().__init__(*given)
        self._memory = jnp.zeros(self._model.rank, np.float32)

    def learn(self, model):
        dice = roll(self._stream, self._model.pseudo)
        privacy = fesog.Privacy(self._model.clip, self._model.noise)
        upload, self._memory = fesog_round(
            self._view(model), self._home, self._memory, dice, privacy
        )
        rows, present = np.flatnonzero(upload.touched), np.flatnonzero(self._home.present)
        g = upload.gradient
        sent = {"own": g.own, "others": np.asarray(g.others)[present], "Q": np.asarray(g.Q)[rows]}
        return [Message("rows", {"rows": rows}), Message("gradient", packed(g.model) | sent)]

    def estimate(self, model, *, best):
        view = self._view(model)
        return double(view.Q @ fesog.embed(view, self._home))[None]

    def _view(self, message):
        body = message.body
        others = np.zeros((len(self._home.present), len(body["own"])), np.float32)
        others[: len(body["others"])] = body["others"]
        return fesog.View(unpacked(self.FORM, body), body["own"], single(others), body["Q"])


class FesogServer(Server):
    def __init__(self, shared, graph, *steps):
        super().__init__(shared)
        self._adam, self._steps = adam_start(shared), steps
        self._neighbors = [ids[has] for ids, has in zip(*graph, strict=True)]

    def model(self, client):
        model, U, Q = self.shared
        rows = {"own": U[client], "others": np.asarray(U)[self._neighbors[client]]}
        return Message("model", {**packed(model), **rows, "Q": Q})

    def step(self, uploads):
        """Add up what the clients sent, weighted by how many slots each had, and move."""
        U, Q = (np.zeros(a.shape, np.float32) for a in self.shared[1:])
        n_U, n_Q = np.zeros(len(U), np.float32), np.zeros(len(Q), np.int32)
        models, total = [], 0.0
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
            own = unpacked(FesogClient.FORM, body)
            models.append(jax.tree_util.tree_map(lambda a, n=n: n * a, own))
        summed = jax.tree_util.tree_map(lambda *parts: sum(parts), *models)
        sums = fesog.Shared(summed, single(U), single(Q))
        weights = fesog.Shared(single(np.array(total)), single(n_U), single(n_Q))
        self.shared, self._adam = fesog_move(self.shared, self._adam, sums, weights, *self._steps)


def attentive_clients(kind, model, readings, graph):
    streams = client_streams(model.random_state, len(readings.Z))
    homes = homes_of(readings, graph.present)
    return [
        kind(of_sensor(readings, i), Home(*(part[i] for part in homes)), stream, model)
        for i, stream in enumerate(streams)
    ]


def fesog_network(model, readings, sensors, post):
    M, N = readings.Z.shape
    shared = fesog.start(M, N, model.rank, np.random.default_rng([model.random_state, 1]))
    graph = region_graph(sensors, model.n_neighbors)
    server = FesogServer(shared, graph, model.learning_rate, model.decay)
    return ByMessage(server, attentive_clients(FesogClient, model, readings, graph), post)


class FedgnnClient(AttentiveClient):
    FORM = fedgnn.Shared(Layer(0, 0, 0, 0), 0)

    def __init__(self, *given):
        super().__init__(*given)
        neighbors = len(self._home.present)
        self._private = fedgnn.start_private(self._stream, self._model.rank, neighbors)
        self._best = self._private

    def learn(self, model):
        """Which slots its gradients are about, and these; its own embedding moves at home."""
        plan = self._model
        dice = roll(self._stream, plan.pseudo)
        normals = self._stream.standard_normal((plan.pseudo, plan.rank), np.float32)
        rules = fedgnn.Rules(plan.clip, plan.noise, plan.learning_rate)
        upload, touched, self._private = fedgnn_round(
            unpacked(self.FORM, model.body), self._private, self._home, dice, normals, rules
        )
        rows = np.flatnonzero(touched)
        sent = upload._replace(Q=np.asarray(upload.Q)[rows])
        return [Message("rows", {"rows": rows}), Message("gradient", packed(sent))]

    def introduce(self):
        return Message("embedding", {"own": self._private.own})

    def meet(self, message):
        """Its neighbours' embeddings, without names; they stay as they are until the next time."""
        found = np.asarray(message.body["others"])
        others = np.zeros(self._private.others.shape, np.float32)
        others[: len(found)] = found
        met = jnp.arange(len(others)) < len(found)
        self._private = self._private._replace(others=single(others), met=met)

    def keep(self):
        self._best = self._private

    def estimate(self, model, *, best):
        private, shared = self._best if best else self._private, unpacked(self.FORM, model.body)
        return double(shared.Q @ fedgnn.embed(shared, private.own, private, self._home))[None]


class FedgnnServer(Server):
    def __init__(self, shared, rate):
        super().__init__(shared)
        self._adam, self._rate = adam_start(shared), rate

    def model(self, client):
        return Message("model", packed(self.shared))

    def step(self, uploads):
        Q = np.zeros(self.shared.Q.shape, np.float32)
        observers = np.zeros(len(Q), np.int32)
        sent = [unpacked(FedgnnClient.FORM, gradient.body) for _, gradient in uploads]
        for (slots, _), gradient in zip(uploads, sent, strict=True):
            Q[slots.body["rows"]] += gradient.Q
            observers[slots.body["rows"]] += 1
        layer = jax.tree_util.tree_map(lambda *parts: sum(parts), *(one.layer for one in sent))
        sums, count = fedgnn.Shared(layer, single(Q)), np.float32(len(uploads))
        self.shared, self._adam = fedgnn_move(
            self.shared, self._adam, sums, count, observers, self._rate
        )


class WithThirdParty(ByMessage):
    """The third party knows who is near whom, and passes embeddings on without names."""

    def __init__(self, server, clients, post, graph, refresh):
        super().__init__(server, clients, post)
        self._neighbors = [ids[has] for ids, has in zip(*graph, strict=True)]
        self._refresh = refresh

    def round(self, number):
        if number > 0 and number % self._refresh == 0:
            sent = [self.post.up(client.introduce()) for client in self.clients]
            own = np.stack([message.body["own"] for message in sent])
            for client, ids in zip(self.clients, self._neighbors, strict=True):
                client.meet(self.post.down(Message("neighbors", {"others": own[ids]})))
        super().round(number)


def fedgnn_network(model, readings, sensors, post):
    rng = np.random.default_rng([model.random_state, 1])
    shared = fedgnn.start_shared(readings.Z.shape[1], model.rank, rng)
    graph = region_graph(sensors, model.n_neighbors)
    clients = attentive_clients(FedgnnClient, model, readings, graph)
    server = FedgnnServer(shared, model.learning_rate)
    return WithThirdParty(server, clients, post, graph, model.refresh)
