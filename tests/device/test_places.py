"""A device's two places for runs: after others were in them, and with power cut at every operation."""

import contextlib
from collections import Counter

import pytest

from device.emulation import CACHED, DIRECT, OK, ORDER, RING, STORE, Device, Memory, needs_compiler
from device.places_walk import Line, MemoryLine
from device.runs import STEPS, desktop, device, train
from device.structs import ActiveLog, Store
from device.test_weights import run_from
from helpers.examples import slow_but
from tflm_zo.link import Link, LinkError, Load, PlaceKind, deploy, revert

pytestmark = needs_compiler


def begun(name: str, unit: int = 1) -> tuple[Device, Store, Line]:
    made, whole = device(name), Store(unit=unit)
    line = Line(made)
    assert line.begin_link(whole) == OK
    return made, whole, line


@pytest.mark.parametrize("unit", [1, 8])
def test_a_log_ends_where_it_was_sent_to_end(unit: int) -> None:
    """Ends the log even if a longer one of the same run was in its place before."""
    made, _, line = begun("weight", unit)
    log = desktop("weight").log
    header, size = int.from_bytes(log[10:12], "little"), int.from_bytes(log[12:14], "little")
    with Link(lambda: line, timeout=2) as link:
        for steps in (STEPS, 2):
            deploy(link, link.hello(), Load(PlaceKind.LOG, log[: header + steps * size]))
            assert made.step == steps
            assert made.export_weights() == (OK, desktop("weight").states[steps].weights)
            revert(link, link.hello())


@pytest.mark.parametrize("torn", [0, 1, 2])
@pytest.mark.parametrize("unit", [1, 8])
def test_a_run_that_begins_in_the_place_of_a_log_stays_there(unit: int, torn: int) -> None:
    """It begins with weights of its own, so that its header is not that of the model."""
    made, whole, line = begun("weight", unit)
    load = Load(PlaceKind.LOG, desktop("weight").log)
    with Link(lambda: line, timeout=2) as link:
        deploy(link, link.hello(), load)
        assert made.init() == OK
        assert made.import_weights(Store(content=desktop("weight", 2).states[-1].weights)) == OK
        assert made.set_log(ActiveLog(whole)) == OK
        whole.fail_at(torn, 32)
        assert made.train_step()[0] == (STORE if torn else OK)
        whole.fail_at(0)
        assert made.init() == OK
        assert line.begin_link(whole) == OK
        hello = link.hello()
        assert hello.active == 2
        assert hello.places[1].kind == (PlaceKind.LOG if torn == 1 else PlaceKind.OWN)
        assert made.step == (STEPS if torn == 1 else 0)
        revert(link, hello)
        deploy(link, link.hello(), load)
        assert (made.step, link.hello().places[1].kind) == (STEPS, PlaceKind.LOG)


def test_a_place_that_could_not_be_gone_over_to_is_not_found_after_a_reset() -> None:
    """Finds the old place, even if the failed write has arrived, at any write, and its content has changed since."""
    made, whole, line = begun("weight")
    log, failed = desktop("weight").log, 0
    with Link(lambda: line, timeout=2) as link:
        for number in range(1, 30):
            whole.fail_at(number, 1 << 16)
            try:
                deploy(link, link.hello(), Load(PlaceKind.LOG, log))
                break
            except LinkError:
                failed += 1
            whole.fail_at(0)
            link.write(2, link.hello().log_at + 200, bytes(8))
            assert made.init() == OK
            assert line.begin_link(whole) == OK
            assert (link.hello().active, made.step) == (1, 0)
    assert failed > 2 and made.step == STEPS


@pytest.mark.parametrize("name", ["weight", "node"])
def test_a_device_that_can_go_neither_over_nor_back_does_no_step_without_a_log(name: str) -> None:
    """Refuses steps after any failed read, on the way over and on the way back."""
    made, whole, failing, stopped = device(name), Store(), 0, 0

    def reset() -> int:
        whole.fail_read_at(failing)
        return made.init()

    made.reset = reset  # type: ignore[method-assign]
    line = Line(made)
    assert line.begin_link(whole) == OK
    with Link(lambda: line, timeout=2) as link:
        assert [made.train_step()[0] for _ in range(2)] == [OK, OK]
        deploy(link, link.hello(), Load(PlaceKind.WEIGHTS, desktop(name, 2).states[-1].weights))
        assert made.train_step()[0] == OK
        while link.hello().active == 2:
            failing += 1
            with contextlib.suppress(LinkError):
                revert(link, link.hello())
            whole.fail_read_at(0)
            before = whole.content(1 << 16)
            assert (status := made.train_step()[0]) in (OK, ORDER)
            assert (before == whole.content(1 << 16)) == (status == ORDER)
            stopped += status == ORDER
            assert made.init() == OK
            assert line.begin_link(whole) == OK
    assert failing > stopped > 0


