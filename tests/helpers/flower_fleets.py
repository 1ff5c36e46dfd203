"""Small fleets over Flower within a process."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp.strategy import Strategy

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import weight_settings
from tflm_zo.converters import Model
from tflm_zo.fleet import FleetLog, Replica
from tflm_zo.fleet.flower import FleetClient, FleetStrategy, LocalGrid, client_app

OWN, STEPS = 8, 6
KEPT = "tflm-zo"


def zo_model() -> Model:
    return inject_all(MODELS["small_cnn"](), batch=4, command_words=1000)


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    shape = zo_model().subgraphs[0].inputs[0].shape[1:]
    return rng.integers(-128, 128, (count, *shape)).astype(np.int8), rng.integers(0, 4, count)


@dataclass
class Fleet:
    """A server, its clients, and the messages between them.

    Attributes:
        changes: settings of the run that differ.
        tamper: makes other content of a client's reply.
        before: makes other content of a message to a client.
        lost: whether a message or reply is lost.
    """

    folder: Path
    clients: int = 4
    steps: int = STEPS
    aggregator: Strategy | None = None
    options: dict[str, Any] = field(default_factory=dict)
    mods: tuple[Any, ...] = ()
    client: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    tamper: Callable[[int, RecordDict], RecordDict | None] = lambda node, content: content
    before: Callable[[int, RecordDict], RecordDict] = lambda node, content: content
    lost: Callable[[Message], bool] | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        self.model = zo_model()
        self.settings = weight_settings(queries=3, **self.changes)
        self.x, self.y = samples(self.clients * OWN)
        self.parts = np.split(np.arange(len(self.x)), self.clients)
        app = client_app(
            lambda c: FleetClient(self.model, *self.data_of(c.node_config["part"]), **self.client), mods=self.mods
        )

        def passed(message: Message, context: Context) -> Message:
            node = context.node_config["part"]
            message.content = self.before(node, message.content)
            reply = app(message, context)
            if reply.has_content():
                content = self.tamper(node, reply.content)
                if content is None:
                    raise RuntimeError("no reply")
                reply.content = content
            return reply

        self.grid = LocalGrid(passed, [{"part": i} for i in range(self.clients)], lost=self.lost)
        self.nodes = self.grid.get_node_ids()
        self.start_server()

    def start_server(self) -> None:
        """Starts a server anew; it resumes from the log if `resume` is set."""
        path = self.folder / "fleet.zolog"
        self.log = FleetLog(
            self.model, replace(self.settings, batch_size=OWN), self.steps, OWN, path, resume=self.resume
        )
        self.strategy = FleetStrategy(self.log, self.aggregator, **self.options)

    def data_of(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        return self.x[self.parts[part]], self.y[self.parts[part]]

    def round(self) -> None:
        """Runs one round, without an evaluation."""
        self.strategy.aggregate_train(1, self.ask())

    def run(self) -> Any:
        return self.strategy.run(self.grid)

    def states(self) -> list[bytes]:
        """Returns the clients' snapshots."""
        return [self.grid.contexts[node].state[KEPT]["snapshot"] for node in self.nodes]

    def replicas(self) -> list[Replica]:
        """Makes clients of the same data without Flower."""
        return [Replica(self.model, self.log.header, *self.data_of(i)) for i in range(self.clients)]

    @property
    def reasons(self) -> list[str]:
        return [refusal.reason for refusal in self.strategy.refusals]

    def check_all_equal_but_the_last(self) -> None:
        """Checks that all clients have the same state, the server's before its last step."""
        states = self.states()
        assert states == states[:1] * self.clients
        assert int.from_bytes(states[0][:4], "little") == self.log.step - 1

    def check_all_equal(self) -> None:
        """Checks that all clients have the server's step, weights, fractions, and checksum of the log."""
        assert self.states() == [self.log.snapshot()] * self.clients

    def ask(self) -> list[Message]:
        """Returns a round's replies."""
        return self.grid.send_and_receive(self.strategy.configure_train(1, ArrayRecord(), ConfigRecord(), self.grid))
