"""The log of node perturbation: its bytes, and whose run it may resume."""

import hashlib
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.interrupted_runs import (
    NODE_SETTINGS,
    SETTINGS_OF,
    STEPS,
    X,
    Y,
    fit,
    layout,
    make,
    model_of,
    snapshot,
    train,
    uninterrupted,
)
from helpers.moments import At, stop
from tflm_zo.logs import Log, LogError, replay_log
from tflm_zo.training import Exact, Trainer
from tflm_zo.training.lowering import layerwise_integers
from tflm_zo.training.setting_texts import changed


@pytest.mark.parametrize("kind", NODE_SETTINGS)
def test_bytes_are_as_specified(kind: str) -> None:
    """Compares field by field with the text of zo_snapshot_log.h."""
    whole, settings = uninterrupted(kind), SETTINGS_OF[kind]
    data = whole.log
    trainer = make(kind)
    metadata, weights = trainer.runtime.metadata, len(whole.weights)
    tasks = len(metadata.nodes)
    header, records, size = layout(kind)
    assert data[:16] == b"ZOLOG\r\n\x1a" + struct.pack("<4H", 4, 164 + 32 * tasks, 12, tasks)
    assert data[16:32] == hashlib.sha256(model_of(kind).to_bytes()).digest()[:16]
    integers = layerwise_integers(settings, steps=STEPS, samples=24, batch=metadata.batch)
    assert data[32:52] == struct.pack("<5I", 9, STEPS, 24, metadata.batch, 8 // metadata.batch)
    assert struct.unpack_from("<2I", data, 32 + 4 * 9) == (integers.rate, integers.final_rate)
    assert struct.unpack_from("<I", data, 32 + 4 * 15) == (4 * 65536,)  # clip
    checksum = zlib.crc32(Y.astype("<i4").tobytes(), zlib.crc32(X.tobytes()))
    first = min(n.input_segment for n in metadata.nodes)
    assert data[124:140] == struct.pack("<4I", first, settings.steps_between_snapshots, weights, checksum)
    rule = 4 if settings.has(Exact) else 0  # Rms of exact gradients
    assert data[140:160] == struct.pack("<5I", 3 * 65536, rule << 8, 5 | 4 << 8 | 3 << 16 | 1 << 24, 0, 0)
    for t, n in enumerate(metadata.nodes):
        queries = 0 if n.head and settings.has(Exact) else 2
        entry = struct.pack("<8I", n.trainable, 1 << 16, queries, 1 << 16 | 1, 65536, 0, 0, 0)
        assert data[160 + 32 * t :][:32] == entry
    assert data[header - 4 : header] == zlib.crc32(data[: header - 4]).to_bytes(4, "little")

    slot = (records - header) // 2
    owner = int.from_bytes(data[header - 4 : header], "little")
    last = -(-STEPS // settings.steps_between_snapshots)
    for number in (last - 1, last):
        at = data[header + (number - 1) % 2 * slot :][:slot]
        step = min(number * settings.steps_between_snapshots, STEPS)
        part = make(kind)
        fit(part, callbacks=[At(step - 1, stop)])
        largest = max(struct.unpack_from("<i", data, records + size * i + 4)[0] for i in range(step))
        assert at[:16] == struct.pack("<4I", owner, number, step, largest)
        assert at[16 + 8 * tasks : -4] == snapshot(part)
        for t in range(tasks):
            mantissa, exponent = struct.unpack_from("<Ii", at, 16 + 8 * t)
            assert mantissa >= 2**31 and -64 < exponent < 64
        assert at[-4:] == zlib.crc32(at[:-4]).to_bytes(4, "little")

    history = fit(make(kind))
    assert len(data) == records + size * STEPS
    for step, loss in enumerate(history.steps):
        body = struct.pack("<Ii", step, round(loss * 65536))
        assert data[records + size * step :][:size] == body + struct.pack("<I", zlib.crc32(body, owner))


# --- another run --------------------------------------------------------------------------------------------


def test_other_data_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    train(log, "nodes", callbacks=[At(5, stop)])
    data, other_x, other_y = log.read_bytes(), X.copy(), Y.copy()
    other_x[7, 3, 3, 0] ^= 1
    other_y[20] = (other_y[20] + 1) % 4
    order = np.roll(np.arange(24), 1)
    for x, y in ((other_x, Y), (X, other_y), (X[order], Y[order]), (X, Y[order])):
        with pytest.raises(LogError, match="of a run on other data: node perturbation is repeated from"):
            fit(make("nodes"), x, y, log=log, resume=True)
    assert log.read_bytes() == data
    # The same data in another form.
    again = make("nodes")
    fit(again, X.copy(order="F"), Y.astype(np.uint8), log=log, resume=True)
    assert again.step == STEPS


OTHERS: dict[str, Any] = {"seed": 10, "queries": 3, "learning_rate": 3.0, "batch_size": 4}
OF_NODES: dict[str, Any] = {"perturbation": 3, "step_clip": 1.0, "exact.last": 1, "snapshot_every": 5}


@pytest.mark.parametrize(("kind", "others"), [("nodes", OTHERS | OF_NODES), ("weights", OTHERS)])
def test_what_is_not_this_run_is_refused(kind: str, others: dict[str, Any], tmp_path: Path) -> None:
    log, trainer = tmp_path / "log", make(kind)
    with pytest.raises(ValueError, match="`resume` must have a log to resume from"):
        fit(trainer, resume=True)
    fit(trainer, log=log, callbacks=[At(5, stop)])
    data = log.read_bytes()
    for name, value in others.items():
        other = Trainer(model_of(kind), changed(SETTINGS_OF[kind], {name: value}))
        with pytest.raises(LogError, match="other settings, data or number of steps"):
            fit(other, log=log, resume=True)
    with pytest.raises(LogError, match="other settings, data or number of steps"):
        fit(make(kind), steps=STEPS + 1, log=log, resume=True)
    with pytest.raises(LogError, match="other settings, data or number of steps"):
        fit(make(kind), X[1:], Y[1:], log=log, resume=True)
    model = model_of({"nodes": "head", "weights": "8"}[kind])
    with pytest.raises(LogError, match="another model"):
        fit(Trainer(model, SETTINGS_OF[kind]), log=log, resume=True)
    with pytest.raises(LogError, match="another model"):
        replay_log(model, Log.read(log))
    assert log.read_bytes() == data
