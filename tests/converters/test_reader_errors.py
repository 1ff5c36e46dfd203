"""Damaged and unsupported files: one clear exception for every damage."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import MODELS, residual, small_cnn, two_inputs
from tflm_zo.converters import ConversionError, Last, extract_segment, inject, load_model, possible_cuts, set_batch

SMALL = [small_cnn(), MODELS["float_edges"](), two_inputs()]


def edited(change: Callable[[Any], None], data: bytes = SMALL[0]) -> bytes:
    raw = schema.ModelT.InitFromPackedBuf(data, 0)
    change(raw)
    builder = flatbuffers.Builder(1024)
    builder.Finish(raw.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def use(data: bytes) -> None:
    try:
        model = load_model(data)
    except ConversionError as e:
        assert "\n" not in str(e)
        return
    load_model(model.to_bytes())
    for function in (
        inject,
        lambda m: inject_all(m, batch=2, trainable=Last(1), loss="mse"),
        lambda m: set_batch(m, 3),
        lambda m: inject_all(m, cuts=possible_cuts(m)[:2], loss="none"),
        lambda m: extract_segment(m, 0),
    ):
        try:
            function(model).to_bytes()
        except ConversionError as e:
            assert "\n" not in str(e)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short"),
        (b"\x1c\0\0\0TFL2" + bytes(64), "not a .tflite model"),
        (b"PK\3\4" + bytes(100), "not a .tflite model: bytes 4 to 8"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "Keras' format; tflm-zo convert makes"),
        (b"\xff\xff\xff\x7fTFL3" + bytes(64), "offset"),
        (b"\x08\0\0\0TFL3" + bytes(64), "malformed|version"),
    ],
)
def test_not_a_model(data: bytes, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        load_model(data)


def test_a_keras_model_is_told_where_it_goes(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]).save(path)
    with pytest.raises(ConversionError, match="model.keras: not a .tflite model, but Keras' format; tflm-zo"):
        load_model(path)


OUTSIDE = "outside the flatbuffer"
INCONSISTENT: list[tuple[Callable[[Any], Any], str]] = [
    (lambda raw: vars(raw).update(version=4), "schema version 4"),
    (lambda raw: vars(raw.buffers[2]).update(offset=4096, size=16), OUTSIDE),
    (lambda raw: vars(raw.subgraphs[0].operators[0]).update(largeCustomOptionsOffset=100), OUTSIDE),
    (lambda raw: vars(raw.subgraphs[0].operators[0]).update(inputs=np.array([99, 1, 2], np.int32)), "no tensor 99"),
    (lambda raw: vars(raw.subgraphs[0].operators[0]).update(opcodeIndex=99), "no operator code 99"),
    (lambda raw: vars(raw.subgraphs[0].tensors[0]).update(buffer=99), "no buffer 99"),
    (lambda raw: vars(raw.subgraphs[0].tensors[1]).update(shape=np.array([4, 3, 3, 2], np.int32)), "conv/filter"),
    (lambda raw: vars(raw.subgraphs[0].tensors[0]).update(shape=np.array([1, -8, 8, 1], np.int32)), "image"),
    (lambda raw: vars(raw.buffers[0]).update(data=np.ones(4, np.uint8)), "buffer 0"),
]
if hasattr(schema.TensorT(), "externalBuffer"):
    INCONSISTENT.append((lambda raw: vars(raw.subgraphs[0].tensors[0]).update(externalBuffer=1), OUTSIDE))


@pytest.mark.parametrize(("change", "message"), INCONSISTENT)
def test_inconsistent_files(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        load_model(edited(change))


def add_field(data: bytes, find: Callable[[Any], Any], slots: int) -> bytes:
    """Gives a table of the file a vtable with a field beyond those of the schema, as a newer one would."""
    root = schema.Model.GetRootAs(data, 0)
    table = find(root)._tab
    position = table.Pos
    vtable = position - int.from_bytes(data[position : position + 4], "little", signed=True)
    length = int.from_bytes(data[vtable : vtable + 2], "little")
    old = [data[vtable + i : vtable + i + 2] for i in range(4, length, 2)]
    entries = old + [b"\0\0"] * (slots - len(old)) + [b"\x04\0"]
    new = (4 + 2 * len(entries)).to_bytes(2, "little") + data[vtable + 2 : vtable + 4] + b"".join(entries)
    # The new vtable goes to the end of the file; offsets to vtables are signed.
    end = len(data) + len(data) % 2
    result = bytearray(data) + bytearray(end - len(data)) + new
    result[position : position + 4] = (position - end).to_bytes(4, "little", signed=True)
    return bytes(result)


@pytest.mark.parametrize(
    ("name", "find", "slots"),
    [
        ("Model", lambda m: m, 10),
        ("SubGraph", lambda m: m.Subgraphs(0), 6),
        ("Tensor", lambda m: m.Subgraphs(0).Tensors(0), 11),
        ("Operator", lambda m: m.Subgraphs(0).Operators(0), 14),
        ("Buffer", lambda m: m.Buffers(1), 3),
        ("QuantizationParameters", lambda m: m.Subgraphs(0).Tensors(0).Quantization(), 7),
        ("OperatorCode", lambda m: m.OperatorCodes(0), 4),
    ],
)
def test_newer_schema(name: str, find: Callable[[Any], Any], slots: int) -> None:
    with pytest.raises(ConversionError, match=f"newer schema: {name} has a field"):
        load_model(add_field(SMALL[0], find, slots))


def test_every_truncation() -> None:
    data = SMALL[0]
    for length in [*range(0, 64), *range(64, len(data), 7)]:
        use(data[:length])


@settings(deadline=None)
@given(
    model=st.sampled_from(SMALL),
    flips=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), min_size=1, max_size=4),
)
@example(model=SMALL[0], flips=[(4, 1)])
def test_byte_flips(model: bytes, flips: list[tuple[int, int]]) -> None:
    data = bytearray(model)
    for position, mask in flips:
        data[position % len(data)] ^= mask
    use(bytes(data))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(position=st.integers(0, 2**20), value=st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]))
@example(position=144, value=1)  # a signature that names a filter
def test_damaged_words(position: int, value: int) -> None:
    data = bytearray(residual())
    at = position % (len(data) - 4) & ~3
    data[at : at + 4] = value.to_bytes(4, "little")
    use(bytes(data))
