"""Logs of stores that program several bytes at once, padded here as ``zo_store_units.h`` specifies it."""

import dataclasses
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.runs import RUNS, STEPS, desktop, samples, zo_model
from tflm_zo import Trainer
from tflm_zo.converters import read_metadata
from tflm_zo.logs import Log, LogError, replay_log
from tflm_zo.logs.layout import LiveLog, unit_of, unpadded
from tflm_zo.logs.layout import padded as padded_by_us

#: Name, steps between measurements.
LOGS = (("weight", 0), ("weight, segments", 4), ("node", 0), ("exact head", 2), ("biases, too", 0))
UNITS = (2, 4, 8, 16, 32)


def whole(log: bytes) -> Iterator[bytes]:
    """Yields header, slots, records and measurements: everything with a valid checksum at its end."""
    tasks = struct.unpack_from("<H", log, 14)[0]
    every = struct.unpack_from("<I", log, 124 if log[8] == 3 else 156)[0]
    size, record = struct.unpack_from("<HH", log, 10)
    at = size
    yield log[:size]
    if log[8] == 4:
        slot = 16 + 8 * tasks + struct.unpack_from("<I", log, 132)[0] + 4
        for _ in range(3 if every else 2):
            yield log[at : at + slot]
            at += slot
    checksum = struct.unpack_from("<I", log, size - 4)[0]
    while at < len(log):
        for count in (record, 28):
            piece = log[at : at + count]
            if piece[-4:] == struct.pack("<I", zlib.crc32(piece[:-4], checksum)):
                break
        else:
            raise AssertionError(at)
        yield piece
        at += count
        if log[8] == 3:
            checksum = struct.unpack("<I", piece[-4:])[0]


def stored(pieces: Iterable[bytes], unit: int) -> list[bytes]:
    return [piece + b"\xff" * (-len(piece) % unit) for piece in pieces]


def padded(log: bytes, unit: int) -> bytes:
    pieces = stored(whole(log), unit)
    pieces[0] = pieces[0][:9] + bytes([128 + unit]) + pieces[0][10:]
    return b"".join(pieces)


def same(a: Any, b: Any) -> None:
    for field in dataclasses.fields(a):
        one, other = (getattr(log, field.name) for log in (a, b))
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
        elif dataclasses.is_dataclass(one):
            same(one, other)
        elif field.name == "settings":
            assert bytes(one) == bytes(other)
        elif field.name != "rules":
            assert one == other


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("name", "every"), LOGS)
def test_reading(name: str, every: int, unit: int, tmp_path: Path) -> None:
    """Reads a padded log like one without padding, from any end."""
    log = desktop(name, measure_every=every).log
    data, paths = padded(log, unit), (tmp_path / "plain.zolog", tmp_path / "padded.zolog")
    assert unpadded(data) == log and unpadded(log) == log
    torn = bytes([7]) * 9  # remains of an interrupted write
    for end in (len(data), len(data) - 1, len(data) - unit):
        given = data[:end] + torn * (end == len(data))
        for path, content in zip(paths, (unpadded(given), given), strict=True):
            path.write_bytes(content)
        same(*(Log.read(path) for path in paths))
        # A record whose padding alone is cut off is whole; behind the last step may be a measurement.
        is_whole = len(unpadded(given)) >= len(log) or every > 0
        assert len(Log.read(paths[1]).losses) == STEPS - (0 if is_whole else 1)


@given(st.sampled_from(LOGS), st.sampled_from((1, *UNITS)), st.sampled_from(UNITS), st.data())
def test_padding(log_of: tuple[str, int], unit: int, other: int, draw: st.DataObject) -> None:
    """Pads a log for a store up to its end, from any earlier padding."""
    log = desktop(log_of[0], measure_every=log_of[1]).log
    pieces = list(whole(log))
    count = draw.draw(st.integers(1, len(pieces)), "whole pieces")
    begin = b"".join(pieces[:count])
    behind = len(pieces[count]) - 1 if count < len(pieces) else 0
    begin += bytes(draw.draw(st.integers(0, behind), "bytes behind them"))
    wanted = begin if unit == 1 else padded(log, unit)[: sum(map(len, stored(pieces[:count], unit)))]
    if unit > 1:
        wanted += begin[sum(map(len, pieces[:count])) :]
    assert padded_by_us(begin, unit) == wanted and unit_of(wanted) == unit
    assert padded_by_us(padded_by_us(begin, other), unit) == wanted
    assert padded_by_us(log[: len(pieces[0]) - 1], unit) == log[: len(pieces[0]) - 1]  # no whole header


