# SPDX-License-Identifier: Apache-2.0
"""What training takes of a device: memory, flash, log, instructions, time, energy."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..converters import ConversionError, Model, load_model, read_metadata
from ..core import SNAPSHOT_RECORD_BYTES
from ..firmware.arena import arenas_of
from ..firmware.device_model import DeviceModel, device_models
from ..firmware.plan import NodeRunPlan, RunPlan
from ..firmware.planning import plan_run
from ..firmware.ram import LIBRARIES, STACK, ram_of
from ..firmware.resolver import operators_of
from ..training.checks import SettingsError
from ..training.costs import RunCosts
from ..training.injection import is_zo
from .backpropagation import Backpropagation, backpropagation
from .boards import Board, Core, boards, find_board, find_core
from .clamped import clamped_shares
from .instructions import Instructions
from .ways import Way, ways

__all__ = ["SCHEMA", "Cost", "Plan", "Target", "plan"]

#: Version of what `Plan.as_dict` returns.
SCHEMA = 1

#: Budgets, in forward equivalents, whose time and energy are foretold.
BUDGETS = (10_000, 100_000)
# Samples of a run that is planned before there are any; costs of a step do not depend on it.
_SAMPLES = 100
# Bytes of flash, measured on a Cortex-M4 with CMSIS-NN's kernels at -Os (benchmarks/firmware_flash.py): a
# program that infers without its model, as a sum over kinds of operators, and what training adds.
_PROGRAM, _KERNEL = 22_000, 5_200
_TRAINING = {"layerwise": 16_000, "weights": 9_800}
_KIB = 1024


@dataclass(frozen=True)
class Target:
    """What a model is to be trained on.

    Attributes:
        core: the core.
        clock: Hz; None: times are not foretold.
        ram: bytes of RAM; None: no limit.
        flash: bytes of flash; None: no limit.
        power: watts while it computes; None: energy is not foretold.
        board: the board, where one was named.
        cycles: cycles an instruction takes.
    """

    core: Core
    clock: float | None = None
    ram: int | None = None
    flash: int | None = None
    power: float | None = None
    board: Board | None = None
    cycles: float = 1.0


@dataclass(frozen=True)
class Cost:
    """What one way to train takes.

    Attributes:
        way: the way.
        arena: bytes of the tensor arena.
        workspace: bytes that a step keeps besides.
        objects: bytes of the trainer, its interpreters and the resolver.
        ram: bytes of RAM in all, stack and the C library included.
        flash: bytes of flash in all: a program, model, training.
        log: bytes of log a step, averaged.
        instructions: instructions of a step.
        equivalents: forward equivalents of a step.
        backpropagation: what backpropagation of the same layers takes.
        measured: True if the arena was measured, False for an upper bound.
    """

    way: Way
    arena: int
    workspace: int
    objects: int
    ram: int
    flash: int
    log: int
    instructions: float
    equivalents: float
    backpropagation: Backpropagation
    measured: bool

    def fits(self, target: Target) -> bool:
        """Returns whether a device has the memory for it."""
        return (target.ram is None or self.ram <= target.ram) and (
            target.flash is None or self.flash <= target.flash
        )

    def seconds(self, target: Target, equivalents: float | None = None) -> float | None:
        """Returns the time of a step, or of so many forward equivalents; None without a clock."""
        if target.clock is None:
            return None
        step = self.instructions * target.cycles / target.clock
        return step if equivalents is None else step * equivalents / self.equivalents

    def joules(self, target: Target, equivalents: float | None = None) -> float | None:
        """Returns the energy of a step, or of so many forward equivalents; None without clock or power."""
        seconds = self.seconds(target, equivalents)
        return None if seconds is None or target.power is None else seconds * target.power


@dataclass(frozen=True)
class Plan:
    """What the ways to train a model take, the one first that is likely to learn most.

    Attributes:
        model: name of the model's file, for commands.
        target: what it is to be trained on.
        inference: instructions of an inference of the original model.
        costs: what each way takes.
    """

    model: str
    target: Target
    inference: float
    costs: tuple[Cost, ...]

    @property
    def best(self) -> Cost | None:
        """The first way that fits; None where none does."""
        return next((cost for cost in self.costs if cost.fits(self.target)), None)

    @property
    def smallest(self) -> Cost:
        """The way that takes the least RAM."""
        return min(self.costs, key=lambda cost: cost.ram)

    def fitting_boards(self) -> list[Board]:
        """Returns the boards on which the smallest way fits, those with the least RAM first."""
        least = self.smallest
        fitting = [
            b for b in boards().values() if b.ram * _KIB >= least.ram and b.flash * _KIB >= least.flash
        ]
        return sorted(fitting, key=lambda b: (b.ram, b.name))

    def shown(self) -> list[Cost]:
        """Returns one cost of each method and set of layers: the first that fits, or its smallest."""
        groups: dict[str, list[Cost]] = {}
        for cost in self.costs:
            groups.setdefault(cost.way.name, []).append(cost)
        return [
            next((c for c in own if c.fits(self.target)), min(own, key=lambda c: c.ram))
            for own in groups.values()
        ]

    def commands(self, cost: Cost) -> tuple[str, str]:
        """Returns the `train` and the `firmware` command of a way."""
        way, stem = cost.way, Path(self.model).name.removesuffix(".tflite")
        usual = () if way.settings.algorithm == "node" else ("--algorithm", way.settings.algorithm)
        sets = [word for option in way.set_options for word in ("--set", option)]
        train = ["tflm-zo", "train", self.model, "adapt.npz", "-o", f"{stem}.trained.tflite", *usual]
        train += ["--batch-size", str(way.settings.batch_size), *sets]
        firmware = [
            "tflm-zo",
            "firmware",
            self.model,
            "-o",
            f"{stem}_firmware",
            "--data",
            "adapt.npz",
            *usual,
        ]
        firmware += ["--set", f"batch-size={way.settings.batch_size}", *sets]
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
            "fits": best is not None,
            "best": None if best is None else self.costs.index(best),
            "commands": None if best is None else list(self.commands(best)),
            "fitting_boards": [b.name for b in self.fitting_boards()],
            "ways": [self._as_dict(cost) for cost in self.costs],
        }

    def _as_dict(self, cost: Cost) -> dict[str, Any]:
        way, target = cost.way, self.target
        return {
            "name": way.name,
            "algorithm": way.settings.algorithm,
            "layers": list(way.trained.layers),
            "update_bits": way.update_bits,
            "batch_size": way.settings.batch_size,
            "set": list(way.set_options),
            "fits": cost.fits(target),
            "arena_bytes": cost.arena,
            "arena_is_measured": cost.measured,
            "workspace_bytes": cost.workspace,
            "objects_bytes": cost.objects,
            "stack_bytes": STACK,
            "library_bytes": LIBRARIES,
            "ram_bytes": cost.ram,
            "flash_bytes": cost.flash,
            "log_bytes_per_step": cost.log,
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
    name: str | None = None,
) -> Plan:
    """Returns what training a model would take, before there is any data or device.

    Args:
        model: a plain int8 model, its bytes or path.
        board: name of a board, whose core, clock, RAM and flash are taken where they are not given.
        core: name of the core; None: the board's, else "cortex-m4".
        clock: Hz; None: the board's.
        ram: bytes of RAM; None: the board's.
        flash: bytes of flash; None: the board's.
        power: watts that the device takes while it computes.
        cycles: cycles an instruction takes; None: what is assumed of the core.
        name: name of the model in commands; None: its path.

    Raises:
        ConversionError: the model cannot be trained, or is a ZO model.
        SettingsError: there is no such board or core, or a number is out of range.
    """
    for word, value in (
        ("clock", clock),
        ("ram", ram),
        ("flash", flash),
        ("power", power),
        ("cycles", cycles),
    ):
        if value is not None and not value > 0:
            raise SettingsError(f"{word}: expected a number above 0, got {value!r}")
    target = _target(board, core, clock, ram, flash, power, cycles)
    loaded = model if isinstance(model, Model) else load_model(model)
    if is_zo(loaded):
        raise ConversionError("a plan takes the plain model: the one that this ZO model was made from")
    if name is None:
        name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "model.tflite"
    size = len(loaded.to_bytes())
    instructions = Instructions(target.core.measured, target.core.kernels)
    found, costs = ways(loaded), list[Cost]()
    sized = _sized(found)
    # All in one: TFLM's recording allocator takes a second to start.
    segments = [device.segments for _, devices in sized for device in devices]
    arenas_of(segments, [0] * len(segments))
    clamped: dict[str, float] = {}
    for way in found:
        if way.settings.is_layerwise and not set(way.trained.layers) <= set(clamped):
            clamped.update(clamped_shares(way.zo))
    for way, (run, devices) in zip(found, sized, strict=True):
        costs.append(_cost(way, run, devices, loaded, size, target, instructions, clamped))
    return Plan(name, target, instructions.inference(loaded), tuple(costs))


def _target(
    board: str | None,
    core: str | None,
    clock: float | None,
    ram: int | None,
    flash: int | None,
    power: float | None,
    cycles: float | None,
) -> Target:
    found = None if board is None else find_board(board)
    if found is not None:
        core = core or found.core
        clock = found.clock * 1e6 if clock is None else clock
        ram = found.ram * _KIB if ram is None else ram
        flash = found.flash * _KIB if flash is None else flash
    own = find_core(core or "cortex-m4")
    return Target(own, clock, ram, flash, power, found, own.cycles if cycles is None else cycles)


def _sized(found: Sequence[Way]) -> list[tuple[RunPlan, Sequence[DeviceModel]]]:
    """Returns the run of each way, and its models as the device has them, which no minibatch changes."""
    devices: dict[int, Sequence[DeviceModel]] = {}
    sized = []
    for way in found:
        run = plan_run(way.zo, way.settings, steps=1, samples=_SAMPLES)
        if id(way.zo) not in devices:
            devices[id(way.zo)] = device_models(way.zo, run)
        sized.append((run, devices[id(way.zo)]))
    return sized


def _cost(
    way: Way,
    run: RunPlan,
    devices: Sequence[DeviceModel],
    model: Model,
    size: int,
    target: Target,
    instructions: Instructions,
    clamped: Mapping[str, float],
) -> Cost:
    metadata = read_metadata(way.zo)
    ram, _ = ram_of(way.zo, metadata, run, devices)
    arena = ram.arena.bytes_mve if target.core.has_mve else ram.arena.bytes
    kind = "layerwise" if way.settings.is_layerwise else "weights"
    kinds = len(operators_of([model]))
    layers = set(way.trained.layers)
    trained = {t.name for t in metadata.trainable if t.layer in layers}
    return Cost(
        way,
        arena,
        ram.workspace,
        ram.objects,
        arena + ram.workspace + ram.objects + ram.stack + ram.libraries,
        _PROGRAM + _KERNEL * kinds + size + _TRAINING[kind],
        _log_bytes(way, run),
        instructions.step(way.zo, metadata, way.settings, clamped),
        RunCosts(way.settings, way.zo, metadata, _SAMPLES).until(1),
        backpropagation(model, trained, way.settings.batch_size),
        ram.arena.measured,
    )


def _log_bytes(way: Way, run: RunPlan) -> int:
    """Returns the bytes that a step adds to the log (docs/file-formats.md): a record, and, of a layer-wise
    run, its share of a snapshot.
    """
    metadata = read_metadata(way.zo)
    if not isinstance(run, NodeRunPlan):
        return 20 + 4 * way.settings.weights.items
    tensors = {i for task in run.tasks for i in range(task.first_tensor, task.first_tensor + task.tensors)}
    own = [metadata.trainable[i] for i in tensors]
    weights = sum(t.size * (4 if t.bias else way.update_bits // 8) for t in own)
    snapshot = 20 + 8 * len(run.tasks) + weights
    return SNAPSHOT_RECORD_BYTES + -(-snapshot // way.settings.snapshot_every)
