"""Federated averaging of int8 models for any algorithm: clients train for some steps and send their weight changes.

Updates of node perturbation depend on data, so they cannot be sent as seeds. A message of the server has
these entries in its ConfigRecord, in addition to those of the aggregating strategy:

    zo-version   version of this protocol
    zo-model     fingerprint of the ZO model
    zo-round     rounds done
    zo-weights   the weights of that round, see `tflm_zo.fleet.averaged_weights`
    zo-from      round whose weights it leads from; missing where it stands for itself
    zo-checksum  checksum of the weights of the round

A reply has the ConfigRecord ``fleet`` (`messages.State`, with rounds for steps), and ``zo-delta`` in a
ConfigRecord ``delta``: by how much the client's weights have changed, with a MetricRecord ``metrics`` that
has ``num-examples``, and loss and accuracy of the client's own samples.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy

from ...converters import Model, WeightArray, initial_weights, load_model, read_metadata
from ...core import fnv1a
from ...data import Labels, Samples, prepare
from ...logs import fingerprint
from ...logs.replay import checksum_of
from ...training import Settings, Trainer
from ..averaged_weights import AveragedWeights, packed, unpacked
from ..member import FleetError
from .messages import SAMPLES, VERSION, Refusal, State, accepted, addressed, check_version, node_app, state_of

# Rounds whose weights a server keeps, so that a client that comes back gets a difference.
_KEPT_ROUNDS: Final = 16
_KEPT: Final = "tflm-zo"  # name of the record in a node's state
_DELTA: Final = "delta"


def _id_of(model: Model) -> int:
    """Returns a model's number in replies: 32 bits of its fingerprint."""
    return int.from_bytes(fingerprint(model)[:4], "little")


class AveragingStrategy(Strategy):
    """Strategy of a ServerApp that averages the weight changes of clients (McMahan et al., Communication-Efficient
    Learning of Deep Networks from Decentralized Data, 2017, Algorithm 1, with changes in int8).

    Args:
        weights: the fleet's weights, whose rounds continue.
        aggregator: strategy that samples clients and aggregates their changes: FedAvg (None), or any of
            Flower's that only read arrays and ``num-examples``.

    Attributes:
        refusals: refused messages so far.
    """

    def __init__(self, weights: AveragedWeights, aggregator: Strategy | None = None) -> None:
        self.weights, self.refusals = weights, list[Refusal]()
        self._aggregator = FedAvg() if aggregator is None else aggregator
        self._rounds = {weights.round: weights.weights}
        self._has: dict[int, int] = {}  # of each node, the round whose weights it has

    def summary(self) -> None:
        """Logs the aggregating strategy."""
        self._aggregator.summary()

    def arrays(self) -> ArrayRecord:
        """Returns the fleet's weights, by tensor name, for `start`."""
        return ArrayRecord({name: Array(np.asarray(w)) for name, w in self.weights.weights.items()})

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Creates the messages that request a round."""
        return addressed(self._aggregator.configure_train(server_round, self._nothing(), config, grid), self._request)

    def _nothing(self) -> ArrayRecord:
        return ArrayRecord({n: Array(np.zeros(w.shape)) for n, w in self.weights.weights.items()})

    def _request(self, node: int) -> dict[str, int | bytes]:
        own, number = self.weights, self._has.get(node, -1)
        before = self._rounds.get(number)
        entries: dict[str, int | bytes] = {
            "zo-version": VERSION,
            "zo-model": fingerprint(own.model),
            "zo-round": own.round,
            "zo-weights": packed(own.weights, before),
            "zo-checksum": own.checksum,
        }
        return entries if before is None else entries | {"zo-from": number}

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregates the changes, and updates the weights. Returns the weights after the round, and the aggregated
        metrics; (None, None) without answers.
        """
        taken = [reply for reply, _ in accepted(replies, self._with_arrays, self.refusals, self.weights.round)]
        if not taken:
            return None, None
        arrays, metrics = self._aggregator.aggregate_train(server_round, taken)
        if arrays is None:
            return None, metrics
        self.weights.move({name: array.numpy() for name, array in arrays.items()})
        self._rounds[self.weights.round] = self.weights.weights
        self._rounds.pop(self.weights.round - _KEPT_ROUNDS, None)
        return self.arrays(), metrics

    def _with_arrays(self, reply: Message) -> Message:
        """Returns the reply with its change as arrays, for aggregating strategies. Raises FleetError if the client has
        failed, or its reply does not fit the model or the round.
        """
        self._check_place(reply)
        record, metrics = reply.content.get(_DELTA), reply.content.get("metrics")
        data = record.get("zo-delta") if isinstance(record, ConfigRecord) else None
        samples = metrics.get(SAMPLES) if isinstance(metrics, MetricRecord) else None
        if metrics is None or not isinstance(data, bytes) or not isinstance(samples, int) or samples < 1:
            raise FleetError(f"a reply without zo-delta or {SAMPLES}")
        changes = unpacked(data, self.weights.weights, whole=True)
        arrays = {name: Array(change.astype(np.float64)) for name, change in changes.items()}
        reply.content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
        return reply

    def _check_place(self, reply: Message) -> None:
        """Records the weights that a node has. Raises FleetError if the node has failed, has refused the message, or
        has other weights than the fleet.
        """
        node = reply.metadata.src_node_id
        self._has.pop(node, None)
        state = state_of(reply)
        if state.refused:
            raise FleetError(f"the client refuses the message: {state.refused}")
        own = self.weights
        if (state.run, state.step, state.weights) != (_id_of(own.model), own.round, own.checksum):
            raise FleetError(f"a reply of round {state.step} of other weights, where round {own.round} is next")
        self._has[node] = own.round

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Creates the messages that request an evaluation."""
        return addressed(
            self._aggregator.configure_evaluate(server_round, self._nothing(), config, grid), self._request
        )

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Aggregates the clients' evaluations."""
        found = [reply for reply, _ in accepted(replies, self._with_metrics, self.refusals, self.weights.round)]
        return self._aggregator.aggregate_evaluate(server_round, found) if found else None

    def _with_metrics(self, reply: Message) -> Message:
        self._check_place(reply)
        metrics = reply.content.get("metrics")
        if not isinstance(metrics, MetricRecord):
            raise FleetError("a reply without metrics")
        reply.content = RecordDict({"metrics": metrics})
        return reply


