"""The messages between server and clients of a fleet, as records of Flower.

A message of the server has the ConfigRecord of the aggregating strategy with these additional entries:

    zo-version   of this protocol
    zo-run       checksum at the end of the run's header
    zo-step      number of the step to evaluate, equal to the number of complete steps before it
    zo-first     number of the first of the records; with a snapshot, of the steps that are in it
    zo-records   records of the steps from zo-first to zo-step, as the log has them; not beside a snapshot
    zo-header    the log's header, for a client that does not have the run yet
    zo-snapshot  the state after zo-first steps, where that is shorter than the records up to there
    zo-reset     checksum of a client that has other steps than the server: it begins anew

A reply has the ConfigRecord ``fleet`` with the state of the client:

    version, run, step    as above; step is the client's number of complete steps; run is 0 without a state
    checksum              checksum of the log before the next record
    weights               checksum of the client's weights
    refused               reason of a refusal; missing without one
    records-only          true where it takes no snapshot, as a gateway of devices does not; else missing

and, where the step was evaluated, an ArrayRecord ``arrays`` with the float64 array ``differences`` [queries],
mean differences of the loss over the client's minibatch in nats, and a MetricRecord ``metrics`` with
``num-examples``, the samples of the minibatch, and ``loss``, its mean loss in nats.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from logging import WARNING
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.supercore import log

from ...core import CSettings
from ..member import Answer, FleetError, evaluations, mean_of

T = TypeVar("T")

#: Version of the protocol.
VERSION: Final = 1
DIFFERENCES: Final = "differences"
SAMPLES: Final = "num-examples"
UNIT: Final = 65536  # of losses in a nat
_STATE: Final = "fleet"


def run_of(header: bytes) -> int:
    """Returns the number of a run in messages: the checksum at the end of its log's header."""
    return int.from_bytes(header[-4:], "little")


@dataclass(frozen=True)
class Request:
    """A request of the server; see the module for the attributes."""

    run: int
    step: int
    first: int
    records: bytes = b""
    header: bytes = b""
    snapshot: bytes = b""
    reset: int | None = None
    version: int = VERSION

    def entries(self) -> dict[str, int | bytes]:
        """Returns the entries of a ConfigRecord without empty values."""
        values = {f"zo-{name}": value for name, value in dataclasses.asdict(self).items()}
        return {name: value for name, value in values.items() if value not in (None, b"")}

    @classmethod
    def read(cls, content: RecordDict) -> Request:
        """Reads the request in a message. Raises FleetError if the message has none, or one of another version."""
        record = next((r for r in content.config_records.values() if "zo-version" in r), None)
        if record is None:
            raise FleetError("the message is no fleet's: it has no zo-version")
        check_version(record["zo-version"])
        values: dict[str, Any] = {name: _integer(record, f"zo-{name}") for name in ("run", "step", "first")}
        values |= {name: _bytes(record, f"zo-{name}") for name in ("records", "header", "snapshot")}
        return cls(**values, reset=_integer(record, "zo-reset") if "zo-reset" in record else None)


@dataclass(frozen=True)
class State:
    """The state of a client; see the module for the attributes."""

    run: int = 0
    step: int = 0
    checksum: int = 0
    weights: int = 0
    refused: str = ""
    records_only: bool = False
    version: int = VERSION

    def record(self) -> RecordDict:
        """Returns a reply with the state only."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        if self.refused:
            values["refused"] = self.refused
        if self.records_only:
            values["records-only"] = True
        return RecordDict({_STATE: ConfigRecord(values)})

    @classmethod
    def read(cls, content: RecordDict) -> State:
        """Reads the state in a reply. Raises FleetError if the message has none, or one of another version."""
        record = content.get(_STATE)
        if not isinstance(record, ConfigRecord) or "version" not in record:
            raise FleetError("the reply is no fleet's: it has no version")
        check_version(record["version"])
        return cls(
            **{name: _integer(record, name) for name in _NUMBERS},
            refused=str(record.get("refused", "")),
            records_only=record.get("records-only") is True,
        )


_NUMBERS: Final = ("version", "run", "step", "checksum", "weights")


def check_version(version: Any) -> None:
    """Raises FleetError for a message of another version; None: it has none."""
    if version != VERSION:
        raise FleetError(f"the message is of version {version}, this program has version {VERSION}")


def _integer(record: ConfigRecord, name: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or not 0 <= value < 2**32:
        raise FleetError(f"`{name}` must be a number of 32 bits. Received: {value!r}.")
    return value


def _bytes(record: ConfigRecord, name: str) -> bytes:
    value = record.get(name, b"")
    if not isinstance(value, bytes):
        raise FleetError(f"`{name}` must be bytes. Received: {type(value).__name__}.")
    return value


def answer_records(answer: Answer, settings: CSettings, *, with_loss: bool) -> RecordDict:
    """Returns the records of a client's answer in a run, with 0 for the mean loss unless `with_loss` is set."""
    means = mean_of(answer, settings)
    loss = float(means[-1]) if with_loss else 0.0
    return RecordDict(
        {
            "arrays": ArrayRecord({DIFFERENCES: Array(means[:-1].copy())}),
            "metrics": MetricRecord({SAMPLES: answer.samples, "loss": loss}),
        }
    )


