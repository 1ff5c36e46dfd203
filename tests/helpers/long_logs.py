# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of long runs that nobody has trained, written as ``zo_log.h`` specifies them."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from tflm_zo.converters import Model
from tflm_zo.core import SeedLogHeader
from tflm_zo.logs import fingerprint
from tflm_zo.training import Settings, Weights
from tflm_zo.training.integers import weight_integers

__all__ = ["seed_log"]


def seed_log(model: Model, steps: int) -> tuple[bytes, list[float]]:
    """Bytes of a seed log of so many steps, and the losses in it, nats."""
    settings = Settings(tasks=(Weights(),), batch_size=8)
    own = weight_integers(settings, steps=steps, samples=1000, batch=8, weights=1, blocks=1)
    header = SeedLogHeader(own, fingerprint(model), 0).to_bytes()
    rng = np.random.default_rng(0)
    losses = (65536 * (2 * np.exp(-3 * np.arange(steps) / steps) + 0.2 * rng.random(steps))).astype(int)
    coefficients = rng.integers(-30000, 30000, steps)
    parts, checksum = [header], int.from_bytes(header[-4:], "little")
    for step, (loss, coefficient) in enumerate(zip(losses.tolist(), coefficients.tolist(), strict=True)):
        record = struct.pack("<Iiqi", step, loss, 5, coefficient)
        checksum = zlib.crc32(record, checksum)
        parts += [record, struct.pack("<I", checksum)]
    return b"".join(parts), (losses / 65536).tolist()
