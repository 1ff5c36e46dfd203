"""A gateway: one client of a fleet that stands for a cohort of devices."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from ..converters import Model
from ..core import SEED_LOG_HEADER_BYTES, SeedLogHeader
from ..core.loader import constants
from ..link import FleetState, Link, LinkError, NoAnswerError, RefusedError
from ..link.link import Port
from ..logs.layout import ending
from .member import Answer, FleetError, Position, sum_of

_LOG: Final = logging.getLogger("tflm_zo.fleet")
# Seconds between two looks at a device that evaluates, at least and at most; between them, a part of the time
# that it has taken.
_LOOK, _MOST_LOOK, _SHARE = 0.05, 1.0, 8
# How often an evaluation that fails is begun anew.
_TRIES: Final = 3
# Seconds for which a device that did not answer last time is waited for when the others are done, and all of
# them are at the deadline.
_GRACE: Final = 0.5
_OTHER_RUN: Final = "it has steps of another run: settings, model or records differ from the fleet's"
_REASONS: Final = {
    constants.ZO_ERROR_OPCODE: "its program is no member of a fleet: it does not call zo_link_add_fleet",
    constants.ZO_ERROR_LOG: _OTHER_RUN,
    constants.ZO_ERROR_SAMPLE: "it cannot read a sample",
    constants.ZO_ERROR_LABEL: "a sample of its own has a label that the model does not know",
    constants.ZO_ERROR_STORE: "it cannot read or write its log",
}


def reason_of(error: Exception) -> str:
    """Why a device is left out."""
    if isinstance(error, RefusedError):
        return _REASONS.get(error.status, str(error))
    return str(error)


class Gateway(Position):
    """Stands for devices as `Replica` does for data: it takes the fleet's records and answers for a step.
    The devices evaluate it all at the same time, each on samples of its own, and what they find is added up.

    Devices are sent the records that they lack, so one that was asleep or has lost its power catches up.
    What is no device of this run, says something that cannot be, or does not answer in time is left out of
    the step by name.

    Args:
        model: the ZO model that the devices' firmware was generated from.
        header: header of the run's seed log, 132 bytes.
        lines: what opens the line to a device, by the device's name.
        log: path of the file that keeps the records for devices which lack them, a seed log; one of the same
            run is gone on with. None: they are kept in memory.
        deadline: seconds that devices have for a step.

    Attributes:
        left_out: why a device is not in the last answer, by its name.

    Raises:
        FleetError: see `Position`; the log is of another run.
        OSError: the log cannot be read or written.
    """

    takes_snapshots: ClassVar[bool] = False

    def __init__(
        self,
        model: Model,
        header: bytes,
        lines: Mapping[str, Callable[[], Port]],
        *,
        log: str | os.PathLike[str] | None = None,
        deadline: float = 60.0,
    ) -> None:
        super().__init__(model, header)
        if not lines:
            raise FleetError("a gateway without a device")
        found = SeedLogHeader.from_bytes(header)
        assert found is not None  # see Position
        self._mark = found.fingerprint
        self._deadline, self._records = deadline, bytearray()
        self._path = None if log is None else Path(log)
        self._notes = None if log is None else Path(f"{os.fspath(log)}.devices.json")
        self._resume()
        silent = self._silent_ones()
        self._devices = {name: _Device(name, line, name in silent) for name, line in lines.items()}
        self._pool = ThreadPoolExecutor(len(lines), "device")
        self._busy: dict[str, Future[Any]] = {}
        self._weights_now = self.weights_checksum  # after the last step, once for all devices
        self.left_out: dict[str, str] = {}

    # --- records ------------------------------------------------------------------------------------

    def _resume(self) -> None:
        if self._path is None:
            return
        if not self._path.exists() or self._path.stat().st_size < SEED_LOG_HEADER_BYTES:
            self._path.write_bytes(self.header)
            return
        data = self._path.read_bytes()
        if data[:SEED_LOG_HEADER_BYTES] != self.header:
            raise FleetError(
                f"{self._path} is the log of another run: the gateway needs another --log for this"
            )
        rest = data[SEED_LOG_HEADER_BYTES:]
        whole = len(self._following(rest)) * self.record_bytes
        self._records += rest[:whole]
        super().take(bytes(self._records))
        if whole < len(rest):  # a write that was interrupted
            with self._path.open("r+b") as file:
                file.truncate(SEED_LOG_HEADER_BYTES + whole)

    def take(self, records: bytes) -> int:
        """Takes the records of the steps that follow; devices get them with the next question.

        Args:
            records: whole records, as the seed log has them.

        Returns:
            Number of steps.

        Raises:
            FleetError: a record does not follow, which the message says why. None has been taken.
            OSError: the log cannot be written. None has been taken, then.
        """
        steps = self._following(records)
        if self._path is not None and len(steps) * self.record_bytes == len(records):
            with self._path.open("r+b") as file:
                file.seek(SEED_LOG_HEADER_BYTES + len(self._records))
                file.write(records)
                file.flush()
                os.fsync(file.fileno())
        taken = super().take(records)
        self._records += records
        return taken

    def snapshot(self) -> bytes:
        """Nothing: the log has all that a gateway goes on from."""
        return b""

    def take_snapshot(self, data: bytes) -> None:
        """Refuses: devices catch up by records alone.

        Raises:
            FleetError: it is a snapshot.
        """
        if data:
            raise FleetError(
                f"a gateway needs the records from step {self.step} on, since devices take nothing else, and "
                "this is a snapshot: keep its --log"
            )

    # --- devices ------------------------------------------------------------------------------------

    def answer(self) -> Answer:
        """Asks all devices to evaluate the next step, and adds up what they answer by the deadline.

        Raises:
            FleetError: none has answered; `left_out` and the message say why of each.
            ValueError: the run is over.
        """
        if self.step == self.settings.steps:
            raise ValueError("the run is over")
        return sum_of(list(self._ask_all(self._answer_of).values()))

    def update(self) -> dict[str, FleetState]:
        """Brings all devices to the last step, as far as they answer by the deadline.

        Returns:
            Where each device is that has come there.

        Raises:
            FleetError: none has; `left_out` and the message say why of each.
        """
        return self._ask_all(self._updated)

    def close(self) -> None:
        """Closes the lines; devices go on by themselves with what they were asked for."""
        for device in self._devices.values():
            device.stop.set()
        self._pool.shutdown()
        for device in self._devices.values():
            device.close()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask_all(self, ask: Callable[[_Device, float], Any]) -> dict[str, Any]:
        """What devices say, by their names; sets `left_out`."""
        end = time.monotonic() + self._deadline
        self._weights_now = self.weights_checksum
        # What was asked for last may still wait for its device.
        for device in self._devices.values():
            device.stop.set()
        wait(self._busy.values())
        for device in self._devices.values():
            device.stop.clear()
        self._busy = {name: self._pool.submit(ask, device, end) for name, device in self._devices.items()}
        done = self._wait(end + _GRACE)  # so that each says itself what was wrong
        found, self.left_out = dict[str, Any](), {}
        for name, future in self._busy.items():
            device, silent = self._devices[name], True
            try:
                if future not in done:
                    device.stop.set()
                    seconds = self._deadline - max(0.0, end - time.monotonic())
                    raise NoAnswerError(f"no answer in {seconds:.1f} s")
                found[name] = future.result()
                silent = False
            except (FleetError, LinkError, OSError, ValueError) as error:
                reason = self.left_out[name] = reason_of(error)
                silent = isinstance(error, NoAnswerError | OSError)
                _LOG.warning("step %d: device %s is left out: %s", self.step, name, reason)
            if device.is_silent and not silent:
                _LOG.info("step %d: device %s answers again", self.step, name)
            device.is_silent = silent
        self._note()
        if not found:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            raise FleetError(f"step {self.step}: no device has answered ({reasons})")
        return found

    def _wait(self, end: float) -> set[Future[Any]]:
        """Waits for the devices; for those that were silent last time, only while the others are at work."""
        done, open_ = set[Future[Any]](), {*self._busy.values()}
        awake = {future for name, future in self._busy.items() if not self._devices[name].is_silent}
        grace = None
        while open_ and (left := (end if grace is None else min(end, grace)) - time.monotonic()) > 0:
            if awake and awake <= done and grace is None:
                grace = time.monotonic() + _GRACE
                continue
            now, open_ = wait(open_, left, FIRST_COMPLETED)
            done |= now
        return done

    def _silent_ones(self) -> list[str]:
        if self._notes is None:
            return []
        try:
            return [str(name) for name in json.loads(self._notes.read_text())["silent"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # all are waited for

    def _note(self) -> None:
        """Writes down which devices are silent, for the gateway's next process."""
        if self._notes is not None:
            silent = [name for name, device in self._devices.items() if device.is_silent]
            with contextlib.suppress(OSError):
                self._notes.write_text(json.dumps({"silent": silent}))

    # --- one device, in a thread of its own ---------------------------------------------------------

    def _updated(self, device: _Device, end: float) -> FleetState:
        """Brings a device to the last step.

        Raises:
            FleetError: it is another model's, of another run, or has other weights.
            LinkError: it does not answer, or refuses.
        """
        link = device.link(end, self._mark)
        state = link.fleet_state(end - time.monotonic())
        if state.step > self.step:
            raise FleetError(f"it has {state.step} steps, of which the gateway knows {self.step}")
        if state.checksum != self._checksum_after(state.step):
            raise FleetError(_OTHER_RUN)
        if state.step < self.step:
            _LOG.debug("device %s: records of steps %d to %d", device.name, state.step, self.step - 1)
            records = bytes(self._records[state.step * self.record_bytes :])
            state = link.fleet_records(records, self.record_bytes, end - time.monotonic())
        if (state.step, state.checksum) != (self.step, self.checksum):
            raise FleetError(f"it has {state.step} steps after it was sent those up to {self.step}")
        if state.weights != self._weights_now:
            raise FleetError(
                f"its weights after step {self.step} have the checksum {state.weights:08x}, "
                f"those of the run {self._weights_now:08x}"
            )
        return state

    def _answer_of(self, device: _Device, end: float) -> Answer:
        for tries in range(1, _TRIES + 1):
            self._updated(device, end)
            try:
                return self._evaluated(device, end)
            except RefusedError as error:
                # One that was reset in between is somewhere else.
                if tries == _TRIES:
                    raise
                _LOG.info("step %d: device %s begins anew: %s", self.step, device.name, error)
        raise AssertionError

    def _evaluated(self, device: _Device, end: float) -> Answer:
        link, begin = device.link(end, self._mark), time.monotonic()
        while (found := link.fleet_evaluate(self.step, self.checksum, end - time.monotonic())) is None:
            taken = time.monotonic() - begin
            # What it took last time is waited for without a look.
            pause = max(_LOOK, min(taken / _SHARE, _MOST_LOOK), 0.9 * device.seconds - taken)
            if time.monotonic() + pause > end:
                raise NoAnswerError(f"it still evaluates the step after {self._deadline:.0f} s")
            if device.stop.wait(pause):
                raise NoAnswerError("it still evaluates the step")
        device.seconds = time.monotonic() - begin
        if (found.step, found.checksum) != (self.step, self.checksum):
            raise FleetError(f"an answer for step {found.step}, where step {self.step} is asked for")
        answer = Answer(found.step, np.array(found.differences, np.int64), found.loss, found.samples)
        answer.check(self.settings, self.step)
        minibatch = int(self.settings.batch * self.settings.parts)
        if answer.samples != minibatch:
            raise FleetError(f"an answer of {answer.samples} samples, where a minibatch has {minibatch}")
        return answer

    # --- what devices are held against --------------------------------------------------------------

    def _checksum_after(self, step: int) -> int:
        return ending(bytes(self._records[: step * self.record_bytes])) if step else ending(self.header)


