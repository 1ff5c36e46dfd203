"""Power cuts at every byte that three successive runs write to one store."""

import numpy as np
import pytest

from device.emulation import LOG, OK, Device, Samples, Store, needs_compiler
from device.runs import STEPS, desktop, device, train, yardstick
from helpers.examples import slow_but

pytestmark = needs_compiler

#: Runs: name, seed of the samples, steps between measurements. Neighbours have programs of their own but in
#: the last sequence, whose runs have one header.
Run = tuple[str, int, int]
SEQUENCES: dict[str, tuple[Run, ...]] = {
    "kinds": (("node", 1, 0), ("weight, segments", 1, 0), ("node", 2, 0)),
    "layer-wise": (("nodes and weights", 1, 0), ("exact head", 1, 0), ("nodes and weights", 2, 0)),
    "exact": (
        ("exact, computed again", 1, 0),
        ("residual, exact, least memory", 1, 0),
        ("exact, computed again", 2, 2),
    ),
    "weight": (("weight", 1, 0), ("weight, segments", 1, 0), ("weight, blocks", 2, 0)),
    "measured": (("node", 1, 2), ("weight, segments", 1, 4), ("exact head", 2, 1)),
    "other samples": (("weight", 1, 0), ("weight", 2, 0), ("weight", 3, 0)),
}
#: Of how many cuts one is trained to the end.
SAMPLED = 149


def keep_best(made: Device, run: Run) -> None:
    if run[2]:
        assert made.keep_best(Samples(yardstick()), run[2]) == OK


def boot(made: Device, run: Run, store: Store) -> int | None:
    """Imports a store in any state, and checks it. Returns the step, or None without a log."""
    before, step = made.export_weights(), made.step
    status = made.import_log(store)
    if status == LOG:
        assert (made.export_weights(), made.step) == (before, step)  # nothing has changed
        return None
    assert status == OK
    assert made.export_weights() == (OK, desktop(*run).states[made.step].weights)
    return made.step


def go_on(made: Device, run: Run, content: np.ndarray) -> None:
    """Resumes after a reset: to the end of the run, with the log of an undisturbed one."""
    store = Store(content=content.tobytes())
    assert made.init() == OK
    keep_best(made, run)
    assert made.import_log(store) in (OK, LOG)
    made.set_log(store)
    train(made)
    expected = desktop(*run)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert store.content(len(expected.log)) == expected.log
    if run[2]:
        assert made.restore_best()[0] == OK
        assert made.export_weights() == (OK, expected.kept.weights)
    assert made.set_log(None) == OK


@pytest.mark.slow
@pytest.mark.parametrize("sequence", slow_but(("layer-wise", "measured"), SEQUENCES))
def test_every_byte_of_three_runs_on_one_store(sequence: str) -> None:
    content, cuts, reached = np.full(1 << 14, 0xFF, np.uint8), 0, set()
    previous: tuple[Device, Run] | None = None
    for run in SEQUENCES[sequence]:
        made, writer = device(*run[:2]), Store(content=content.tobytes())
        keep_best(made, run)
        made.set_log(writer)
        train(made)
        made.set_log(None)

        store = Store(content=content.tobytes())
        changed, newest = False, -1
        for offset, piece in writer.journal:
            # The state of the device that did the run before: of its own run, or none.
            if previous is not None and sequence != "other samples":
                boot(*previous, store)
            for at, byte in enumerate(piece, offset):
                cuts += 1
                if store.bytes[at] == byte:
                    continue  # the same store as before
                store.bytes[at] = byte
                changed = True
                step = boot(made, run, store)
                # Later writes do not lead to an earlier step than one snapshot before.
                newest = max(newest, -1 if step is None else step)
                reached.add((run, step))
                if cuts % SAMPLED == 0:
                    go_on(made, run, store.bytes)
        assert changed and newest == STEPS
        np.testing.assert_array_equal(store.bytes, writer.bytes)
        content, previous = store.bytes.copy(), (made, run)
    print(f"{sequence}: {cuts} cuts")
    assert cuts >= 900
    for run in SEQUENCES[sequence]:
        assert len({step for of, step in reached if of == run}) > 3