@given(st.sampled_from(LOGS), st.sampled_from((1, *UNITS)), st.lists(st.integers(1, 200), min_size=1))
def test_a_live_log(log_of: tuple[str, int], unit: int, sizes: list[int]) -> None:
    """Reads a log that comes in pieces of any sizes like its file."""
    expected = desktop(log_of[0], measure_every=log_of[1])
    data = padded(expected.log, unit) if unit > 1 else expected.log
    header = LiveLog.header_bytes(data[: LiveLog.BEGINNING])
    assert header is not None
    live = LiveLog(data[:header], "it")
    losses, at, taken, turn = list[float](), live.begin, live.begin, 0
    while at < len(data):
        at = min(at + sizes[turn % len(sizes)], len(data))
        more, used = live.take(data[taken:at])
        losses, taken, turn = losses + more, taken + used, turn + 1
        assert (taken - live.begin) % unit == 0 and taken <= at
        assert not live.is_over(data[: live.begin]) or live.step == live.steps
    assert [round(v * 65536) for v in losses] == expected.losses
    assert (taken, live.step, live.unit) == (len(data), STEPS, unit)
    assert live.end == len(data) + -(-28 // unit) * unit and live.is_over(data)  # a threshold may follow


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("name", "every"), LOGS[:4])
def test_replay_and_resume(name: str, every: int, unit: int, tmp_path: Path) -> None:
    """Makes the model of a padded log; a run that resumes from one ends with the log of an undisturbed run."""
    expected, path = desktop(name, measure_every=every), tmp_path / "run.zolog"
    path.write_bytes(padded(expected.log, unit))
    weights, fractions = replay_log(zo_model(name), path)
    order = [t.name for t in read_metadata(zo_model(name)).trainable]
    state = b"".join(part[n].tobytes() for part in (weights, fractions) for n in order if n in part)
    if not every:
        assert state == expected.states[-1].weights
    path.write_bytes(expected.log)
    again = replay_log(zo_model(name), path)
    assert state == b"".join(part[n].tobytes() for part in again for n in order if n in part)
    if every:
        return  # resumed by tests/training
    pieces = list(whole(expected.log))
    cut = b"".join(pieces[:-1]) if name == "weight" else expected.log
    path.write_bytes(padded(cut, unit))
    x, y = samples().inputs[0], samples().labels
    trainer = Trainer(zo_model(name), RUNS[name][1])
    trainer.fit(x, y, steps=STEPS, log=path, resume=True, keep="last")
    assert path.read_bytes() == expected.log


@pytest.mark.parametrize(("name", "every"), LOGS)
def test_every_bit_of_the_mark(name: str, every: int, tmp_path: Path) -> None:
    """Refuses logs of either kind if a bit of the byte with the padding is damaged."""
    log, path = desktop(name, measure_every=every).log, tmp_path / "run.zolog"
    for unit in (1, *UNITS):
        data = bytearray(padded(log, unit) if unit > 1 else log)
        for bit in range(8):
            data[9] ^= 1 << bit
            path.write_bytes(data)
            with pytest.raises(LogError):
                Log.read(path)
            data[9] ^= 1 << bit


@pytest.mark.parametrize("name", ["weight", "node"])
def test_a_damaged_header(name: str, tmp_path: Path) -> None:
    path, data = tmp_path / "run.zolog", bytearray(padded(desktop(name).log, 8))
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogError, match="damaged"):
        Log.read(path, layerwise=name == "node")
