"""A gateway: one client of a fleet for a group of devices."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from ..converters import Model
from ..core.loader import constants
from ..link import FleetState, Link, LinkError, NoAnswerError, RefusedError
from ..link.link import Port
from ..logs import LogWriter
from .member import Answer, FleetError, RecordedPosition, sum_of

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
    """Returns the reason why a device is excluded."""
    if isinstance(error, RefusedError):
        return _REASONS.get(error.status, str(error))
    return str(error)


class Gateway(RecordedPosition):
    """Follows the fleet's records, like `Replica`, and answers for a step. The devices evaluate it in
    parallel, each on its own samples, and the gateway adds up their results.

    A device receives the records that it lacks, so it catches up after sleep or a power failure. Devices that belong to
    another run, give invalid answers or miss the deadline are excluded from the step; see `left_out`.

    Args:
        model: the ZO model that the devices' firmware was generated from.
        header: header of the run's seed log, 132 bytes.
        lines: function that opens the line to a device, by the device's name.
        log: path of a seed log with the records, for devices that lack them; an existing log of the same run
            is resumed. None: memory only.
        deadline: time limit of the devices for a step, seconds.

    Attributes:
        left_out: reasons why devices are not in the last answer, by name.

    Raises:
        FleetError: see `Position`; or the log belongs to another run.
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
        self._deadline = deadline
        self._path = None if log is None else Path(log)
        self._notes = None if log is None else Path(f"{os.fspath(log)}.devices.json")
        if self._path is not None and not self.resume(self._path):
            LogWriter(self._path, self._header, replace=True).close()
        silent = self._silent_ones()
        self._devices = {name: _Device(name, line, name in silent) for name, line in lines.items()}
        self._pool = ThreadPoolExecutor(len(lines), "device")
        self._busy: dict[str, Future[Any]] = {}
        self._weights_now = self.weights_checksum  # after the last step, once for all devices
        self.left_out: dict[str, str] = {}

    def take(self, records: bytes) -> int:
        """Stores the records of the next steps, see `Position.take`; devices receive them with the next request. Raises
        OSError if the log cannot be written. No record was stored.
        """
        steps = self._following(records)
        if self._path is not None and len(steps) * self.record_bytes == len(records):
            with LogWriter(self._path, self._header, keep=(self.step, 0)) as log:
                log.append(lambda _: records)
        return super().take(records)

    def snapshot(self) -> bytes:
        """Returns no bytes: the log has the gateway's state."""
        return b""

    def take_snapshot(self, data: bytes) -> None:
        """Raises FleetError for a snapshot, because devices catch up by records only."""
        if data:
            raise FleetError(
                f"a gateway needs the records from step {self.step} on, since devices take nothing else, and "
                "this is a snapshot: keep its --log"
            )

    # --- devices ------------------------------------------------------------------------------------

    def answer(self) -> Answer:
        """Lets all devices evaluate the next step, and adds up the answers that arrive by the deadline. FleetError: no
        device answered; `left_out` and the message have the reasons. ValueError: the run has ended.
        """
        if self.step == self.settings.steps:
            raise ValueError("the run is over")
        return sum_of(list(self._ask_all(self._answer_of).values()))

    def update(self) -> dict[str, FleetState]:
        """Updates all devices to the last step, by the deadline, and returns the states of those that reached it.
        FleetError: no device did; `left_out` and the message have the reasons.
        """
        return self._ask_all(self._updated)

    def close(self) -> None:
        """Closes the lines. Devices complete their present requests."""
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
        """Sends a request to all devices, returns the answers by name, and sets `left_out`."""
        end = time.monotonic() + self._deadline
        self._weights_now = self.weights_checksum
        # The last request may still wait for its device.
        for device in self._devices.values():
            device.stop.set()
        wait(self._busy.values())
        for device in self._devices.values():
            device.stop.clear()
        self._busy = {name: self._pool.submit(ask, device, end) for name, device in self._devices.items()}
        done = self._wait(end + _GRACE)  # so that each can report its own error
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
        """Waits for the devices; for silent ones only while others are busy."""
        awake = [future for name, future in self._busy.items() if not self._devices[name].is_silent]
        wait(awake, end - time.monotonic())
        if awake:
            end = min(end, time.monotonic() + _GRACE)
        return wait(self._busy.values(), max(0.0, end - time.monotonic())).done

    def _silent_ones(self) -> list[str]:
        if self._notes is None:
            return []
        try:
            return [str(name) for name in json.loads(self._notes.read_text())["silent"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # all are waited for

    def _note(self) -> None:
        """Stores which devices are silent, for the gateway's next process."""
        if self._notes is not None:
            silent = [name for name, device in self._devices.items() if device.is_silent]
            with contextlib.suppress(OSError):
                self._notes.write_text(json.dumps({"silent": silent}))

    # --- one device, in a thread of its own ---------------------------------------------------------

    def _updated(self, device: _Device, end: float) -> FleetState:
        """Updates a device to the last step. FleetError: the device has another model, another run, or other weights.
        LinkError: it does not answer, or refuses.
        """
        link = device.link(end, self._header.fingerprint)
        state = link.fleet_state(end - time.monotonic())
        if state.step > self.step:
            raise FleetError(f"it has {state.step} steps, of which the gateway knows {self.step}")
        if state.checksum != self.checksum_after(state.step):
            raise FleetError(_OTHER_RUN)
        if state.step < self.step:
            _LOG.debug("device %s: records of steps %d to %d", device.name, state.step, self.step - 1)
            state = link.fleet_records(self.records(state.step), self.record_bytes, end - time.monotonic())
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
        link, begin = device.link(end, self._header.fingerprint), time.monotonic()
        while (found := link.fleet_evaluate(self.step, self.checksum, end - time.monotonic())) is None:
            taken = time.monotonic() - begin
            # No poll before the duration of the last evaluation.
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


class _Device:
    """The gateway's state of a device: `seconds` of its last evaluation; `is_silent` if it did not answer last time;
    `stop`, set when the gateway stops waiting for it.
    """

    def __init__(self, name: str, connect: Callable[[], Port], is_silent: bool) -> None:
        self.name, self._connect, self.is_silent = name, connect, is_silent
        self.seconds, self.stop = 0.0, threading.Event()
        self._link: Link | None = None

    def link(self, end: float, mark: bytes) -> Link:
        """Returns the link to the device, after a check of its model. FleetError: it has another model. LinkError: it
        does not answer, or has another version of the protocol.
        """
        if self._link is not None:
            return self._link
        while True:
            try:
                link = Link(self._connect, max(0.1, end - time.monotonic()), self.stop)
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

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