@pytest.mark.slow
def test_steps_behind_a_place_that_could_not_be_gone_over_to_are_gone_on_with() -> None:
    """Resumes, even if its record has arrived and the record that should undo it has not."""
    log, failed = desktop("weight").log, 0
    for number in range(1, 30):
        made, whole, line = begun("weight")
        with Link(lambda: line, timeout=2) as link:  # noqa: B023
            whole.fail_at(number, 1 << 16, 2)
            try:
                deploy(link, link.hello(), Load(PlaceKind.LOG, log))
                break
            except LinkError:
                failed += 1
            whole.fail_at(0)
            assert made.train_step()[0] == OK
            assert made.init() == OK
            assert line.begin_link(whole) == OK
            assert (link.hello().active, made.step) == (1, 1)
    assert failed > 2


# --- power cuts -------------------------------------------------------------------------------------------


NAMES = ("weight", "node")
MEMORIES = {
    "flash": Memory(RING, 12, 4096, 256, 1),
    "flash of words": Memory(RING, 24, 2048, 256, 4),
    "flash of doublewords": Memory(RING, 24, 2048, 128, 8),
    "flash of flashwords": Memory(RING, 64, 1024, 64, 32),
    "words": Memory(DIRECT, 12, 2048, 2048, 4),
    "units of 8": Memory(DIRECT, 12, 2048, 2048, 8),
    "cached units of 16": Memory(CACHED, 12, 2048, 2048, 16),
    "units of 32": Memory(DIRECT, 12, 2048, 2048, 32),
}
#: At each operation; of how many one is resumed to the end.
CUTS, SAMPLED = 24, 53


def weights_of(made: Device) -> bytes:
    status, found = made.export_weights()
    assert status == OK
    return found


@pytest.mark.parametrize("memory", slow_but(("flash of doublewords", "words"), MEMORIES))
@pytest.mark.parametrize("name", NAMES)
def test_one_of_two_runs(name: str, memory: str) -> None:
    wanted, given = desktop(name, 2), desktop(name).states[-1].weights
    load = Load(PlaceKind.WEIGHTS, given)
    made = device(name, 2)
    made.begin_memory(MEMORIES[memory])
    line, outcomes = MemoryLine(made), Counter[tuple[str, int]]()
    line.begin()
    train(made, 2)

    def send(link: Link) -> None:
        assert deploy(link, link.hello(), load).place == 2

    def back(link: Link) -> None:
        assert revert(link, link.hello()).place == 1

    for action, runs in ((send, (wanted.states[2].weights, given)), (back, (given, wanted.states[2].weights))):
        assert weights_of(made) == runs[0]
        with Link(lambda: line, timeout=2) as link:
            made.record_operations()
            action(link)
            assert weights_of(made) == runs[1]
            for operation in [n for n in range(made.operations) for _ in range(CUTS)]:
                made.cut_power_at(operation)
                line.begin()
                outcomes[action.__name__, runs.index(weights_of(made))] += 1
                if sum(outcomes.values()) % SAMPLED == 0:
                    if weights_of(made) == runs[0]:
                        action(link)
                    assert weights_of(made) == runs[1]
            # Of the last operation perhaps not all has arrived.
            if weights_of(made) == runs[0]:
                action(link)
    train(made)
    assert weights_of(made) == wanted.states[-1].weights
    with Link(lambda: line, timeout=2) as link:
        assert revert(link, link.hello()).place == 2
    train(made)
    assert weights_of(made) == run_from(name, given).states[-1].weights
    assert made.memory_faults == 0
    print(name, memory, dict(outcomes))
    assert outcomes["send", 0] > 4 * CUTS and outcomes["back", 0] > 0
