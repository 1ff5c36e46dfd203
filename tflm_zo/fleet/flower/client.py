"""Clients of a fleet: they follow the server's log and evaluate steps on their data or devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flwr.app import ConfigRecord, Context, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from ...converters import Model, load_model
from ...data import Labels, Samples
from ...link.link import Port
from ..gateway import Gateway
from ..lines import Lines
from ..member import FleetError, Replica
from .messages import SAMPLES, Request, State, answer_records, node_app, run_of


@dataclass(frozen=True)
class GatewayClient:
    """A client whose devices evaluate the steps, each on its own samples."""

    #: the ZO model that the devices' firmware was generated from: the model, its bytes or its path.
    model: Model | bytes | str | os.PathLike[str]
    lines: Mapping[str, Callable[[], Port]]  #: function that opens the line to a device, by the device's name.
    log: str | os.PathLike[str]  #: path of a file with the run's records, for devices that lack them.
    deadline: float = 60.0  #: time limit of the devices for a step, seconds.
    share_loss: bool = True  #: True to send the mean loss of the minibatches; False sends 0.

    def member(self, model: Model, header: bytes) -> Gateway:
        """Creates the follower of the run with this header."""
        return Gateway(model, header, self.lines, log=self.log, deadline=self.deadline)

    def evaluation(self, member: Gateway) -> RecordDict:
        """Updates all devices to the last step. Devices do not evaluate weights."""
        member.update()
        return RecordDict()


def gateway_of(context: Context) -> GatewayClient | None:
    """Returns the gateway of a node's configuration, which ``tflm-zo gateway`` writes; None for other nodes. Raises
    ValueError if the configuration is incomplete.
    """
    config = {key: str(value) for key, value in context.node_config.items()}
    if "zo-lines" not in config:
        return None
    missing = [key for key in ("zo-model", "zo-log") if key not in config]
    if missing:
        raise ValueError(f"the node's configuration lacks {' and '.join(missing)}: start it by tflm-zo gateway")
    lines = Lines.read(config["zo-lines"])
    deadline = float(config.get("zo-deadline", 60.0))
    return GatewayClient(config["zo-model"], lines.open, config["zo-log"], deadline)


_KEPT: Final = "tflm-zo"  # name of the record in a node's state


@dataclass(frozen=True)
class FleetClient:
    """Model and data of a client."""

    #: the ZO model, the same file as at the server: the model, its bytes or its path.
    model: Model | bytes | str | os.PathLike[str]
    x: Samples  #: the client's samples, as for `tflm_zo.Trainer.fit`.
    y: Labels | None = None  #: their labels, as for `tflm_zo.Trainer.fit`.
    #: samples, or samples and labels, for evaluations that the server requests; None: the training samples.
    validation: Samples | tuple[Samples, Labels | None] | None = None
    runtime: str = "litert"  #: name of the runtime that runs the model.
    share_loss: bool = True  #: True to send the mean loss of the minibatch, which only the log shows; False sends 0.

    def member(self, model: Model, header: bytes) -> Replica:
        """Creates the follower of the run with this header."""
        return Replica(model, header, self.x, self.y, self.runtime)

    def evaluation(self, member: Replica) -> RecordDict:
        """Evaluates a member of `member` for the server."""
        samples: tuple[Samples, Labels | None] = (self.x, self.y)
        if isinstance(self.validation, tuple):
            samples = self.validation
        elif self.validation is not None:
            samples = (self.validation, None)
        found = member.evaluate(*samples)
        return RecordDict({"metrics": MetricRecord({SAMPLES: found.labelled, **found.values()})})


def client_app(make: Callable[[Context], FleetClient | GatewayClient], *, mods: Sequence[Mod] = ()) -> ClientApp:
    """Returns a ClientApp for a fleet's server. Flower may run each message in a new process, so the node's state holds
    the client's weights. If they are lost, the client reports it, and the server sends the missing data.

    Args:
        make: function that creates a node's client; called with the node's first message in a process.
        mods: Flower's mods of answers, such as those of differential privacy.
    """
    return node_app(lambda context: _Member(make(context)), mods)


class _Member:
    """The state of a node in this process."""

    def __init__(self, client: FleetClient | GatewayClient) -> None:
        self._client = client
        self._model = load_model(client.model)
        self._replica: Replica | Gateway | None = None

    def reply(self, content: RecordDict, context: Context, *, trains: bool) -> RecordDict:
        """Updates the replica to the requested step, and answers for it or evaluates its weights."""
        try:
            request = Request.read(content)
            replica = self._caught_up(request, context)
        except FleetError as error:
            return _state(self._kept(context), str(error)).record()
        # A failure does not change the kept state.
        self._replica = None
        reply = _state(replica).record()
        if replica is not None and replica.step == request.step:
            if not trains:
                reply.update(self._client.evaluation(replica))  # type: ignore[arg-type]
            elif replica.step < replica.settings.steps:
                reply.update(answer_records(replica.answer(), replica.settings, with_loss=self._client.share_loss))
        self._replica = replica
        return reply

    # --- the replica ----------------------------------------------------------------------------------------

    def _caught_up(self, request: Request, context: Context) -> Replica | Gateway | None:
        """Returns the replica after the request's records; None if there is no replica and the request has no header.
        Raises FleetError if the request is damaged, old, or belongs to another model or run. Nothing has changed.
        """
        replica = self._kept(context)
        if request.header and run_of(request.header) != request.run:
            raise FleetError("the run's header is damaged: it is not the one that the message names")
        if replica is not None and (run_of(replica.header) != request.run or request.reset == replica.checksum):
            replica = None
        if replica is not None and request.step < replica.step:
            raise FleetError(
                f"an old message: it asks for step {request.step}, and this client has {replica.step} steps"
            )
        if replica is None:
            if not request.header:
                return None
            replica = self._client.member(self._model, request.header)
            self._keep(replica, context)  # a gateway has steps already, which it is to say
        first = request.first
        if request.snapshot:
            replica.take_snapshot(request.snapshot)
            first = replica.step
        if replica.step >= first:
            replica.take(request.records[(replica.step - first) * replica.record_bytes :])
        self._keep(replica, context)
        return replica

    def _kept(self, context: Context) -> Replica | Gateway | None:
        """Returns the replica in the node's state, or None."""
        record = context.state.get(_KEPT)
        if not isinstance(record, ConfigRecord):
            self._replica = None
            return None
        header, snapshot = record["header"], record["snapshot"]
        assert isinstance(header, bytes) and isinstance(snapshot, bytes)
        replica, self._replica = self._replica, None
        if replica is None or replica.header != header:
            replica = self._client.member(self._model, header)
        if record["checksum"] != replica.checksum or record["step"] != replica.step:
            replica.take_snapshot(snapshot)
        self._replica = replica
        return replica

    def _keep(self, replica: Replica | Gateway, context: Context) -> None:
        context.state[_KEPT] = ConfigRecord(
            {
                "header": replica.header,
                "snapshot": replica.snapshot(),
                "checksum": replica.checksum,
                "step": replica.step,
            }
        )


def _state(replica: Replica | Gateway | None, refused: str = "") -> State:
    if replica is None:
        return State(refused=refused)
    weights, records_only = replica.weights_checksum, not replica.takes_snapshots
    return State(run_of(replica.header), replica.step, replica.checksum, weights, refused, records_only)
