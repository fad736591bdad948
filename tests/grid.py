"""Flower's grid within one process: real apps and real messages in their byte form, no servers."""

from dataclasses import dataclass

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

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

    ``faults`` is asked for every message that arrives, and says what becomes of it: None (all is
    well), ``"lost"`` (the node has it and is never heard of again), ``"unanswered"`` (worked on,
    but the reply is lost) or ``"error"`` (Flower says that the app crashed).
    """

    def __init__(self, nodes=(), faults=None):
        self.nodes = dict(nodes)
        self.faults = faults or (lambda number: None)
        self.replies, self.sent, self.said = {}, 0, []

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

    def _push(self, message):
        self.sent += 1
        carried, key = _carried(message), f"{self.sent}"
        number = message.metadata.dst_node_id
        carried.metadata.__dict__["_message_id"] = key
        fault = self.faults(number)
        if fault == "lost" or number not in self.nodes:
            return key
        if fault == "error":
            self.replies[key] = Message(Error(3, "ClientApp stopped responding."), reply_to=carried)
            return key
        node = self.nodes[number]
        reply = _carried(node.app(carried, Context(1, number, node.settings, RecordDict(), {})))
        reply.metadata.__dict__["_reply_to_message_id"] = key
        self.said.append(reply)
        if fault != "unanswered":
            self.replies[key] = reply
        return key


def _carried(message):
    """A message as it comes out of its bytes."""
    data = message_to_proto(message).SerializeToString()
    return message_from_proto(ProtoMessage.FromString(data))
