"""The plan of training on a device: memory, flash, log, instructions, time, energy."""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..converters import ConversionError, Model, load_model
from ..converters.settings import InjectChanges
from ..converters.states import is_streaming
from ..training.checks import SettingsError
from ..training.costs import costs_of
from ..training.injection import is_zo
from .boards import Board, Core, boards, find_board, find_core
from .instructions import Instructions, clamped_shares
from .ways import SAMPLES, Backpropagation, Sizes, Way, backpropagation, sizes_of, ways

#: Version of the result of `Plan.as_dict`.
SCHEMA = 1

#: Budgets, in forward equivalents, whose time and energy are foretold.
BUDGETS = (10_000, 100_000)
_KIB = 1024


@dataclass(frozen=True)
class Target:
    """The target device."""

    core: Core  # the core
    clock: float | None = None  # Hz; None: without times
    ram: int | None = None  # bytes of RAM; None: no limit
    flash: int | None = None  # bytes of flash; None: no limit
    power: float | None = None  # watts while the device computes; None: without energy
    board: Board | None = None  # the board, or None
    cycles: float = 1.0  # cycles per instruction


@dataclass(frozen=True)
class Cost:
    """The costs of one way to train."""

    way: Way  # the way to train
    arena: int  # bytes of the tensor arena, on the target's core
    sizes: Sizes  # sizes of the parts
    instructions: float  # instructions of a step
    equivalents: float  # forward equivalents of a step
    backpropagation: Backpropagation  # memory of backpropagation in the same layers

    @property
    def ram(self) -> int:
        """Total RAM, stack and C library included, bytes."""
        return self.sizes.ram.bytes_with(self.arena)

    @property
    def flash(self) -> int:
        """Total flash: program, model, training; bytes."""
        return self.sizes.flash

    def fits(self, target: Target) -> bool:
        """Returns whether the device has enough RAM and flash."""
        return (target.ram is None or self.ram <= target.ram) and (target.flash is None or self.flash <= target.flash)

    def seconds(self, target: Target, equivalents: float | None = None) -> float | None:
        """Returns the time of a step, or of a number of forward equivalents, seconds; None without a clock."""
        if target.clock is None:
            return None
        step = self.instructions * target.cycles / target.clock
        return step if equivalents is None else step * equivalents / self.equivalents

    def joules(self, target: Target, equivalents: float | None = None) -> float | None:
        """Returns the energy of a step, or of a number of forward equivalents, joules; None without clock or power."""
        seconds = self.seconds(target, equivalents)
        return None if seconds is None or target.power is None else seconds * target.power


