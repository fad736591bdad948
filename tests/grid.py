"""Flower's grid within one process: real apps and real parcels in their byte form, no servers."""

from dataclasses import dataclass

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from flfl.secagg import Identity, Roster
from flfl.transport.dispatcher import Dispatcher, Patience, RefusedBySiteError
from flfl.transport.flower import client_app, server_app
from flfl.transport.parcels import answer
from flfl.transport.responder import Responder

NETWORK, RUN = "test", "run"
# What Flower sets when it starts an app's process.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@dataclass
class Node:
    """What a SuperNode is to a grid: an app, its settings, and when it came."""

    app: object
    settings: dict
    came: str = ""


class FakeGrid(Grid):
    """Nodes of one process.

    ``faults`` is asked for every parcel that arrives, and says what becomes of it: None (all is
    well), ``"lost"`` (the node has it and is never heard of again), ``"unanswered"`` (worked on,
    but the reply is lost) or ``"error"`` (Flower says that the app crashed).
    """

    def __init__(self, nodes=(), run_config=None, faults=None):
        self.nodes = dict(nodes)
        self.run_config = run_config or {}
        self.faults = faults or (lambda number, parcel: None)
        self.replies, self.parcels, self.said = {}, [], []

    run = property(lambda self: None)

    def set_run(self, run):
        pass

    def create_message(self, *arguments, **named):
        raise AssertionError("deprecated")

    def send_and_receive(self, messages, *, timeout=None):
        raise AssertionError("it waits without end")

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [NodeInfo(node_id=n, last_activated_at=node.came) for n, node in self.nodes.items()]

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids):
        return [self.replies.pop(key) for key in message_ids if key in self.replies]

    def _push(self, parcel):
        carried = _carried(parcel)
        number, key = parcel.metadata.dst_node_id, f"{len(self.parcels)}"
        carried.metadata.__dict__["_message_id"] = key
        self.parcels.append(carried)
        fault = self.faults(number, carried)
        if fault == "lost" or number not in self.nodes:
            return key
        if fault == "error":
            self.replies[key] = Message(Error(3, "ClientApp stopped responding."), reply_to=carried)
            return key
        node = self.nodes[number]
        context = Context(1, number, node.settings, RecordDict(), self.run_config)
        reply = _carried(node.app(carried, context))
        reply.metadata.__dict__["_reply_to_message_id"] = key
        self.said.append(reply)
        if fault != "unanswered":
            self.replies[key] = reply
        return key


def _carried(parcel):
    """A parcel as it comes out of its bytes."""
    return message_from_proto(ProtoMessage.FromString(message_to_proto(parcel).SerializeToString()))


class Answering:
    """A site's state machine as parcels find it."""

    def __init__(self, site, identity, errors=None):
        self.name, self.network, self.identity = site.name, NETWORK, identity
        self.site, self.errors = site, [] if errors is None else errors

    def handle(self, come, link):
        responder = Responder(self.site, link, RUN, refused=self.errors.append)
        try:
            for heard in come:
                responder.take(heard.branch, heard.message)
        except Exception as error:
            self.errors.append(error)
            raise

    def reply(self, where, parcel):
        return answer(self, parcel)


def answering(sites, errors=None):
    """A roster and a node for each site."""
    identities = {site.name: Identity.generate() for site in sites}
    names = [*identities, "nobody", "no-one"]
    keys = {name: identities.get(name, Identity.generate()).public for name in names}
    nodes = {
        number: Node(client_app(Answering(site, identities[site.name], errors).reply), {})
        for number, site in enumerate(sites, 101)
    }
    return Roster(keys), nodes


def run(coordinator, sites, traffic, tap=None, *, patience=None, grid=None):
    """As :func:`flfl.transport.local.run`, with the messages carried by Flower's apps."""
    errors = []
    roster, nodes = answering(sites, errors)
    refusal = None

    def serve(start):
        nonlocal refusal
        link = start.connect(NETWORK, roster, poll=0.001, look=0.0)
        dispatcher = Dispatcher(
            coordinator, link, RUN, traffic, patience or Patience(30, 3, 120), tap
        )
        dispatcher.begin()
        try:
            while not coordinator.done and not errors:
                heard = link.next(min(dispatcher.check(), 0.1))
                if heard is not None:
                    dispatcher.take(heard)
        except RefusedBySiteError as error:
            refusal = error
        dispatcher.end()
        link.close()

    grid = grid or FakeGrid()
    grid.nodes.update(nodes)
    server_app(serve)(grid, Context(1, 1, {}, RecordDict(), {}))
    if errors:
        raise errors[0]
    if refusal is not None:
        raise refusal
