# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The memory map of a run, were it done on a device."""

from __future__ import annotations

from ..firmware.recorded import device_memory
from .document import Memory, MemoryPart
from .recorded_run import RecordedRun

__all__ = ["memory_of"]


def memory_of(run: RecordedRun) -> Memory:
    """Returns the parts of the RAM that firmware of the run takes, on the core that takes more."""
    found = device_memory(run.zo.model, run.log)
    ram = found.ram
    arena = max(ram.arena.bytes, ram.arena.bytes_mve)
    parts = (
        MemoryPart("trained weights", found.trained, "weights that are trained, with their fractions"),
        MemoryPart(
            "rest of the arena", arena - found.trained, "what inference takes, and what the loss adds"
        ),
        MemoryPart("workspace", ram.workspace, "what is kept of a minibatch until the update"),
        MemoryPart("objects", ram.objects, "trainer, interpreters and resolver"),
        MemoryPart("stack", ram.stack, "while a step is done"),
        MemoryPart("libraries", ram.libraries, "the C library and TFLM"),
    )
    return Memory(parts, ram.bytes, ram.arena.measured, found.flash, found.batch, found.minibatch)