@dataclass(frozen=True)
class Plan:
    """The ways to train a model with their costs. The first is likely to learn most."""

    model: str  #: name of the model's file, for commands.
    target: Target  #: the target device.
    inference: float  #: instructions of an inference of the original model.
    costs: tuple[Cost, ...]  #: costs of each way.
    forward_only: bool  #: whether ways that pass errors back are left out.
    sequence: int | None = None  #: steps of a sample, of a streaming model; None: samples are no sequences.

    @property
    def best(self) -> Cost | None:
        """The first way that fits, or None."""
        return next((cost for cost in self.costs if cost.fits(self.target)), None)

    def fitting_of(self, algorithm: str | None = None) -> list[Cost]:
        """Returns the ways that fit, of an algorithm if one is given; raises SettingsError if there is none."""
        own = [cost for cost in self.costs if algorithm in (None, cost.way.settings.algorithm)]
        if not own:
            known = ", ".join(dict.fromkeys(cost.way.settings.algorithm for cost in self.costs))
            raise SettingsError("algorithm", f"be one of {known} of the ways to train", algorithm)
        found = [cost for cost in own if cost.fits(self.target)]
        if not found:
            least, target = min(own, key=lambda cost: cost.ram), self.target
            sizes = {"ram": (least.ram, target.ram), "flash": (least.flash, target.flash)}
            name, (need, most) = next((n, s) for n, s in sizes.items() if s[1] is not None and s[0] > s[1])
            raise SettingsError(name, f"be at least {need:,} bytes for {least.way.name}", most)
        return found

    @property
    def smallest(self) -> Cost:
        """The way with the least RAM."""
        return min(self.costs, key=lambda cost: cost.ram)

    def fitting_boards(self) -> list[Board]:
        """Returns the boards on which the smallest way fits, sorted by RAM."""
        least = self.smallest
        fitting = [b for b in boards().values() if b.ram * _KIB >= least.ram and b.flash * _KIB >= least.flash]
        return sorted(fitting, key=lambda b: (b.ram, b.name))

    def shown(self) -> list[Cost]:
        """Returns one cost for each method and set of layers: the first that fits, or the smallest."""
        groups: dict[str, list[Cost]] = {}
        for cost in self.costs:
            groups.setdefault(cost.way.name, []).append(cost)
        return [next((c for c in own if c.fits(self.target)), min(own, key=lambda c: c.ram)) for own in groups.values()]

    def commands(self) -> tuple[str, str]:
        """Returns the commands that train the model for the target and make its firmware."""
        target, stem = self.target, Path(self.model).name.removesuffix(".tflite")
        trained = f"{stem}.trained"
        train = ["tflm-zo", "train", self.model, "adapt.npz", "-o", f"{trained}.tflite"]
        if target.board is not None:
            train += ["--board", target.board.name]
        if target.ram is not None and (target.board is None or target.ram != target.board.ram * _KIB):
            train += ["--ram", str(target.ram)]
        if self.forward_only:
            train.append("--forward-only")
        firmware = ["tflm-zo", "firmware", f"{trained}.zo.tflite", "-o", f"{stem}_firmware", "--data", "adapt.npz"]
        return shlex.join(train), shlex.join(firmware)

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as numbers, strings, lists and dictionaries (docs/plan.md has the schema)."""
        target, best = self.target, self.best
        return {
            "schema": SCHEMA,
            "model": self.model,
            "target": {
                "board": None if target.board is None else target.board.name,
                "core": target.core.name,
                "kernels": target.core.kernels,
                "measured_on": target.core.measured,
                "clock_hz": target.clock,
                "cycles_per_instruction": target.cycles,
                "ram_bytes": target.ram,
                "flash_bytes": target.flash,
                "power_watts": target.power,
            },
            "inference_instructions": round(self.inference),
            "sequence": self.sequence,
            "fits": best is not None,
            "best": None if best is None else self.costs.index(best),
            "commands": None if best is None else list(self.commands()),
            "fitting_boards": [b.name for b in self.fitting_boards()],
            "ways": [self._as_dict(cost) for cost in self.costs],
        }

    def _as_dict(self, cost: Cost) -> dict[str, Any]:
        way, target, ram = cost.way, self.target, cost.sizes.ram
        return {
            "name": way.name,
            "algorithm": way.settings.algorithm,
            "layers": list(way.trained.layers),
            "update_bits": way.update_bits,
            "batch_size": cost.sizes.run.minibatch,
            "set": list(way.set_options),
            "fits": cost.fits(target),
            "arena_bytes": cost.arena,
            "arena_is_measured": cost.sizes.ram.arena.measured,
            "workspace_bytes": ram.workspace,
            "objects_bytes": ram.objects,
            "stack_bytes": ram.stack,
            "library_bytes": ram.libraries,
            "ram_bytes": cost.ram,
            "flash_bytes": cost.flash,
            "log_bytes_per_step": cost.sizes.log,
            "instructions_per_step": round(cost.instructions),
            "forward_equivalents_per_step": round(cost.equivalents, 3),
            "seconds_per_step": cost.seconds(target),
            "joules_per_step": cost.joules(target),
            "budgets": [
                {
                    "forward_equivalents": budget,
                    "steps": int(budget / cost.equivalents),
                    "seconds": cost.seconds(target, budget),
                    "joules": cost.joules(target, budget),
                }
                for budget in BUDGETS
            ],
            "backpropagation_bytes": dataclasses.asdict(cost.backpropagation),
        }


def plan(
    model: Model | bytes | str | os.PathLike[str],
    *,
    board: str | None = None,
    core: str | None = None,
    clock: float | None = None,
    ram: int | None = None,
    flash: int | None = None,
    power: float | None = None,
    cycles: float | None = None,
    forward_only: bool = False,
    inject: InjectChanges | None = None,
    name: str | None = None,
    sequence: int | None = None,
) -> Plan:
    """Estimates the memory and time that training needs on a device.

    Args:
        model: a plain int8 model, its bytes or path.
        board: name of a board; it sets the defaults of core, clock, RAM and flash.
        core: name of the core; None: the board's, else "cortex-m4".
        clock: Hz; None: the board's.
        ram: bytes of RAM; None: the board's.
        flash: bytes of flash; None: the board's.
        power: watts while the device computes.
        cycles: cycles per instruction; None: the core's.
        forward_only: True to leave out ways that pass errors back through layers.
        inject: settings of `inject`, as for `ways`.
        name: name of the model in commands; None: its path.
        sequence: number of steps of each sample, of a streaming model; None: 1.

    Raises:
        ConversionError: the model cannot be trained, or is a ZO model.
        SettingsError: the board or core is not known, or a number is out of range.
    """
    numbers = {"clock": clock, "ram": ram, "flash": flash, "power": power, "cycles": cycles}
    for word, value in numbers.items():
        if value is not None and not 0 < value < math.inf:
            raise SettingsError(word, "be a finite number above 0", value)
    target = _target(board, core, numbers)
    loaded = load_model(model)
    if is_zo(loaded):
        raise ConversionError("a plan takes the plain model: the one that this ZO model was made from")
    streams = is_streaming(loaded)
    if sequence is not None and (sequence < 1 or not streams):
        raise SettingsError("sequence", "be at least 1, of a streaming model", sequence)
    steps = sequence or 1
    if name is None:
        name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "model.tflite"
    instructions = Instructions(target.core.measured, target.core.kernels)
    found = ways(loaded, inject, forward_only=forward_only)
    clamped = {key: clamped_shares(zo) for key, zo in {id(way.zo): way.zo for way in found}.items()}
    sizes = sizes_of(loaded, found, target.ram)
    costs = (
        _cost(w, s, loaded, target, instructions, clamped[id(w.zo)], steps) for w, s in zip(found, sizes, strict=True)
    )
    inference = instructions.inference(loaded)
    return Plan(name, target, inference, tuple(costs), forward_only, steps if streams else None)


def _target(board: str | None, core: str | None, given: Mapping[str, float | None]) -> Target:
    found, usual = None if board is None else find_board(board), dict[str, Any]()
    if found is not None:
        usual = {"clock": found.clock * 1e6, "ram": found.ram * _KIB, "flash": found.flash * _KIB}
        core = core or found.core
    own = find_core(core or "cortex-m4")
    usual |= {"cycles": own.cycles} | {name: value for name, value in given.items() if value is not None}
    return Target(own, board=found, **usual)


def _cost(
    way: Way,
    sizes: Sizes,
    model: Model,
    target: Target,
    instructions: Instructions,
    clamped: dict[str, float] | None,
    sequence: int,
) -> Cost:
    arena = sizes.ram.arena
    layers = set(way.trained.layers)
    trained = {t.name for t in way.metadata.trainable if t.layer in layers}
    run, again = sizes.run, instructions.reruns(way.zo, sizes.reruns)
    return Cost(
        way,
        arena.bytes_mve if target.core.has_mve else arena.bytes,
        sizes,
        instructions.step(way.zo, way.metadata, run, clamped, sequence) + again,
        costs_of(run.settings, run.tasks, way.zo, way.metadata).until(1, SAMPLES) * sequence,
        backpropagation(model, trained, run.minibatch),
    )
