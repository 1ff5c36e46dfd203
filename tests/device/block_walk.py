"""A random walk over a device that chooses the block that it trains: probes and resumed choices, too."""

import struct
from collections.abc import Callable
from functools import cache

from device import test_block_choice as blocks
from device.emulation import ARGUMENT, OK, ORDER, RUNTIME_FAILED, SAMPLE, Device
from device.runs import RUNTIME, generated, samples
from device.walk import UNKNOWN, Run, Walk, data_of
from tflm_zo.training import BlockChoice, choose_block

COUNT = blocks.SEARCH.blocks


@cache
def chosen(data: int) -> BlockChoice:
    """Returns the desktop's choice."""
    x, search = data_of(data), blocks.SEARCH
    return choose_block(
        blocks.zo_model(),
        blocks.SETTINGS,
        x.inputs[0],
        x.labels,
        blocks=search.blocks,
        held_out=search.held_out,
        epochs=search.epochs,
        runtime=RUNTIME,
    )


class BlockWalk(Walk):
    """A walk with a choice; `is_lost`: it could not be resumed, and nothing else can be done before one is."""

    def __init__(self, seed: int) -> None:
        super().__init__("choice of a block", seed)

    def _device(self, name: str) -> Device:
        data = samples()
        made = generated(blocks.zo_model(), blocks.SETTINGS, data, search=blocks.SEARCH)
        return Device(made, blocks.zo_model(), data_of(0))

    def know_weights(self, block: int | None = None) -> None:
        super().know_weights(block or 0)

    def forget(self) -> None:
        super().forget()
        self.probed, self.is_lost = 0, False

    def begin_run(self, best: int) -> None:
        """Resets all state but the log, the samples and the choice."""
        data, log = self.run.data, self.log
        self.forget()
        self.is_begun_up = self.ready = True
        self.probed, self.log, self.run = COUNT, log, Run(self.name, data, block=best)
        self.know_weights(best)

    def probe(self) -> None:
        before = self.made.choice()
        status, found = self.made.probe()
        if not self.is_begun_up or self.probed == COUNT:
            self.told("probe", status, ORDER)
        elif self.told("probe", status, OK) == OK:
            expected = chosen(self.run.data)
            assert (found.block, found.score) == (self.probed, expected.scores[self.probed])
            self.probed += 1
            assert self.made.chosen == (self.probed == COUNT)
            if self.made.chosen:
                self.begin_run(int.from_bytes(self.made.choice()[8:12], "little"))
                assert self.run.block == expected.best
            return
        assert (found.score, self.made.choice()) == (0, before), "a probe that has failed has counted"

    def choose(self, block: int | None = None) -> None:
        """Goes on with a choice, of a block or before one."""
        probed = COUNT if block is not None or self.rng.randrange(3) else self.rng.randrange(COUNT)
        best = self.rng.randrange(COUNT) if block is None else block
        best = best if probed == COUNT else 0
        if self.has_begun is UNKNOWN:
            return  # nor whether the log is taken away
        score = chosen(self.run.data).scores[best]
        choice, damaged = self.made.choice(), self.rng.randrange(8) == 0 and block is None
        numbers = (COUNT + damaged, probed, best)
        status = self.made.resume(struct.pack("<3I4xq", *numbers, score) + choice[24:])
        if not (self.is_begun_up or self.is_lost):
            self.told("resume", status, ORDER)
        elif damaged:
            self.told("resume", status, ARGUMENT)
        elif self.told("resume", status, OK) == OK:
            if self.has_begun:
                self.log = None
            self.begin_run(best)
            self.probed = probed
        else:
            assert self.made.choice() == choice
            self.is_begun_up, self.is_lost = self.probed < COUNT, True
            if self.has_begun:
                self.log = None

    def look(self) -> None:
        if self.is_begun_up and self.probed < COUNT:
            assert self.made.export_weights()[0] in (OK, ORDER)
        else:
            super().look()

    def refuse(self) -> None:
        """Checks the calls that fail before the block is chosen."""
        self.disarm()
        made = self.made
        for call, refused in (
            ("step", lambda: made.train_step()[0]),
            ("slice", lambda: made.train_slice()[0]),
            ("keep_best", lambda: made.keep_best(self.yardstick, 2)),
            ("restore_best", lambda: made.restore_best()[0]),
            ("import_weights", lambda: made.import_weights(self.given)),
            ("import_log", lambda: made.import_log(self.stores[0].store)),
            ("export_log", lambda: made.export_log(self.stores[0].store)),
        ):
            self.told(call, refused(), ORDER)

    def use_any(self) -> None:
        """Uses a network in a choice: any result is allowed, without harm."""
        for call, status in (
            ("evaluate", self.made.evaluate()[0]),
            ("predict", self.made.predict(0)[0]),
            ("settle", self.made.settle()),
        ):
            self.told(call, status, OK, ORDER, SAMPLE, RUNTIME_FAILED)

    def choices(self) -> list[tuple[int, Callable[[], object]]]:
        own: list[tuple[int, Callable[[], object]]] = [(3, self.choose), (1, self.probe)]
        if not self.is_begun_up or self.probed == COUNT:
            return super().choices() + own
        return [
            *own,
            (8, self.probe),
            (3, self.refuse),
            (2, self.use_any),
            (1, self.init),
            (1, self.init_in_vain),
            (2, self.boot),
            (0 if self.is_lost else 2, lambda: self.set_log(self.rng.choice([None, *self.stores]))),
        ]
