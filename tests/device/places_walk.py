"""A random walk over a device with two places for runs, while everything fails as it does in `device.walk`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from device.emulation import ARGUMENT, LOG, OK, ORDER, STORE, Device
from device.runs import STEPS
from device.structs import ActiveLog, Store
from device.walk import EVERY, ROOM, UNKNOWN, FlashStore, Kept, Log, Run, Walk, given_weights, wanted
from tflm_zo.core import fnv1a
from tflm_zo.link import Link, LinkError, Load, PlaceKind, RefusedError, deploy, revert
from tflm_zo.link.protocol import Hello, StepAnswer
from tflm_zo.link.protocol import Place as PlaceOnWire

_RECORDS = 128


class MemoryLine:
    """The host's port; the device answers at once, until its memory fails for good."""

    def __init__(self, made: Device) -> None:
        self._made, self._sent, self._come = made, bytearray(), bytearray()

    def begin(self) -> None:
        """Starts the device again."""
        assert self._made.init() == OK
        assert self._made.mount() == OK
        assert self._made.begin_link(None, self._sent.extend, places=True, buffer_bytes=80) == OK

    @property
    def in_waiting(self) -> int:
        return len(self._come)

    def read(self, size: int = 1, /) -> bytes:
        data = bytes(self._come[:size])
        del self._come[:size]
        return data

    def write(self, data: bytes, /) -> int:
        self._sent.clear()
        self._made.serve(data)
        self._come += self._sent
        return len(data)

    def close(self) -> None:
        self._come.clear()


class Line(MemoryLine):
    """A port to a device that is set up by the walk."""

    def begin(self) -> None:
        self._sent.clear()

    def begin_link(self, whole: Store) -> int:
        return self._made.begin_link(whole, self._sent.extend, places=True, buffer_bytes=256)


@dataclass
class Place:
    """The possible contents of a place."""

    kept: Kept  # the log in it
    kinds: set[PlaceKind]  # of the written bytes


