"""A grid in one process, with the same apps and messages as over the network."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity


@dataclass
class Traffic:
    """The traffic between the server and a node."""

    messages: int = 0  #: messages to the node.
    down: int = 0  #: bytes to the node, as Flower's protocol buffers.
    up: int = 0  #: bytes of its replies.


class LocalGrid(Grid):
    """Nodes that run a ClientApp one after the other in this process, for experiments and tests. Messages
    pass through Flower's serialization, and each node keeps its state like a SuperNode.

    Args:
        app: the nodes' app.
        nodes: configuration of each node, as in ``flower-supernode --node-config``.
        run_config: configuration of the run.
        lost: function that returns True if a message to a node, or its reply, is lost; None: no losses.

    Attributes:
        app: the nodes' app.
        lost: function `lost`; it may be replaced.
        traffic: traffic by the node's number.
        contexts: context of each node, by its number; replace ``state`` to simulate its loss.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: Sequence[UserConfig],
        *,
        run_config: UserConfig | None = None,
        lost: Callable[[Message], bool] | None = None,
    ) -> None:
        # Messages have the sender's name, which Flower's programs set when they start an app.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
        self.app, self.lost, self._run = app, lost, Run.create_empty(1)
        self._numbers, self._replies = itertools.count(1), dict[str, Message]()
        self.contexts = {
            number: Context(1, number, dict(node), RecordDict(), dict(run_config or {}))
            for number, node in enumerate(nodes, 2)
        }
        self.traffic = {number: Traffic() for number in self.contexts}

    def set_run(self, run: Run) -> None:
        """Sets the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Creates a message; for older programs."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """Numbers of the nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Delivers messages to their nodes, which answer at once."""
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Returns and removes the available replies to messages."""
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Returns the replies to messages."""
        return self.pull_messages(self.push_messages(messages))

    def _deliver(self, message: Message) -> str:
        number = str(next(self._numbers))
        message.metadata.__dict__["_message_id"] = number  # as Flower's grids do
        node = message.metadata.dst_node_id
        traffic, data = self.traffic[node], message_to_proto(message).SerializeToString()
        traffic.messages += 1
        traffic.down += len(data)
        if self.lost is not None and self.lost(message):
            return number
        received = message_from_proto(ProtoMessage.FromString(data))
        try:
            reply = self.app(received, self.contexts[node])
        except Exception as error:  # as a SuperNode handles an app's failure
            reason = f"{type(error)}:<'{error}'>"
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=received)
        data = message_to_proto(reply).SerializeToString()
        traffic.up += len(data)
        if self.lost is None or not self.lost(reply):
            self._replies[number] = message_from_proto(ProtoMessage.FromString(data))
        return number
