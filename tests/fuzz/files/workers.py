"""Processes that try cases one after the other: one that dies or hangs is known by its case and replaced."""

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .attempts import FaultError, described
from .bases import Bases
from .cases import Case, make
from .drive import clean, drive

CPU_SECONDS = 20  # of one case; a hang
WALL_SECONDS = 300  # of one case that does not even come back to Python
MEMORY = 6 * 2**30
CASES_PER_PROCESS = 2000  # a new one now and then, so that nothing adds up


@dataclass(frozen=True)
class Outcome:
    """What a case ended with; `text` is the traceback of a fault, or the output before the process died."""

    number: int
    kind: str
    base: str
    result: str
    text: str = ""
    used: str = ""


class _HangError(BaseException):
    pass


def _hang(*_: Any) -> None:
    raise _HangError


def one(bases: Bases, seed: int, number: int) -> Outcome:
    clean()
    case, rng = make(bases, f"{seed}/{number}")
    result, text = "refused", ""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        result = "accepted" if drive(bases, case, rng) else "refused"
    except FaultError as error:
        result, text = "internal error", str(error)
    except Exception as error:  # where nothing may be refused any more
        result, text = "internal error", described(error)
    except _HangError:
        result, text = "hang", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Outcome(number, case.kind, case.base, result, text, case.used[-1] if case.used else "")


class Worker:
    """A process that tries the cases ``numbers`` and writes a line before and after each."""

    def __init__(self, bases: Bases, seed: int, numbers: range, folder: Path) -> None:
        self.bases, self.seed, self.numbers, self.folder = bases, seed, numbers, folder
        self.begun: int | None = None
        self.since = time.monotonic()
        self._unread = b""
        self.pipe, end = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            status = 70  # sysexits: a fault of the fuzzer itself
            try:
                os.close(self.pipe)
                self._work(end)
                status = 0
            except BaseException:
                traceback.print_exc()  # into the worker's log
            finally:
                os._exit(status)
        os.close(end)

    def _work(self, pipe: int) -> None:
        log = os.open(self.folder.with_suffix(".txt"), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        faulthandler.enable(log)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, _hang)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.folder.mkdir(exist_ok=True)
        os.chdir(self.folder)
        for number in self.numbers[:CASES_PER_PROCESS]:
            os.ftruncate(log, 0)
            os.write(pipe, f"{number}\n".encode())
            outcome = one(self.bases, self.seed, number)
            os.write(pipe, (json.dumps(outcome.__dict__) + "\n").encode())

    def read(self) -> Iterator[Outcome]:
        data = os.read(self.pipe, 2**16)
        self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self.since = time.monotonic()
            if line.startswith(b"{"):
                self.begun = None
                yield Outcome(**json.loads(line))
            else:
                self.begun = int(line)
        if not data:
            yield from self._ended()

    def _ended(self) -> Iterator[Outcome]:
        os.close(self.pipe)
        self.pipe = -1
        _, status = os.waitpid(self.process, 0)
        if self.begun is None:
            return
        cause = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"
        log = self.folder.with_suffix(".txt").read_text(errors="replace")
        case = make(self.bases, f"{self.seed}/{self.begun}")[0]
        result = "hang" if cause == "SIGKILL" else "crash"
        yield Outcome(self.begun, case.kind, case.base, result, f"{cause}\n{log}", _last_call(log))

    def end_if_stuck(self) -> None:
        if self.begun is not None and time.monotonic() - self.since > WALL_SECONDS:
            os.kill(self.process, signal.SIGKILL)

    @property
    def rest(self) -> range:
        done = self.numbers[:CASES_PER_PROCESS]
        if self.begun is None:
            return self.numbers[len(done) :]
        return self.numbers[self.numbers.index(self.begun) + 1 :]


def _last_call(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip().startswith("File ")]
    return lines[0] if lines else ""


def campaign(bases: Bases, seed: int, count: int, jobs: int, first: int = 0) -> Iterator[Outcome]:
    memory = Path("/dev/shm")
    parent = Path(tempfile.mkdtemp(prefix="tflm_zo-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        shares = [range(first + j, first + count, jobs) for j in range(jobs)]
        workers = [Worker(bases, seed, s, parent / str(j)) for j, s in enumerate(shares) if s]
        while workers:
            ready, _, _ = select.select([w.pipe for w in workers], [], [], 5)
            for i, worker in enumerate(workers):
                worker.end_if_stuck()
                if worker.pipe not in ready:
                    continue
                yield from worker.read()
                if worker.pipe < 0:
                    workers[i] = Worker(bases, seed, worker.rest, worker.folder) if worker.rest else worker
            workers = [w for w in workers if w.pipe >= 0]
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def case_of(bases: Bases, seed: int, number: int) -> Case:
    return make(bases, f"{seed}/{number}")[0]
