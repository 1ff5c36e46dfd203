"""Long runs: their logs, and work that is counted, which is the same on every machine."""

import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tflm_zo.converters import Model
from tflm_zo.core import SeedLogHeader
from tflm_zo.logs import fingerprint
from tflm_zo.training import Settings, Weights
from tflm_zo.training.lowering import weight_integers


def seed_log(model: Model, steps: int) -> tuple[bytes, list[float]]:
    """Writes a seed log of so many steps. Returns its bytes and its losses, nats."""
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


def calls_of(do: Callable[[], Any]) -> int:
    """Calls of functions, Python's and C's, that `do` makes in this thread."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        do()
    finally:
        sys.setprofile(before)
    return calls
