"""Frames: the device's C and the host's Python, written apart, against each other and against examples."""

import ctypes
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_zo.link.protocol import FrameReader, Hello, cobs_decoded, cobs_encoded, to_frame

CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(CC is None, reason="NO C COMPILER: THE DEVICE'S FRAMES WERE NOT TESTED")
# Of frames that begin and end with a zero.
EXAMPLES = {
    b"": "01",
    b"\x00": "01 01",
    b"\x00\x00": "01 01 01",
    b"\x11\x22\x00\x33": "03 11 22 02 33",
    b"\x11\x22\x33\x44": "05 11 22 33 44",
    b"\x11\x00\x00\x00": "02 11 01 01 01",
    bytes(range(1, 255)): "ff" + bytes(range(1, 255)).hex(),
    bytes(range(255)): "01 ff" + bytes(range(1, 255)).hex(),
    bytes(range(1, 256)): "ff" + bytes(range(1, 255)).hex() + "02 ff",
    bytes([*range(2, 256), 0]): "ff" + bytes(range(2, 256)).hex() + "01 01",
    bytes([*range(3, 256), 0, 1]): "fe" + bytes(range(3, 256)).hex() + "02 01",
}
CONTENTS = st.lists(
    st.one_of(st.binary(min_size=1, max_size=6), st.integers(0, 700).map(bytes), st.just(b"\x07" * 254)),
    min_size=1,
    max_size=5,
).map(b"".join)


@pytest.mark.parametrize("data", EXAMPLES, ids=lambda data: f"{len(data)}, {data[:3].hex()}")
def test_cobs_is_that_of_its_examples(data: bytes) -> None:
    assert cobs_encoded(data) == bytes.fromhex(EXAMPLES[data])
    assert cobs_decoded(bytes.fromhex(EXAMPLES[data])) == data


@given(CONTENTS.filter(len), st.binary(max_size=40), st.integers(1, 50))
def test_what_is_sent_comes_through_whatever_was_on_the_line_before(content: bytes, before: bytes, piece: int) -> None:
    frame = to_frame(content)
    assert 0 not in frame[1:-1] and frame[0] == frame[-1] == 0
    assert len(frame) <= len(content) + 4 + 3 + (len(content) + 4) // 254
    reader, line = FrameReader(), before + frame + frame
    found = [c for at in range(0, len(line), piece) for c in reader.take(line[at : at + piece])]
    assert found[-2:] == [content, content]


@given(CONTENTS.filter(len), st.data())
def test_a_damaged_frame_is_none(content: bytes, data: Any) -> None:
    frame = bytearray(to_frame(content))
    at = data.draw(st.integers(1, len(frame) - 2))
    kind = data.draw(st.sampled_from(["lost", "doubled", "flipped"]))
    if kind == "lost":
        del frame[at]
    elif kind == "doubled":
        frame.insert(at, frame[at])
    else:
        frame[at] ^= 1 << data.draw(st.integers(0, 7))
    reader = FrameReader()
    assert list(reader.take(bytes(frame))) == []
    assert reader.damaged >= 1
    assert list(reader.take(to_frame(content))) == [content]


class Sink(ctypes.Structure):
    _fields_ = [("write", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class Reader(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_void_p),
        ("capacity", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("code", ctypes.c_uint8),
        ("left", ctypes.c_uint8),
        ("is_too_long", ctypes.c_bool),
    ]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("frames") / "frames.so"
    sources = [ROOT / "ops/core/link/zo_frame.c", ROOT / "ops/core/log/zo_crc32.c"]
    flags = ["-std=c99", "-O1", "-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
    subprocess.run([str(CC), *flags, f"-I{ROOT}", *sources, "-o", made], check=True)
    return ctypes.CDLL(str(made))


def sent_by_device(device: ctypes.CDLL, content: bytes) -> bytes:
    out = bytearray()
    write = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)

    def take(_: Any, at: int, count: int) -> bool:
        out.extend(ctypes.string_at(at, count))
        return True

    callback: Callable[..., bool] = write(take)
    buffer = ctypes.create_string_buffer(content, len(content) + 4)
    sink = Sink(ctypes.cast(callback, ctypes.c_void_p), None)
    assert device.zo_frame_send(buffer, ctypes.c_uint32(len(content)), ctypes.byref(sink))
    return bytes(out)


def taken_by_device(device: ctypes.CDLL, line: bytes, room: int) -> list[bytes]:
    reader, buffer = Reader(), ctypes.create_string_buffer(room)
    device.zo_frame_begin(ctypes.byref(reader), buffer, ctypes.c_uint32(room))
    take = device.zo_frame_take
    sizes = ((take(ctypes.byref(reader), ctypes.c_uint8(byte)), buffer) for byte in line)
    return [bytes(held.raw[:size]) for size, held in sizes if size]


@needs_compiler
@given(content=CONTENTS)
def test_both_ends_send_the_same_bytes(device: ctypes.CDLL, content: bytes) -> None:
    assert sent_by_device(device, content) == to_frame(content)


@needs_compiler
@given(contents=st.lists(CONTENTS.filter(len), max_size=4), noise=st.binary(max_size=60), data=st.data())
def test_both_ends_find_the_same_frames(device: ctypes.CDLL, contents: list[bytes], noise: bytes, data: Any) -> None:
    line = bytearray(noise + b"".join(map(to_frame, contents)))
    for _ in range(data.draw(st.integers(0, 3)) if line else 0):
        at = data.draw(st.integers(0, len(line) - 1))
        line[at] = data.draw(st.integers(0, 255))
    found = list(FrameReader().take(bytes(line)))
    room = max((len(content) for content in contents), default=0) + 4
    assert taken_by_device(device, bytes(line), room) == [c for c in found if len(c) + 4 <= room]


@needs_compiler
def test_a_frame_that_the_device_has_no_room_for(device: ctypes.CDLL) -> None:
    short, long = to_frame(b"\x01" * 20), to_frame(b"\x01" * 21)
    assert taken_by_device(device, long + short + long, 24) == [b"\x01" * 20]


def test_the_checksum_is_that_of_zlib() -> None:
    (content,) = FrameReader().take(to_frame(b"123456789"))
    assert content == b"123456789" and zlib.crc32(content) == 0xCBF43926
    assert to_frame(b"123456789") == bytes.fromhex("00 0e 313233343536373839 2639f4cb 00")


def test_what_a_device_says_its_store_programs_at_once() -> None:
    """A store of single bytes says nothing, as devices of before there were others do."""
    answer = struct.pack("<16s10I", bytes(16), 64, 1, 1000, 45, 1, 0, 0, 0, 0, 0)
    assert (Hello.from_bytes(answer).unit, Hello.from_bytes(answer).log_at) == (1, 45)
    for unit, at in ((2, 46), (4, 48), (8, 48), (16, 48), (32, 64)):
        found = Hello.from_bytes(answer + struct.pack("<I", unit))
        assert (found.unit, found.log_at) == (unit, at)
    for nonsense in (struct.pack("<I", 0), struct.pack("<I", 3), struct.pack("<I", 64), b"\1", bytes(8)):
        with pytest.raises(ValueError):
            Hello.from_bytes(answer + nonsense)
