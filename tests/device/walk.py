"""A random walk over the API of a device's trainer while anything fails and power is cut. A model of its run has the
allowed statuses of a call, the step of the device, and the steps from which a log continues."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from device.emulation import (
    ARGUMENT,
    LOG,
    MEMORY,
    OK,
    ORDER,
    RING,
    RUNTIME_FAILED,
    SAMPLE,
    STORE,
    Device,
    Memory,
    Samples,
    Store,
)
from device.runs import (
    RECOMPUTING,
    RUNS,
    STEPS,
    WEIGHT_RUNS,
    Desktop,
    State,
    generated,
    run_on_desktop,
    samples,
    yardstick,
    zo_model,
)
from device.test_weights import run_from
from tflm_zo import Model
from tflm_zo.data import Data

EVERY = 2
#: Of a status that may be as well as another.
UNKNOWN = None
ROOM = 1 << 16


@dataclass(frozen=True)
class Run:
    """The settings that determine a run's bits."""

    name: str  # of `device.runs`
    data: int = 0  # which samples it has
    measures: bool = False  # whether it keeps its best state
    given: int = 0  # number of the weights that it was given to begin with; 0: the model's own

    @property
    def by_weights(self) -> bool:
        return self.name in WEIGHT_RUNS

    @property
    def model(self) -> Model:
        return zo_model(self.name)

    @property
    def settings(self) -> Any:
        return RUNS[self.name][1]

    @property
    def interval(self) -> int:
        """Steps between those from which its log continues."""
        return 1 if self.by_weights else int(self.settings.steps_between_snapshots)

    def has_header_of(self, other: Run) -> bool:
        """Returns True if one's log is accepted by the other: of weight perturbation, no header knows the samples."""
        same = (self.measures, self.given) == (other.measures, other.given)
        return same and (self.by_weights or self.data == other.data)


@cache
def data_of(number: int) -> Data:
    """Samples; those of 1 differ from those of 0 in the last one alone, which not every minibatch has."""
    x, y = samples().inputs[0].copy(), samples().labels.copy()
    if number:
        x[-1] = 127 - x[-1] // 2
    return Data([x], y)


@cache
def given_weights(name: str, number: int = 1) -> bytes:
    """Returns the weights in the desktop's form."""
    run = Run(name)
    states = run_on_desktop(run.model, run.settings, samples(2)).states
    return list(dict.fromkeys(state.weights for state in states))[-number]


@cache
def wanted(run: Run) -> Desktop:
    """Returns the run on the desktop; weights as the device exports them."""
    every, data = EVERY if run.measures else 0, data_of(run.data)
    if run.given:
        own = given_weights(run.name, run.given)
        found = run_from(run.name, own, data, every, model=run.model, settings=run.settings)
        return replace(found, states=[State(own, 0), *found.states[1:]])
    return run_on_desktop(run.model, run.settings, data, measure_every=every)


@dataclass(frozen=True)
class Log:
    """The possible log of a run in a store: steps up to `least` were reported as kept, at most `most` are there."""

    run: Run
    least: int
    most: int


@dataclass
class Kept:
    """A store, and its possible contents; None: nothing from which a device resumes."""

    store: Store
    logs: set[Log | None] = field(default_factory=lambda: {None})
    is_damaged: bool = False  # something else has changed its bytes, since when no run has begun in it


class FlashStore(Store):
    """A store on a device's flash, whose power fails while units are programmed and sectors erased."""

    def __init__(self, made: Device) -> None:
        made.begin_memory(Memory(RING, 32, 2048, 128, 8))
        assert made.mount() == OK
        super().__init__(0, unit=8)
        self.c.in_part, self.made = 1, made

    def fail_at(self, write: int, arrives: int = 0, writes: int = 1) -> None:
        """Lets power fail at an operation of this number, or the part for a moment."""
        self.made.power_on()
        self.made.fail_memory(0, 0)
        if write and arrives % 2:
            self.made.cut_power_in(write)
        elif write:
            self.made.fail_memory(write - 1, writes * (1 + arrives % 3))

    def fail_read_at(self, read: int) -> None:
        self.made.fail_memory_read(read)

    def content(self, count: int) -> bytes:
        return self.made.memory_content(min(count, self.made.memory_bytes))