class PlacesWalk(Walk):
    """A walk whose places are both in one memory, `whole`: "bytes", "units of 8" or "flash"."""

    def __init__(self, name: str, seed: int, memory: str, in_c: bool = False) -> None:
        self.memory = memory
        # Number, from 0, of the place that is active after a reset, or else of the other one.
        self.active, self.is_active_sure = 0, True
        self.measures, self.adoptions, self.may_fail_twice, self.may_stay = False, 0, False, False
        self.weights = [Load(PlaceKind.WEIGHTS, given_weights(name, number)) for number in (1, 2)]
        self.answers: dict[tuple[Run, int], StepAnswer] = {}
        super().__init__(name, seed, in_c)
        self.made.reset = self.reset  # type: ignore[method-assign]
        self.line = Line(self.made)
        self.link = Link(lambda: self.line, timeout=2)

    def _stores(self) -> list[Store]:
        flash = self.memory == "flash"
        self.whole = FlashStore(self.made) if flash else self._store({"bytes": 1, "units of 8": 8}[self.memory])
        log = ActiveLog(self.whole)
        self.places = [Place(Kept(log), {PlaceKind.OWN}), Place(Kept(log), {PlaceKind.VOID})]
        return [self._store(1), self._store(8)]

    def parts(self) -> list[Store]:
        return [*super().parts(), self.whole]

    def reachable(self) -> list[Kept]:
        return self.stores if self.now is None else [*self.stores, *2 * [self.places[self.now].kept]]

    def forget(self) -> None:
        super().forget()
        self.now: int | None = None  # number of the active place; None: there is no link
        self.in_fleet = False

    def reset(self) -> int:
        status = self.made.init()
        if status == OK and self.measures:
            status = self.made.keep_best(self.yardstick, EVERY)
        return status

    # --- the state of a place ------------------------------------------------------------------------

    def given_of(self, place: PlaceOnWire) -> int:
        """Returns the number of the weights that were sent into a place."""
        if place.kind != PlaceKind.WEIGHTS:
            return 0
        return next(n for n, load in enumerate(self.weights, 1) if load.place == place)

    def resume(self, now: int, given: int) -> None:
        """Resumes the run of a place after the trainer was reset."""
        data, place, in_fleet = self.run.data, self.places[now], self.in_fleet
        self.forget()
        self.now, self.log, self.in_fleet = now, place.kept, in_fleet
        self.is_begun_up = self.ready = True
        self.run = Run(self.name, data, self.measures, given)
        fitting = [log for log in place.kept.logs if log and log.run.has_header_of(self.run)]
        may_begin = len(fitting) < len(place.kept.logs) or any(log.least == 0 for log in fitting)
        if self.made.step == 0 and may_begin:
            assert self.exported() == wanted(self.run).states[0].weights, "the run does not begin anew"
            self.has_begun = self.ends = UNKNOWN if self.measures else False
        else:
            self.went_on(place.kept, fitting)

    def hello(self) -> Hello:
        self.disarm()
        return self.link.hello()

    def connect(self) -> None:
        """Resets the device, which resumes from the active place and serves its line."""
        self.disarm()
        self.measures = self.rng.randrange(3) == 0
        logs = sorted((log for log in self.places[self.active].kept.logs if log), key=repr)
        own = logs and self.rng.randrange(8)
        self.init(self.rng.choice(logs).run.data if own else None)
        assert self.reset() == OK
        if self.rng.randrange(3) == 0:
            self.arm()
        self.line.begin()
        if self.told("connect", self.line.begin_link(self.whole), OK) != OK:
            self.init()
            return
        self.adoptions = 0
        hello = self.hello()
        in_fleet = self.by_weights and self.rng.randrange(4) > 0
        assert not in_fleet or self.made.join_fleet() == OK
        now = hello.active - 1
        assert now == self.active or not self.is_active_sure, f"place {now}, not {self.active}"
        self.active, self.is_active_sure = now, True
        for place, found in zip(self.places, hello.places, strict=True):
            self.check_kind(place, found.kind)
            place.kinds = {found.kind}
        self.resume(now, self.given_of(hello.places[now]))
        self.in_fleet = in_fleet

    def check_kind(self, place: Place, kind: PlaceKind) -> None:
        """Checks whether another run has begun in the place of a log."""
        kinds = place.kinds | ({PlaceKind.OWN} if PlaceKind.LOG in place.kinds else set())
        assert kind in kinds, f"{kind}, not one of {kinds}"

    # --- requests of a host --------------------------------------------------------------------------

    def ask(self, call: str, request: Callable[[], object], *allowed: int) -> int:
        """Makes a request; if it may succeed, something fails, perhaps."""
        self.disarm()
        for _ in range(3 if OK in allowed else 0):
            if not self.fault:
                self.arm()
        try:
            request()
            status = OK
        except LinkError as error:
            refused = error if isinstance(error, RefusedError) else error.__cause__
            assert isinstance(refused, RefusedError), error
            status = refused.status
        writes, flash = self.fault == "write", self.memory == "flash"
        # A part without power cannot be read; a call that fails again cannot undo a switch.
        self.may_fail_twice = self.fault == "invoke" or (writes and flash)
        self.may_stay = writes and (flash or self.whole.c.failing_writes > 1)
        self.told(call, status, *allowed)
        self.disarm()
        return status

    def load(self) -> tuple[Load, set[Log | None]]:
        """Chooses something to send. Returns also the resulting log of the place."""
        if not self.by_weights or self.rng.randrange(2):
            return self.weights[self.rng.randrange(2)], {None}
        run = Run(self.name, self.rng.randrange(2))
        log, steps = wanted(run).log, self.rng.randrange(1, STEPS + 1)
        header, size = int.from_bytes(log[10:12], "little"), int.from_bytes(log[12:14], "little")
        return Load(PlaceKind.LOG, log[: header + steps * size]), {Log(run, steps, steps)}

    def deploy(self) -> None:
        assert self.now is not None
        hello, (load, logs) = self.hello(), self.load()
        now, other = self.now, 1 - self.now
        if hello.places[now] == load.stored(hello.unit).place:
            assert self.ask("deploy again", lambda: deploy(self.link, hello, load), OK) == OK
            self.revert()
            return
        fits = load.kind == PlaceKind.WEIGHTS or not self.measures
        status = self.ask("deploy", lambda: deploy(self.link, hello, load), OK if fits else LOG)
        place = self.places[other]
        if status == OK:
            place.kept.logs, place.kinds = logs, {load.kind}
        else:
            place.kept.logs |= {None, *logs}
            place.kinds |= {PlaceKind.VOID, load.kind}
        self.switched(status, other)

    def revert(self) -> None:
        assert self.now is not None
        hello, other = self.hello(), 1 - self.now
        kind, place = hello.places[other].kind, self.places[other]
        if kind == PlaceKind.VOID:
            return
        self.check_kind(place, kind)
        status = self.ask("revert", lambda: revert(self.link, hello), OK)
        if status == OK:
            place.kinds = {kind}
        self.switched(status, other)

    def switched(self, status: int, other: int) -> None:
        """Records that the device was asked to go over to the other place."""
        assert self.now is not None
        adoptions, self.adoptions = self.made.adoptions - self.adoptions, self.made.adoptions
        if status == OK:
            now = self.hello().active - 1
            assert now == other
            self.active, self.is_active_sure = other, True
        else:
            now = self.now
            self.is_active_sure = self.is_active_sure and not self.may_stay
            if self.may_fail_twice and adoptions:
                # Perhaps the device could not go back. Nothing is lost by any call of its program.
                kept = self.places[now].kept
                given = self.given_of(self.hello().places[now])
                run = Run(self.name, self.run.data, self.measures, given)
                if all(log and log.run == run for log in kept.logs):
                    for _ in range(3):
                        self.made.train_step()
                    kept.logs = {log and replace(log, most=STEPS) for log in kept.logs}
                self.connect()
                return
            assert adoptions in (0, 2)
            if adoptions == 0:
                return
        self.resume(now, self.given_of(self.hello().places[now]))

    def scribble(self) -> None:
        """Writes anything into a place, up to which nothing is whole there."""
        assert self.now is not None
        hello = self.hello()
        number = self.rng.randrange(2)
        offset = hello.unit * self.rng.randrange(hello.place_bytes // hello.unit - 8)
        data = self.rng.randbytes(8 * hello.unit)
        before = self.whole.content(ROOM)
        status = self.ask(
            "write", lambda: self.link.write(number + 1, offset, data, hello.unit), ORDER if number == self.now else OK
        )
        if number == self.now:
            assert self.whole.content(ROOM) == before
            return
        place = self.places[number]
        place.kept.logs |= {None}
        place.kinds = {PlaceKind.VOID} if status == OK else {*place.kinds, PlaceKind.VOID}

    def read(self) -> None:
        """Reads bytes of a store, and their checksum, within it and beyond."""
        assert self.now is not None
        hello = self.hello()
        number, count = self.rng.randrange(3), self.rng.randrange(1, 300)
        begin = _RECORDS + (number - 1 if number else self.now) * hello.place_bytes
        begin += 0 if number else hello.log_at
        room = hello.place_bytes - (0 if number else hello.log_at)
        offset = self.rng.choice((self.rng.randrange(room), room - count, room - 1, 1 << 31, (1 << 32) - 1))
        found: list[bytes | int] = []
        call, request = self.rng.choice((("read", self.link.read), ("check", self.link.check)))
        self.ask(call, lambda: found.append(request(number, offset, count)), OK if offset + count <= room else LOG)
        if found:
            there = self.whole.content(ROOM)[begin + offset :][:count]
            assert found[0] == (there if call == "read" else fnv1a(there))

    def activate(self) -> None:
        """Requests a place that was never written."""
        assert self.now is not None
        other = 1 - self.now
        self.hello()
        kind = self.rng.choice((PlaceKind.OWN, PlaceKind.WEIGHTS, PlaceKind.LOG))
        what = replace(self.hello().places[other], kind=kind, checksum=1)
        self.ask("activate", lambda: self.link.activate(other + 1, what), ARGUMENT, STORE)
        assert self.made.adoptions == self.adoptions

    def wrote(self, kept: Kept, status: int) -> None:
        super().wrote(kept, status)
        if self.now is not None and kept is self.places[self.now].kept and status == OK:
            self.is_active_sure = True  # the kept state resumes after a reset

    # --- a fleet -----------------------------------------------------------------------------------

    def give_record(self, record: bytes) -> int:
        if not self.in_fleet or self.rng.randrange(2):
            return super().give_record(record)
        try:
            self.link.fleet_records(record, len(record))
        except RefusedError as error:
            return error.status
        return OK

    def evaluate_slice(self) -> tuple[int, int]:
        if not self.in_fleet or self.rng.randrange(2):
            return super().evaluate_slice()
        try:
            state = self.link.fleet_state()
            assert state.step == self.step
            at = (state.step, state.checksum)
            answer = self.link.fleet_evaluate(*at)
            is_known = answer is not None
            if not is_known:
                self.made.work()
                answer = self.link.fleet_evaluate(*at)
        except RefusedError as error:
            return error.status, 0
        if answer is None:
            return OK, 0
        assert self.answers.setdefault((self.run, self.step), answer) == answer, "another answer"
        return super().evaluate_slice() if is_known else (OK, answer.samples)

    def choices(self) -> list[tuple[int, Callable[[], object]]]:
        linked = self.now is not None
        found: list[tuple[int, Callable[[], object]]] = [(10 if linked else 100, self.connect)]
        if linked:
            found += [(30, self.deploy), (20, self.revert), (4, self.scribble), (8, self.read), (4, self.activate)]
        return super().choices() + found