class _Device:
    """A device, as the gateway knows it.

    Attributes:
        seconds: that its last evaluation took.
        is_silent: whether it has not answered last time.
        stop: set where nobody waits for it any longer.
    """

    def __init__(self, name: str, connect: Callable[[], Port], is_silent: bool) -> None:
        self.name, self._connect, self.is_silent = name, connect, is_silent
        self.seconds, self.stop = 0.0, threading.Event()
        self._link: Link | None = None

    def link(self, end: float, mark: bytes) -> Link:
        """The line to it, once it has said that it has the fleet's model.

        Raises:
            FleetError: it has another model.
            LinkError: it does not answer, or speaks another version of the protocol.
        """
        if self._link is not None:
            return self._link
        while True:
            try:
                link = Link(self._port, max(0.1, end - time.monotonic()))
                break
            except OSError as error:
                if time.monotonic() >= end or self.stop.wait(_LOOK):
                    raise NoAnswerError(f"the line is lost: {error}") from error
        try:
            hello = link.hello()
            if hello.fingerprint != mark:
                raise FleetError(
                    f"it has the model {hello.fingerprint.hex()}, the fleet {mark.hex()}: generate its "
                    "firmware from the fleet's ZO model"
                )
        except BaseException:
            link.close()
            raise
        self._link = link
        return link

    def _port(self) -> Port:
        return _Stoppable(self._connect(), self.stop)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None


class _Stoppable:
    """A port that somebody waits at who can be told to stop."""

    def __init__(self, port: Port, stop: threading.Event) -> None:
        self._port, self._stop = port, stop

    @property
    def in_waiting(self) -> int:
        return self._port.in_waiting

    def read(self, size: int = 1, /) -> bytes:
        if self._stop.is_set():
            raise NoAnswerError("no answer")
        return self._port.read(size)

    def write(self, data: bytes, /) -> int | None:
        return self._port.write(data)

    def close(self) -> None:
        self._port.close()