def answer_of(content: RecordDict, state: State, settings: CSettings) -> Answer | None:
    """Returns the answer in a reply's records, or None. Raises FleetError if the records are no valid answer."""
    if not content.array_records:
        return None
    arrays = list(content.array_records.values())
    if len(arrays) != 1 or list(arrays[0]) != [DIFFERENCES] or len(content.metric_records) != 1:
        raise FleetError(f"an answer has one array, {DIFFERENCES}, and one MetricRecord, this one has others")
    (metrics,) = content.metric_records.values()
    try:
        means = arrays[0][DIFFERENCES].numpy()
    except (TypeError, ValueError) as error:
        raise FleetError(f"{DIFFERENCES}: no array of NumPy's: {error}") from None
    if means.dtype != np.float64 or means.shape != (settings.queries,):
        raise FleetError(
            f"`{DIFFERENCES}` must be float64 [{settings.queries}]. Received: {means.dtype} {list(means.shape)}."
        )
    samples, loss = metrics.get(SAMPLES), metrics.get("loss")
    if not isinstance(samples, int) or samples < 1:
        raise FleetError(f"`{SAMPLES}` must be an integer. Received: {samples!r}.")
    if not isinstance(loss, float):
        raise FleetError(f"`loss` must be a floating-point number. Received: {loss!r}.")
    if not (np.isfinite(means).all() and np.isfinite(loss)):
        raise FleetError("a difference or the loss is not finite")
    most = 2.0**16  # nats, above any loss, so that the integers below fit 64 bits
    if max(abs(loss), *abs(means)) > most:
        raise FleetError(f"a difference or loss of {max(means.tolist() + [loss], key=abs):g} nats is out of range")
    sums = np.rint(means * samples * UNIT).astype(np.int64)
    return Answer(state.step, sums, round(loss * samples * evaluations(settings) * UNIT), samples)


@dataclass(frozen=True)
class Refusal:
    """A refused reply, or a message that a client refused."""

    step: int  #: number of the requested step or round.
    node: int  #: number of the client's node.
    reason: str  #: reason of the refusal.


def addressed(
    messages: Iterable[Message], entries: Callable[[int], Mapping[str, int | bytes]], arrays: ArrayRecord | None = None
) -> list[Message]:
    """Adds the entries of its node to each message, whose records become its own, and arrays if there are any."""
    found = []
    for message in messages:
        (config,) = message.content.config_records.values()
        own = ConfigRecord({**config, **entries(message.metadata.dst_node_id)})
        message.content = RecordDict({"config": own} if arrays is None else {"config": own, "arrays": arrays})
        found.append(message)
    return found


class Node(Protocol):
    """The state of a node in this process."""

    def reply(self, content: RecordDict, context: Context, *, trains: bool) -> RecordDict:
        """Handles a message: trains, or evaluates."""


def node_app(make: Callable[[Context], Node], mods: Sequence[Mod] = ()) -> ClientApp:
    """Returns a ClientApp whose nodes are made at their first message in a process."""
    app, nodes = ClientApp(), dict[int, Node]()

    def reply(message: Message, context: Context, *, trains: bool) -> Message:
        if context.node_id not in nodes:
            nodes[context.node_id] = make(context)
        return Message(nodes[context.node_id].reply(message.content, context, trains=trains), reply_to=message)

    app.train(mods=list(mods))(partial(reply, trains=True))
    app.evaluate()(partial(reply, trains=False))
    return app


def accepted(
    replies: Iterable[Message], read: Callable[[Message], T | None], refusals: list[Refusal], step: int
) -> list[tuple[Message, T]]:
    """Returns the replies in which a function finds a value. Its FleetErrors are recorded and logged as refusals."""
    found = []
    for reply in replies:
        try:
            value = read(reply)
        except FleetError as error:
            node = reply.metadata.src_node_id
            log(WARNING, "step %d: node %d is left out: %s", step, node, error)
            refusals.append(Refusal(step, node, str(error)))
            continue
        if value is not None:
            found.append((reply, value))
    return found


def state_of(reply: Message) -> State:
    """Returns the state in a reply. Raises FleetError if the client has failed, or no state of this version came."""
    if reply.has_error():
        raise FleetError(f"the client has failed: {reply.error.reason}")
    return State.read(reply.content)
