"""Executors of weight perturbation: they run the invokes of a control unit, locally or on workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model
from ..core import FLAG_CHECKSUM, FLAG_LOSS, Control, CSettings, Request, without_flag
from ..data import Data
from ..logs import Log
from ..logs.replay import Arrays, Replay
from ..runtime import Runtime, load
from .costs import block_segments
from .evaluation import Evaluation, evaluate
from .workers import Workers

_Part = tuple[list[NDArray[Any]], NDArray[Any]]

# Bytes of a minibatch that is kept for a step; of a larger one each part is gathered when it is fed.
_MOST_BYTES: Final = 1 << 26


# Largest size of an invoke's input if it passes several batches: more does not stay in a core's cache between layers.
_MOST_OF_INVOKE: Final = 1 << 20


def together_at_most(batch: int, sample_bytes: int) -> int:
    """Returns the number of batches that one invoke passes forward at most, at least 1."""
    return max(1, _MOST_OF_INVOKE // max(1, batch * sample_bytes))


class _MinibatchParts:
    """Caches the samples of `count` parts of a minibatch, since all queries of a step read the same ones."""

    def __init__(self, data: Data, batch: int, count: int) -> None:
        self._inputs, self._labels = data.inputs, data.labels
        every = sum(x[:1].nbytes for x in [*data.inputs, data.labels]) * batch * count
        # Memory that one step's parts leave to the next one's: fresh memory is slower than the copy into it.
        self._free = [self._room(batch) for _ in range(count if every <= _MOST_BYTES else 1)]
        self._gathered: dict[int, _Part] = {}

    def _room(self, batch: int) -> _Part:
        inputs = [np.empty((batch, *x.shape[1:]), x.dtype) for x in self._inputs]
        return inputs, np.empty((batch, *self._labels.shape[1:]), self._labels.dtype)

    def forget(self) -> None:
        """Empties the cache, after a step or a change of the samples."""
        self._free += self._gathered.values()
        self._gathered = {}

    def find(self, first: int) -> _Part | None:
        return self._gathered.get(first)

    def gather(self, first: int, chosen: NDArray[np.uint32]) -> _Part:
        """Copies the samples of these numbers into the cache, by the position of the first one, and returns them."""
        if not self._free:
            self.forget()
        inputs, labels = room = self._free.pop()
        for values, own in zip(self._inputs, inputs, strict=True):
            np.take(values, chosen, axis=0, out=own, mode="clip")  # other modes take a copy more
        np.take(self._labels, chosen, axis=0, out=labels, mode="clip")
        self._gathered[first] = room
        return room


class LocalExecutor:
    """Runs the invokes that a control unit requests, in this process. If its settings have more samples than `data`,
    some samples are used more often. `samples` are those of an invoke: one or several parts of the minibatch.
    """

    def __init__(self, runtime: Runtime, control: Control, data: Data) -> None:
        self._runtime, self._control, self._count = runtime, control, len(data)
        self.samples = _samples_of_invoke(runtime, control.settings, data)
        minibatch = int(control.settings.batch) * int(control.settings.parts)
        self._parts = _MinibatchParts(data, self.samples, minibatch // self.samples)
        self._fed: int | None = None  # first sample of the part that was fed last, until the step ends

    def invokes(self) -> Iterator[NDArray[np.int32]]:
        """Runs the invokes of a step, and yields their losses, which the caller reports before the next one."""
        while (request := self._control.next()) is not None:
            yield self.losses(request, request.start_segment)

    def losses(self, request: Request, start: int) -> NDArray[np.int32]:
        """Invokes from a segment on. Returns losses, int32 [samples], unit 2^-16, valid until the next invoke."""
        first = request.first_sample
        if first != self._fed:
            part = self._parts.find(first)
            if part is None:
                chosen = self._control.samples(first, self.samples)
                part = self._parts.gather(first, chosen % np.uint32(self._count))
            self._runtime.feed(*part)
            self._fed = first
        self._runtime.invoke(request.words, start=start, checked=True)
        return self._runtime.losses()

    def end_step(self) -> None:
        """Drops cached samples, after a step or a change of the samples."""
        self._parts.forget()
        self._fed = None

    def settle(self) -> None:
        """Updates the runtime's weights to those after the last complete step."""
        words = self._control.settle()
        if words is not None:
            # Adding up a checksum of the weights would take longer than to move them.
            self._runtime.execute(without_flag(words, FLAG_CHECKSUM))

    def settled(self) -> None:
        """Notes that the runtime already has the weights after the last complete step."""

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last complete step. Call `settle` first."""
        return evaluate(self._runtime, data)


def _samples_of_invoke(runtime: Runtime, settings: CSettings, data: Data) -> int:
    """Returns the number of samples in one invoke: as many parts of a minibatch as fit, a divisor of their number."""
    parts = int(settings.parts)
    most = together_at_most(runtime.batch, sum(x[:1].nbytes for x in data.inputs))
    most = min(parts, most) if runtime.takes(2 * runtime.batch) else 1
    return int(settings.batch) * max(count for count in range(1, most + 1) if parts % count == 0)


@dataclass(frozen=True)
class Steps:
    """Steps of a seed log, which bring a replica to the weights of the run."""

    first: int  # number of the first step of `coefficients`
    coefficients: list[list[int]]  # coefficients of each complete step, one for each query, unit 2^-16 LSB
    mean_square: int  # the control unit's running mean of d^2 after them, unit 2^-32
    # weights and fractions before step `first`; None if the replica already has them, or if they are those of the model
    begin: tuple[Arrays, Arrays] | None = None

    @property
    def end(self) -> int:
        """Number of complete steps after `coefficients`."""
        return self.first + len(self.coefficients)


class _Follower:
    """Applies recorded steps to a runtime's weights, with the same integer arithmetic as the graph's update op."""

    def __init__(self, runtime: Runtime, model: Model, settings: CSettings) -> None:
        self._runtime, self._settings = runtime, settings
        self._replay = Replay(model, runtime.all_weight_views())

    def take(self, steps: Steps) -> None:
        if steps.begin is not None:
            self._runtime.write_weights(*steps.begin)
        elif not steps.first:
            self._runtime.execute(self._runtime.command(loss=False).restore())
        if steps.coefficients:
            self._replay.add(Log.from_steps(self._settings, b"", steps.coefficients, steps.first))


class WorkerExecutor:
    """Distributes the invokes of a step among workers, which it starts, and which hold copies of model, weights and
    data.

    Workers return losses. The control unit, which is before its first step, computes the step from them and sends its
    record to the workers, so log and weights do not depend on their number. A dead worker is replaced; the new one
    receives the last weights that the run keeps, and the records since: `steps_since` takes the number of steps that a
    replica has applied (None if that is unknown) and returns the missing steps.
    """

    def __init__(
        self,
        workers: Workers,
        runtime: Runtime,
        model: Model,
        control: Control,
        data: Data,
        steps_since: Callable[[int | None], Steps],
    ) -> None:
        self._workers, self._control, self._steps_since = workers, control, steps_since
        self.samples = _samples_of_invoke(runtime, control.settings, data)
        self.invokes_of_step = self._count_invokes()
        workers.start(_Replica, model.to_bytes(), runtime.name, bytes(control.settings), data)
        self._seen: list[int | None] = [None] * workers.count
        self._evaluated: list[Data | None] = [None] * workers.count  # of which each one has its part
        self._follower = _Follower(runtime, model, control.settings)
        self._settled: int | None = 0  # whole steps that are in this runtime's weights

    def _count_invokes(self) -> int:
        nothing, count = np.zeros(self.samples, np.int32), 1
        self._control.next()
        while self._control.report(nothing) is None:
            self._control.next()
            count += 1
        self._control.resume(0, 0)
        return count

    def invokes(self) -> Iterator[NDArray[np.int32]]:
        """Runs the invokes of a step on the workers."""
        ends = self._ends(self.invokes_of_step)
        parts = self._call("losses", len(ends) - 1, lambda worker: (ends[worker], ends[worker + 1]))
        for losses in itertools.chain.from_iterable(parts):
            self._control.next()
            yield losses

    def end_step(self) -> None:
        """Does nothing: replicas drop their minibatch themselves."""

    def settle(self) -> None:
        """Applies the steps since the last call to the runtime's weights."""
        steps = self._steps_since(self._settled)
        self._follower.take(steps)
        self._settled = steps.end

    def settled(self) -> None:
        """Notes that the runtime already has the weights after the last complete step."""
        self._settled = self._steps_since(None).end

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights on the workers, each on a part of the samples, which it keeps for the next call."""
        ends = self._ends(len(data))

        def part(worker: int) -> tuple[Data | None]:
            if self._evaluated[worker] is data:
                return (None,)
            return (data.take(np.arange(ends[worker], ends[worker + 1])),)

        found: list[Evaluation] = self._call("evaluate_part", len(ends) - 1, part)
        self._evaluated[: len(found)] = [data] * len(found)
        return sum(found[1:], start=found[0])

    def _ends(self, count: int) -> list[int]:
        """Returns the boundaries of the workers' shares of `count` items."""
        shares = min(self._workers.count, count)
        return [count * k // shares for k in range(shares + 1)]

    def _call(self, method: str, shares: int, part: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """Calls a method of the first replicas, with the steps that each one lacks and its part of the work."""

        def call(worker: int) -> tuple[Any, ...]:
            return self._steps_since(self._seen[worker]), *part(worker)

        def call_anew(worker: int) -> tuple[Any, ...]:
            self._seen[worker], self._evaluated[worker] = None, None
            return call(worker)

        try:
            found = self._workers.call(method, [call(k) for k in range(shares)], call_anew)
        except BaseException:  # the state of the workers is unknown after an interrupted call
            self._seen = [None] * self._workers.count
            self._evaluated = [None] * self._workers.count
            raise
        self._seen[:shares] = [self._steps_since(None).end] * shares
        return found


class _Replica:
    """The copy of a run in a worker."""

    def __init__(self, model: bytes, runtime: str, settings: bytes, data: Data) -> None:
        loaded = load_model(model)
        self._runtime = load(loaded, runtime)
        own, metadata = CSettings.from_buffer_copy(settings), self._runtime.metadata
        self._control = Control(own, metadata.command_words, block_segments(metadata))
        self._executor = LocalExecutor(self._runtime, self._control, data)
        self._follower = _Follower(self._runtime, loaded, own)
        self._evaluated: Data  # by the last call of `evaluate_part`

    def losses(self, steps: Steps, first: int, last: int) -> list[NDArray[np.int32]]:
        """Returns the losses of invokes `first` to `last - 1` of the step after `steps`. The weights do not change."""
        self._take(steps)
        found: list[NDArray[np.int32]] = []
        nothing = np.zeros(self._executor.samples, np.int32)
        for number in range(last):
            request = self._control.next()
            assert request is not None  # a step has that many
            if number < first:  # its moves are on the way to the share's own
                self._runtime.execute(without_flag(request.words, FLAG_LOSS))
            else:
                # The invoke before the first one has left nothing to start from.
                found.append(self._executor.losses(request, request.start_segment if found else 0).copy())
            if number + 1 < last:
                self._control.report(nothing)
        self._runtime.execute(self._control.abandon(executed=True))
        self._executor.end_step()
        return found

    def evaluate_part(self, steps: Steps, data: Data | None) -> Evaluation:
        """Evaluates the weights after `steps` on samples; None: on the samples of the last call."""
        self._take(steps)
        if data is not None:
            self._evaluated = data
        return evaluate(self._runtime, self._evaluated)

    def _take(self, steps: Steps) -> None:
        self._follower.take(steps)
        self._control.resume(steps.end, steps.mean_square)
