"""Strategy of a fleet: it computes steps from answers, and sends clients the records that they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from logging import INFO, WARNING

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from flwr.supercore import log

from ..fleet_log import FleetLog
from ..member import Answer, FleetError
from .messages import DIFFERENCES, Refusal, Request, State, T, accepted, addressed, answer_of, run_of, state_of


class FleetStrategy(Strategy):
    """Strategy of a ServerApp whose global state is a seed log. A round requests the differences of one step
    from clients, aggregates them with another strategy of Flower, and writes the step's record. The record
    updates the server's weights at once and each client's weights with the next message.

    A client receives the records that it lacks, or a snapshot if it is smaller. It answers with the checksum
    of its weights, which must equal the server's. Answers that do not fit are excluded; see `refusals`.

    Args:
        log: the run, which the strategy completes.
        aggregator: strategy that samples clients and aggregates their arrays: FedAvg (None; the log then
            equals that of one run on all minibatches together), FedMedian, FedTrimmedAvg, Krum, MultiKrum,
            Bulyan, or Flower's wrappers for differential privacy.
        min_answers: smallest number of answers for a step, >= 1; with fewer, the step is requested again.
        most_devices: largest number of minibatches in a client's answer; above 1 for gateways of several devices.
        evaluate_every: steps between two evaluations by the clients; 0: only after the last step.
        timeout: seconds that a round waits for answers. Later clients receive the records with the next message.
        reference: True to send an array of zeros with each message, the reference for the clipping of
            Flower's client-side mods.

    Attributes:
        refusals: refused messages so far.
        steps: number of complete steps of each known node.
        records_only: nodes that do not accept snapshots.
    """

    def __init__(
        self,
        log: FleetLog,
        aggregator: Strategy | None = None,
        *,
        min_answers: int = 1,
        most_devices: int = 1,
        evaluate_every: int = 0,
        timeout: float = 3600,
        reference: bool = False,
    ) -> None:
        if min_answers < 1 or most_devices < 1 or evaluate_every < 0:
            raise ValueError(
                "`min_answers` and `most_devices` must be at least 1, and `evaluate_every` at least 0. "
                f"Received: {min_answers}, {most_devices}, {evaluate_every}."
            )
        self.log, self.refusals = log, list[Refusal]()
        self._aggregator = FedAvg() if aggregator is None else aggregator
        self._min_answers, self._most_devices = min_answers, most_devices
        self._evaluate_every, self._timeout, self._reference = evaluate_every, timeout, reference
        self.steps: dict[int, int] = {}
        self.records_only: set[int] = set()
        self._resets: dict[int, int] = {}  # of a node that has others, its checksum
        self._checksums = log.checksum, log.weights_checksum  # after the steps so far

    def summary(self) -> None:
        """Logs the run and the aggregating strategy."""
        own = self.log
        log(INFO, "\t├──> Fleet:")
        log(INFO, "\t│\t├── Steps: %d of %d done", own.step, own.steps)
        log(INFO, "\t│\t├── Queries of a step: %d", own.settings.queries)
        log(INFO, "\t│\t└── Minibatch of a client: %d", self._minibatch)
        self._aggregator.summary()

    @property
    def _minibatch(self) -> int:
        return int(self.log.settings.batch * self.log.settings.parts)

    def weights(self) -> ArrayRecord:
        """Returns the weights of the fleet, arrays by tensor name."""
        return ArrayRecord({name: Array(np.asarray(w)) for name, w in self.log.weights[0].items()})

    def run(self, grid: Grid, evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None) -> Result:
        """Runs the remaining steps with the clients of a grid. `evaluate_fn` evaluates the weights at the server after
        each round, see `flwr.serverapp.strategy.Strategy.start`. Raises FleetError if no step was completed in as many
        rounds as there were remaining steps.
        """
        while True:
            before = self.log.step
            rounds = max(1, self.log.steps - before)
            result = self.start(grid, self.weights(), rounds, self._timeout, evaluate_fn=evaluate_fn)
            if self.log.step == self.log.steps:
                return result
            if self.log.step == before:
                raise FleetError(f"{rounds} rounds have brought no step beyond step {before}")

    # --- rounds ---------------------------------------------------------------------------------------------

    def _zeros(self) -> ArrayRecord:
        """Returns differences of zeros."""
        return ArrayRecord({DIFFERENCES: Array(np.zeros(self.log.settings.queries))})

    def _request(self, node: int) -> Request:
        """Returns the request to a node, with the data that it lacks."""
        own, first = self.log, self.steps.get(node)
        records, snapshot = own.lacking(first or 0, records_only=node in self.records_only)
        return Request(
            run_of(own.header),
            own.step,
            own.step if snapshot else first or 0,
            records,
            header=own.header if first is None else b"",
            snapshot=snapshot,
            reset=self._resets.get(node),
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Creates the messages that request the differences of a step."""
        if self.log.step == self.log.steps:
            return []
        messages = self._aggregator.configure_train(server_round, self._zeros(), config, grid)
        return self._addressed(messages)

    def _addressed(self, messages: Iterable[Message]) -> list[Message]:
        return addressed(
            messages, lambda node: self._request(node).entries(), self._zeros() if self._reference else None
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregates the answers, and writes the step's record. Returns the weights after the step, and the aggregated
        metrics; (None, None) if the step must be requested again.
        """
        own, taken = self.log, self._checked(replies, self._answer)
        answers = [answer for _, answer in taken]
        if len(answers) < self._min_answers:
            log(WARNING, "step %d: %d answers; it is asked for again", own.step, len(answers))
            return None, None
        arrays, metrics = self._aggregator.aggregate_train(server_round, [reply for reply, _ in taken])
        if arrays is None or metrics is None:
            log(WARNING, "step %d: the aggregator has made nothing of %d answers", own.step, len(answers))
            return None, None
        samples = sum(answer.samples for answer in answers)
        own.decide_mean(np.array([*arrays[DIFFERENCES].numpy(), metrics["loss"]], np.float64), samples)
        self._checksums = own.checksum, own.weights_checksum
        return self.weights(), metrics

    def _answer(self, reply: Message, state: State) -> Answer | None:
        answer = answer_of(reply.content, state, self.log.settings)
        if answer is not None:
            answer.check(self.log.settings, self.log.step)
            devices, rest = divmod(answer.samples, self._minibatch)
            if rest or devices > self._most_devices:
                raise FleetError(
                    f"an answer of {answer.samples} samples, where a minibatch has {self._minibatch} and a "
                    f"client may answer for {self._most_devices}"
                )
        return answer

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Creates the messages that request an evaluation; after the last step for all clients."""
        step, every = self.log.step, self._evaluate_every
        if step == self.log.steps:
            config["server-round"] = server_round
            nodes = grid.get_node_ids()
            messages = [Message(RecordDict({"config": config}), node, MessageType.EVALUATE) for node in nodes]
            return self._addressed(messages)
        if every and step and step % every == 0:
            return self._addressed(self._aggregator.configure_evaluate(server_round, self._zeros(), config, grid))
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Aggregates the clients' evaluations."""
        found = self._checked(replies, lambda reply, _: reply.content.metric_records or None)
        return self._aggregator.aggregate_evaluate(server_round, [reply for reply, _ in found]) if found else None

    # --- replies --------------------------------------------------------------------------------------------

    def _checked(
        self, replies: Iterable[Message], read: Callable[[Message, State], T | None]
    ) -> list[tuple[Message, T]]:
        """Reads the replies of clients with the server's state, and records the state of the others."""
        seen = set[int]()

        def checked(reply: Message) -> T | None:
            node, state = reply.metadata.src_node_id, state_of(reply)
            if node in seen:
                raise FleetError("a second reply to the same message")
            seen.add(node)
            return read(reply, state) if self._place(node, state) else None

        return accepted(replies, checked, self.refusals, self.log.step)

    def _place(self, node: int, state: State) -> bool:
        """Records the steps of a node. Returns whether it has all. Raises FleetError if the state does not belong to
        this run, or the node refused the message.
        """
        own = self.log
        here = state.run == run_of(own.header)
        self.steps.pop(node, None)
        if state.records_only:
            self.records_only.add(node)
        self._resets.pop(node, None)
        if here and self._is_ours(state):
            self.steps[node] = state.step
        elif here:
            self._resets[node] = state.checksum
        if state.refused:
            raise FleetError(f"the client refuses the message: {state.refused}")
        if not state.run:
            log(INFO, "node %d has no state: it gets the run from its beginning", node)
            return False
        if not here:
            raise FleetError("a reply of another run")
        if state.step != own.step:
            raise FleetError(f"a reply of step {state.step}, where step {own.step} is asked for")
        if node in self._resets:
            raise FleetError(
                f"other weights after step {own.step}, checksums {state.checksum:08x} {state.weights:08x}; "
                f"the server's are {own.checksum:08x} {own.weights_checksum:08x}, and it gets them anew"
            )
        return True

    def _is_ours(self, state: State) -> bool:
        """Returns whether a client has steps of this log and the correct weights."""
        own = self.log
        if state.step > own.step:
            return False
        if state.step == own.step:
            return (state.checksum, state.weights) == self._checksums
        return state.checksum == own.checksum_after(state.step)


def server_app(
    make: Callable[[Context], FleetStrategy],
    evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
) -> ServerApp:
    """Returns a ServerApp that runs the steps of a fleet.

    Args:
        make: function that creates the strategy with its log, new or resumed.
        evaluate_fn: function that evaluates the weights at the server after each round, see
            `flwr.serverapp.strategy.Strategy.start`.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = make(context)
        try:
            strategy.run(grid, evaluate_fn)
        finally:
            strategy.log.close()

    return app