@dataclasses.dataclass(frozen=True)
class AveragingClient:
    """Model, settings and data of a client."""

    #: the ZO model, the same file as at the server: the model, its bytes or its path.
    model: Model | bytes | str | os.PathLike[str]
    #: settings of the client's run in each round, e.g. ``algorithms.weight()``. The seed is combined with the numbers
    #: of round and client.
    settings: Settings
    steps: int  #: steps of a round.
    x: Samples  #: the client's samples, as for `tflm_zo.Trainer.fit`.
    y: Labels | None = None  #: their labels, as for `tflm_zo.Trainer.fit`.
    runtime: str = "litert"  #: name of the runtime that runs the model.


def averaging_app(make: Callable[[Context], AveragingClient]) -> ClientApp:
    """Returns a ClientApp that trains for some steps in each round, and answers with its weight changes. `make` creates
    a node's client; it is called with the node's first message in a process.
    """
    return node_app(lambda context: _Member(make(context), context.node_id))


class _Member:
    """The state of a node in this process."""

    def __init__(self, client: AveragingClient, node: int) -> None:
        self._client, self._node = client, node
        self._model = load_model(client.model)
        self._trainable = read_metadata(self._model).trainable

    def reply(self, content: RecordDict, context: Context, *, trains: bool) -> RecordDict:
        """Handles a message: trains or evaluates the round's weights."""
        try:
            number, weights = self._taken(content, context)
        except FleetError as error:
            return State(refused=str(error)).record()
        checksum = checksum_of(self._trainable, weights, {})
        reply = State(_id_of(self._model), number, checksum, checksum).record()
        trainer = self._trainer(number)
        data = prepare(trainer.runtime, self._client.x, self._client.y)
        if trains:
            trainer.fit(data, steps=self._client.steps, initial_weights=weights, keep="last")
            delta = packed(trainer.runtime.read_weights(), weights)
            reply[_DELTA] = ConfigRecord({"zo-delta": delta})
        else:
            trainer.runtime.write_weights(weights)
        reply["metrics"] = MetricRecord({SAMPLES: len(data), **trainer.evaluate(data)})
        return reply

    def _trainer(self, number: int) -> Trainer:
        given = self._client.settings
        seed = fnv1a(np.array([given.seed, number, self._node], "<u8").tobytes())
        return Trainer(self._model, dataclasses.replace(given, seed=seed), runtime=self._client.runtime)

    def _taken(self, content: RecordDict, context: Context) -> tuple[int, dict[str, WeightArray]]:
        """Returns the round's number and weights, and stores them in the node. Raises FleetError if the message is
        damaged, old, or belongs to another version or model. Nothing has changed.
        """
        (config,) = content.config_records.values()
        check_version(config.get("zo-version"))
        if config.get("zo-model") != fingerprint(self._model):
            raise FleetError(f"the fleet's model is another one than this client's, {fingerprint(self._model).hex()}")
        number, data, wanted = (config.get(name) for name in ("zo-round", "zo-weights", "zo-checksum"))
        if not isinstance(number, int) or not isinstance(data, bytes):
            raise FleetError("the message has no zo-round or no zo-weights")
        own = initial_weights(self._model)
        kept = context.state.get(_KEPT)
        has = kept.get("round") if isinstance(kept, ConfigRecord) else None
        if isinstance(has, int) and number < has:
            raise FleetError(f"an old message: it is of round {number}, and this client has round {has}")
        before: dict[str, Any] = dict(own)
        if "zo-from" in config:
            if has != config["zo-from"] or not isinstance(kept, ConfigRecord):
                raise FleetError(f"the weights of round {config['zo-from']!r}, which these lead from, are lost here")
            state = kept["weights"]
            assert isinstance(state, bytes)
            before = unpacked(state, own, whole=True)
        found = unpacked(data, before, whole="zo-from" not in config)
        weights = {name: found[name].astype(own[name].dtype) for name in own}
        if checksum_of(self._trainable, weights, {}) != wanted:
            raise FleetError("damaged weights: their checksum is another one than the server's")
        context.state[_KEPT] = ConfigRecord({"round": number, "weights": packed(weights)})
        return number, weights
