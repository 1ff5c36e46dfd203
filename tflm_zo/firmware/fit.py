"""Saves memory in the steps of a run, until it fits a device's RAM."""

from __future__ import annotations

from dataclasses import dataclass

from ..converters import Model, read_metadata
from ..training.checks import SettingsError
from ..training.costs import SampleCosts
from ..training.lowering import StepMemory
from ..training.settings import Settings
from .boundaries import boundaries_of
from .device_model import device_model
from .planning import plan_run
from .platforms import PLATFORMS
from .sizes import ram_within


@dataclass(frozen=True)
class Fitted:
    """The memory of the steps of a run that fits. It does not change results."""

    memory: StepMemory  #: where a step keeps its values.
    again: float  #: forward passes of a step that compute activations again.

    @property
    def sentences(self) -> tuple[str, ...]:
        """Descriptions of what saves memory."""
        shared = "errors take the memory of activations, so the program cannot infer during a step"
        again = f"inputs of {len(self.memory.recomputed)} segments are computed again"
        return (shared,) * self.memory.shares_arena + (again,) * bool(self.memory.recomputed)


def fit(model: Model, settings: Settings, ram: int, *, has_mve: bool = False, platform: str = "cmake") -> Fitted:
    """Returns the memory of a run's steps that fits a number of bytes of RAM.

    Args:
        model: the ZO model.
        settings: settings of the run.
        ram: bytes of RAM for a program that only trains.
        has_mve: whether the device has vectors (MVE), which take a larger arena.
        platform: name of the build system.

    Raises:
        SettingsError: the run does not fit; the message has the least size.
    """
    metadata, static = read_metadata(model), PLATFORMS[platform].static_memory
    device = device_model(model, plan_run(model, settings, steps=1, samples=1))
    found, saving = ram_within(model, metadata, device, ram, static_memory=static)
    least = found.bytes_with(found.arena.bytes_mve if has_mve else found.arena.bytes)
    if least > ram:
        raise SettingsError(
            "ram",
            f"be at least {least:,} bytes for the run",
            ram,
            "Let `train` choose a run that fits, by its",
            give={"ram": ...},
        )
    again = boundaries_of(model, metadata, saving).rerun_macs / SampleCosts(model, metadata).forward
    return Fitted(saving.plan.memory, again)