class Walk:
    """A device, its stores, and the model of both; `calls` counts each call with each status."""

    def __init__(self, name: str, seed: int, in_c: bool = False) -> None:
        self.rng = random.Random(f"{name} {seed}")
        self.made = self._device(name)
        self.made.in_c = in_c
        self.name, self.calls, self.trace = name, Counter[tuple[str, int]](), list[str]()
        self.by_weights = name in WEIGHT_RUNS
        self.stores = [Kept(store) for store in self._stores()]
        self.know_weights()
        self.yardstick = Samples(yardstick())
        self.snapshots: list[tuple[Run, Store, int, int]] = []
        self.fault = ""
        self.forget()
        if in_c:
            self.init()
        else:
            self.made.power_up()

    def _stores(self) -> list[Store]:
        return [self._store(1), self._store(8), FlashStore(self.made)]

    def _device(self, name: str) -> Device:
        model = zo_model(name)
        return Device(generated(model, RUNS[name][1], samples()), model, data_of(0))

    def know_weights(self) -> None:
        """Learns weights with which a run may begin, and others that no run takes."""
        content = given_weights(self.name)
        wrong = bytearray(content)
        wrong[30] = 0x80
        self.given = self._store(1, content)
        self.wrong = None if "alone" in self.name else self._store(1, bytes(wrong))

    def _store(self, unit: int, content: bytes = b"") -> Store:
        store = Store(ROOM, content, unit)
        store.c.tell = type(store.c.tell)()  # no journal
        return store

    def forget(self) -> None:
        """Resets the knowledge to that of a device before it begins."""
        self.is_begun_up = False  # Init has succeeded
        self.ready = False  # weights are those of a step
        self.run = Run(self.name)
        self.step = 0
        self.in_step = False
        self.has_begun: bool | None = False
        self.log: Kept | None = None
        self.at: Kept | None = None  # the store that has all steps so far
        self.is_at_sure = True
        self.ends: bool | None = False  # something behind the last step is still to be done
        self.is_best = False
        self.is_mixed = False  # the log of other samples was resumed

    # --- faults ------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Lets something fail during the next call, perhaps."""
        (kind,) = self.rng.choices(("", "write", "read", "sample", "invoke", "yardstick"), (70, 8, 8, 5, 5, 3))
        number = 1 + int(self.rng.expovariate(0.2))
        store = (self.log or self.rng.choice(self.stores)).store
        if kind == "write":
            store.fail_at(number, self.rng.choice((0, 1, 7, 40, 1000)), self.rng.choice((1, 1, 2, 100)))
        elif kind == "read":
            for one in self.parts():
                one.fail_read_at(number)
        elif kind == "sample":
            self.made.samples.fail_at(number)
        elif kind == "yardstick":
            self.yardstick.fail_at(number)
        elif kind == "invoke":
            times = self.rng.choice((1, 1, 2, 5))
            self.made.fail_invokes(*range(number, number + times), before=bool(self.rng.randrange(2)))
        self.fault = kind
        if kind:
            self.trace.append(f"[{kind} {number}]")

    def parts(self) -> list[Store]:
        return [*(kept.store for kept in self.stores), self.given, *(weights for _, weights, *_ in self.snapshots)]

    def reachable(self) -> list[Kept]:
        """Stores that a program can give its trainer."""
        return self.stores

    def disarm(self) -> None:
        self.fault = ""
        for one in self.parts():
            one.fail_at(0)
            one.fail_read_at(0)
        self.made.samples.fail_at(0)
        self.yardstick.fail_at(0)
        self.made.fail_invokes()

    def told(self, call: str, status: int, *allowed: int) -> int:
        """Checks that a status is allowed, or that of the fault."""
        self.trace.append(f"{call} -> {status}")
        self.calls[call, status] += 1
        faults = {
            "write": {STORE},
            "read": {STORE},
            "sample": {SAMPLE},
            "yardstick": {SAMPLE},
            "invoke": {RUNTIME_FAILED},
            "": set[int](),
        }[self.fault]
        possible = set(allowed) | (faults if OK in allowed else set())
        assert status in possible, (
            f"{call} gives {status}, not one of {sorted(possible)} {self.run} {[k.logs for k in self.stores]}"
        )
        return status

    # --- calls -------------------------------------------------------------------------------------

    def init(self, data: int | None = None) -> None:
        """Resets the device, with these samples or others."""
        self.forget()
        data = self.rng.randrange(2) if data is None else data
        self.made.samples = Samples(data_of(data))
        has_flash = any(isinstance(part, FlashStore) for part in self.parts())
        if has_flash and self.rng.randrange(2):  # else it was not without power
            self.told("mount", self.made.mount(), OK)
        status = self.made.init()
        if self.told(f"init {data}", status, OK) == OK:
            self.is_begun_up = self.ready = True
            self.run = replace(self.run, data=data)

    def init_in_vain(self) -> None:
        self.forget()
        allowed = [MEMORY, *([RUNTIME_FAILED] if self.fault == "invoke" else [])]
        if self.rng.randrange(2):
            self.told("init small", self.made.init(arena_bytes=self.rng.randrange(200)), *allowed)
        else:
            narrow = self.made.workspace_bytes - 8
            self.told("init narrow", self.made.init(workspace_bytes=narrow), *allowed)

    def boot(self) -> None:
        kept = self.rng.choice(self.stores)
        self.disarm()
        logs = sorted((log for log in kept.logs if log is not None), key=repr)
        if logs and self.rng.randrange(4):
            run = self.rng.choice(logs).run
            self.init(run.data if self.rng.randrange(8) else None)
        else:
            self.init()
            run = replace(self.run, measures=self.rng.randrange(2) == 0, given=self.rng.choice((0, 0, 0, 1)))
            logs = []
        if run.measures:
            self.keep_best()
        if run.given:
            self.import_weights()  # perhaps others
        if logs or self.rng.randrange(2):
            if self.rng.randrange(2):
                self.arm()
            self.import_log(kept)
            self.disarm()
        self.set_log(kept)
        if self.rng.randrange(6) == 0:
            self.keep_best()  # late: the store may have a run that measures nothing

    def finish(self) -> None:
        for _ in range(STEPS):
            self.train(whole=True)

    def set_log(self, kept: Kept | None) -> None:
        status = self.made.set_log(None if kept is None else kept.store)
        if kept is None:
            self.told("set_log none", status, OK)
        elif not self.is_begun_up:
            self.told("set_log", status, ORDER)
        else:
            begun, own = self.has_begun, self.at is kept
            if begun is False or (own and self.is_at_sure):
                allowed = [OK]
            elif begun and not own and (self.is_at_sure or kept is not self.log):
                allowed = [ORDER]
            else:
                allowed = [OK, ORDER]
            self.disarm()
            self.told("set_log", status, *allowed)
        if status == OK:
            self.log = kept

    def train(self, whole: bool) -> None:
        begins = not self.in_step and self.has_begun is not True
        made, kept = self.made, self.log
        status, report = made.train_step() if whole else made.train_slice()
        call = "step" if whole else "slice"
        if not self.is_begun_up or not self.ready:
            self.told(call, status, ORDER)
            return
        self.told(call, status, OK)
        done_before = self.step == STEPS
        # The header is written, or may be: at the beginning of the run, or with its first record.
        if kept is not None and self.at is not kept and (begins or (report.step_done and self.has_begun is not True)):
            if status == STORE:
                self.is_at_sure = False
                kept.logs |= {None, Log(self.run, 0, report.step_done)}
                kept.logs = {log and replace(log, least=0) for log in kept.logs}
            elif status == OK or (begins and (status != SAMPLE or self.by_weights)):
                self.at, self.is_at_sure = kept, True
                kept.logs, kept.is_damaged = {Log(self.run, 0, 0)}, False
            else:  # a sample for the checksum of the data, perhaps
                self.is_at_sure = False
                kept.logs = {log and replace(log, least=0) for log in kept.logs}
                kept.logs |= {None, Log(self.run, 0, 0)}
        if begins and self.run.measures and not done_before:
            if kept is None and self.at is not None:
                self.is_at_sure = False  # the measurement is in no log, unless it was before
            if status == OK:
                self.has_begun = True
            elif self.has_begun is False:
                self.has_begun = UNKNOWN
        if report.step_done:
            assert report.step == self.step, "a step is done out of its order"
            self.step += 1
            self.has_begun, self.in_step = True, False
            if kept is None:
                if self.at is not None:
                    self.at = None
                self.is_at_sure = True
            else:
                if status == OK:
                    self.at, self.is_at_sure = kept, True
                self.wrote(kept, status)
            self.ends = status != OK
        elif status == OK:
            self.in_step = self.step < STEPS
            if not begins or done_before:
                self.caught_up()
            assert not whole or done_before
        else:
            # A step that computes activations again between its updates is still in progress.
            self.in_step = self.run.name in RECOMPUTING and made.settle() == ORDER

    def wrote(self, kept: Kept, status: int) -> None:
        """Records a completed step, whose record goes into a store."""
        found: set[Log | None] = set()
        own = status == OK and (self.step % self.run.interval == 0 or self.step == STEPS)
        for log in kept.logs:
            if log is None:
                if status != OK:
                    found.add(None)
            elif log.run == self.run:
                found.add(Log(self.run, self.step if own else log.least, self.step))
            elif status != OK:
                found.add(log)
        kept.logs = found or {Log(self.run, self.step if own else 0, self.step)}

    def caught_up(self) -> None:
        """Notes that the pending work of the last step was done before the next one."""
        if self.ends is False:
            return
        if self.log is None:
            if self.ends:
                self.at, self.is_at_sure = None, True
            else:
                self.is_at_sure = False
            self.ends = False
            return
        self.ends = False
        if self.in_step or self.step == STEPS:
            kept = self.log
            self.at, self.is_at_sure = kept, True
            own = self.by_weights or self.step % self.run.interval == 0 or self.step == STEPS
            least = max((log.least for log in kept.logs if log and log.run == self.run), default=0)
            kept.logs = {Log(self.run, self.step if own else least, self.step)}

    def export_log(self) -> None:
        kept = self.rng.choice(self.reachable())
        before = kept.store.content(ROOM)
        status = self.made.export_log(kept.store)
        changed = kept.store.content(ROOM) != before
        if not self.is_begun_up:
            self.told("export_log", status, ORDER)
        elif not self.ready:
            self.told("export_log", status, OK, ORDER)
        elif not self.by_weights and self.in_step:
            self.told("export_log", status, ORDER)
        elif self.step == 0:
            self.told("export_log", status, OK)
        elif self.log is not kept:
            self.told("export_log", status, ORDER)
        else:
            self.told("export_log", status, OK)
            if status == OK and not (self.in_step or self.is_best):
                kept.logs = {Log(self.run, self.step, self.step)}
                self.at, self.is_at_sure = kept, True
                if self.ends:
                    self.ends = UNKNOWN if self.by_weights and self.run.measures else False
            elif status not in (OK, ORDER):
                self.ends = UNKNOWN
            return
        assert not changed, "a log that is not exported has changed"

    def import_log(self, kept: Kept | None = None) -> None:
        kept = kept or self.rng.choice(self.reachable())
        before = kept.store.content(ROOM)
        snapshot = None
        if self.by_weights and self.snapshots and self.rng.randrange(3) == 0:
            run, weights, step, mark = self.rng.choice(self.snapshots)
            snapshot = (weights, step, mark)
        status = self.made.import_log(kept.store, snapshot)
        assert kept.store.content(ROOM) == before, "a log that is read has changed"
        if not self.is_begun_up or self.log not in (None, kept):
            self.told("import_log", status, ORDER)
            return
        fitting = [log for log in kept.logs if log and log.run.has_header_of(self.run)]
        allowed = [OK] if fitting else []
        if len(fitting) < len(kept.logs):
            allowed.append(LOG)
        faults = {"read": [STORE], "sample": [SAMPLE], "invoke": [RUNTIME_FAILED]}.get(self.fault, [])
        self.told("import_log", status, *allowed, *faults)
        if status == OK:
            self.went_on(kept, fitting)
        elif status in (STORE, RUNTIME_FAILED):
            steps = {0} if self.ready else {0, self.step}  # a best state may be half-way there
            self.find_ready()
            if not self.ready:
                assert self.made.step in steps
                self.step = self.made.step
        # ZO_ERROR_LOG, ZO_ERROR_SAMPLE: nothing has changed.

    def went_on(self, kept: Kept, fitting: list[Log]) -> None:
        """Records the import of a log."""
        self.step = self.made.step
        self.ready, self.in_step, self.is_best, self.ends = True, False, False, UNKNOWN
        state = self.exported()
        leads = {
            log.run
            for log in fitting
            # Once the run has repaired a damaged measurement, the entries behind it are valid again.
            if log.least <= self.step <= (STEPS if kept.is_damaged else log.most)
            and wanted(log.run).states[self.step].weights == state
        }
        assert leads, f"step {self.step} of {fitting}: not where the log led to"
        run = self.run if self.run in leads else min(leads, key=repr)
        self.is_mixed = run != self.run
        self.run = run
        kept.logs = {Log(run, self.step, self.step)}
        self.at, self.is_at_sure = kept, True
        self.has_begun = True if self.step else (UNKNOWN if self.run.measures else False)
        self.ends = UNKNOWN if self.run.measures else False

    def find_ready(self) -> None:
        """Returns True if a failed call has left weights of a step: then nothing has changed."""
        self.disarm()
        status, _ = self.made.export_weights()
        assert status in (OK, ORDER)
        self.ready = status == OK
        if not self.ready:
            self.in_step, self.has_begun, self.is_at_sure = False, UNKNOWN, False

    def exported(self) -> bytes:
        self.disarm()
        status, found = self.made.export_weights()
        assert status == OK, f"export_weights gives {status}"
        return found

    def look(self) -> None:
        """Exports the weights, which are those of the last complete step."""
        status, found = self.made.export_weights()
        if not self.is_begun_up or not self.ready:
            self.told("export_weights", status, ORDER)
            return
        self.told("export_weights", status, OK)
        assert self.made.step == self.step, f"step {self.made.step} of the device, {self.step} of the model"
        if self.in_step and not self.by_weights:
            return  # each layer has its own
        expected = wanted(self.run)
        right = {expected.kept.weights if self.is_best else expected.states[self.step].weights}
        assert found in right, f"weights after step {self.step} of {self.run}"

    def settle(self) -> None:
        status = self.made.settle()
        self.use("settle", status)

    def use(self, call: str, status: int) -> bool:
        """Makes a call that needs the weights of a step."""
        if not self.is_begun_up or not self.ready:
            self.told(call, status, ORDER)
        elif self.in_step and not self.by_weights:
            self.told(call, status, OK, ORDER)
        else:
            self.told(call, status, OK)
        return status == OK and self.ready

    def evaluate(self) -> None:
        status, found = self.made.evaluate()
        if not self.use("evaluate", status) or self.in_step or self.is_best or self.run.given:
            return
        if self.step == 0:
            accuracy = wanted(self.run).before["accuracy"]
            assert found.correct == round(accuracy * found.samples), "another evaluation"

    def predict(self) -> None:
        sample = self.rng.randrange(len(samples()))
        status, output = self.made.predict(sample)
        if self.use("predict", status) and self.step == STEPS and not self.run.measures and self.ready:
            data = self.made.samples.arrays[0][sample]
            if (data == data_of(self.run.data).inputs[0][sample]).all():
                assert output == wanted(self.run).outputs[sample].tobytes(), "another prediction"

    def keep_best(self) -> None:
        status = self.made.keep_best(self.yardstick, EVERY)
        if not self.is_begun_up or not self.ready or self.in_step or self.has_begun is True:
            self.told("keep_best", status, ORDER)
        elif self.has_begun is UNKNOWN:
            self.told("keep_best", status, OK, ORDER)
        else:
            self.told("keep_best", status, OK)
        if status == OK:
            self.run = replace(self.run, measures=True)
            self.at, self.is_at_sure, self.has_begun = None, True, False

    def restore_best(self) -> None:
        status, best = self.made.restore_best()
        can = self.is_begun_up and self.step == STEPS and self.run.measures and self.log is not None
        if not can:
            allowed = [ORDER]
        elif self.ends is False:
            allowed = [OK]
        elif self.ends is True:
            allowed = [ORDER]
        else:
            allowed = [OK, ORDER]
        if self.log is not None and self.log.is_damaged:
            allowed.append(LOG)  # nothing has changed
        self.told("restore_best", status, *allowed)
        if status == OK:
            self.is_best = self.ready = True
            assert wanted(self.run).states[best.step].weights == self.exported() == wanted(self.run).kept.weights
        elif status != ORDER:
            self.find_ready()

    def import_weights(self) -> None:
        store = self.rng.choice([self.given, self.given, self.wrong or self.given])
        status = self.made.import_weights(store)
        allowed = [OK if store is self.given else ARGUMENT]
        if not self.is_begun_up or self.in_step or self.has_begun is True:
            allowed = [ORDER]
        elif self.has_begun is UNKNOWN:
            allowed.append(ORDER)
        faults = {"read": [STORE], "invoke": [RUNTIME_FAILED]}.get(self.fault, [])
        self.told("import_weights", status, *allowed, *(faults if allowed != [ORDER] else []))
        if status == ORDER:
            return
        self.run = replace(self.run, given=int(status == OK))
        self.at, self.is_at_sure, self.has_begun = None, True, False
        self.ready = status != RUNTIME_FAILED
        self.step, self.is_best, self.ends, self.is_mixed = 0, False, False, False

    def snapshot(self) -> None:
        if not self.by_weights:
            return
        status, mark = self.made.snapshot_mark()
        if self.is_best and self.is_begun_up:
            self.told("snapshot_mark", status, ORDER)
        elif self.use("snapshot_mark", status) and not self.is_mixed:
            content = wanted(self.run).states[self.step].weights
            self.snapshots = [*self.snapshots[-5:], (self.run, self._store(1, content), self.step, mark)]

    def take_record(self) -> None:
        """Takes a record of a fleet of one, whose decisions are the run's own."""
        if not self.by_weights or self.run.measures or self.run.given or self.is_mixed:
            return
        log = wanted(Run(self.name, self.run.data)).log
        header, size = int.from_bytes(log[10:12], "little"), int.from_bytes(log[12:14], "little")
        step = self.rng.choice((self.step, self.step, self.rng.randrange(STEPS)))
        if step == STEPS:
            return
        record = bytearray(log[header + step * size : header + (step + 1) * size])
        damaged = self.rng.randrange(4) == 0
        if damaged:
            record[8] ^= 1
        kept = self.log
        status = self.give_record(bytes(record))
        if not self.is_begun_up or not self.ready:
            self.told("take_record", status, ORDER)
            return
        if step < self.step:
            # Without a log nobody knows its content.
            allowed = [LOG if damaged and kept is not None else OK]
            if self.ends is not False:
                allowed += [LOG, STORE]
            if self.fault == "read":
                allowed.append(STORE)
        elif step > self.step:
            allowed = [ORDER]
        else:
            allowed = [LOG if damaged else OK]
        self.told("take_record", status, *allowed)
        if step != self.step or damaged:
            return
        if status == STORE:
            self.in_step = False
            if kept is not None:
                self.is_at_sure = self.at is kept and self.is_at_sure
                own = {log for log in kept.logs if log and log.run == self.run}
                others = kept.logs - own if self.at is not kept else set()
                kept.logs = {replace(log, most=max(log.most, step + 1)) for log in own if log} | {
                    log and replace(log, least=0) for log in others
                }
                if self.at is not kept:
                    kept.logs |= {None, Log(self.run, 0, step + 1)}
            self.ends = UNKNOWN if self.ends else self.ends
        elif status == OK:
            self.step, self.in_step, self.has_begun, self.ends = step + 1, False, True, False
            self.at, self.is_at_sure = kept, True
            if kept is not None:
                kept.logs = {Log(self.run, self.step, self.step)}

    def answer(self) -> None:
        """Evaluates a step for a fleet."""
        if not self.by_weights:
            return
        begins = not self.in_step and self.has_begun is not True
        kept = self.log
        status, count = self.evaluate_slice()
        if not self.is_begun_up or not self.ready or self.run.measures or (self.step == STEPS):
            self.told("answer_slice", status, ORDER)
            return
        self.told("answer_slice", status, OK)
        if kept is not None and self.at is not kept and begins:
            if status == STORE:
                self.is_at_sure = False
                kept.logs |= {None, Log(self.run, 0, 0)}
                kept.logs = {log and replace(log, least=0) for log in kept.logs}
            else:
                self.at, self.is_at_sure = kept, True
                kept.logs, kept.is_damaged = {Log(self.run, 0, 0)}, False
        if status == OK:
            if not begins and not self.in_step:
                self.in_step = True
                self.caught_up()
            self.in_step = count == 0
        else:
            self.in_step = False

    def give_record(self, record: bytes) -> int:
        return self.made.take_record(record)

    def evaluate_slice(self) -> tuple[int, int]:
        """Returns its status, and the answer's samples."""
        return self.made.answer_slice()

    def damage(self) -> None:
        kept = self.rng.choice(self.stores)
        self.disarm()
        if kept in (self.log, self.at):
            return
        if isinstance(kept.store, FlashStore):
            assert self.made.clear() == OK
            kept.logs = {None}
            return
        begin = self.rng.randrange(1500)
        kept.store.bytes[begin : begin + self.rng.choice((1, 40, 1500))] ^= self.rng.randrange(1, 256)
        kept.logs, kept.is_damaged = {None, *(log and replace(log, least=0) for log in kept.logs)}, True

    # --- the walk ----------------------------------------------------------------------------------

    def choices(self) -> list[tuple[int, Callable[[], object]]]:
        return [
            (30, lambda: self.train(False)),
            (30, lambda: self.train(True)),
            (2, self.finish),
            (10, self.look),
            (3, self.settle),
            (2, self.evaluate),
            (2, self.predict),
            (4, lambda: self.set_log(self.rng.choice([None, *2 * self.reachable()]))),
            (4, self.export_log),
            (3, self.import_log),
            (1, self.keep_best),
            (3, self.restore_best),
            (1, self.import_weights),
            (2, self.snapshot),
            (2, self.init),
            (1, self.init_in_vain),
            (4, self.boot),
            (1, self.damage),
            *([] if self.made.in_c else [(4, self.take_record), (4, self.answer)]),
        ]

    def go(self, calls: int) -> None:
        """Makes so many calls; the error of one that the model does not allow has the last calls."""
        try:
            for _ in range(calls):
                if self.is_mixed:
                    self.init()
                weights, choices = zip(*self.choices(), strict=True)
                self.arm()
                self.rng.choices(choices, weights)[0]()
                self.disarm()
                if self.rng.randrange(3) == 0:
                    self.look()
                del self.trace[:-300]
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}\n" + "\n".join(self.trace)) from error
