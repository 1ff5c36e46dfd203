"""The editable model: it writes the same bytes as it reads."""

import io
import struct
import zipfile
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from helpers.injection import inject_all
from helpers.interpreters import inputs_of, run
from helpers.models import MODELS, GraphBuilder, lenet5, small_cnn
from tflm_zo.converters import ConversionError, Model, export_model, extract_segment, inject, load_model
from tflm_zo.converters.model import Buffer, Metadata


def generated(data: bytes) -> Any:
    """Reads the file with the generated code, apart from the reader under test."""
    return schema.ModelT.InitFromPackedBuf(data, 0)


def plain(value: Any) -> Any:
    """Converts a generated object to comparable dictionaries and lists."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.tolist())
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "__dict__"):
        return {k: plain(v) for k, v in vars(value).items()}
    return value


def test_round_trip_keeps_every_field(built: bytes) -> None:
    written = load_model(built).to_bytes()
    assert plain(generated(written)) == plain(generated(built))


def test_a_model_is_read_as_itself(built: bytes) -> None:
    model = load_model(built)
    assert load_model(model) is model


def test_round_trip_keeps_every_field_of_real_models(real_model: bytes) -> None:
    written = load_model(real_model).to_bytes()
    original = generated(real_model)
    for code in original.operatorCodes:
        # Files from before 2020 have only the deprecated field, and are brought up to date.
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    assert plain(generated(written)) == plain(original)
    inputs = inputs_of(real_model)
    for a, b in zip(run(real_model, inputs), run(written, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_writing_is_deterministic(built: bytes) -> None:
    assert load_model(built).to_bytes() == load_model(built).to_bytes()
    model = load_model(built)
    assert model.to_bytes() == model.copy().to_bytes() == model.to_bytes()


def test_buffers_are_aligned(built: bytes) -> None:
    model = load_model(built)
    model.metadata = [*(model.metadata or []), Metadata("odd", Buffer(b"x" * 13))]
    data = model.to_bytes()
    root = schema.Model.GetRootAs(data, 0)
    for i in range(root.BuffersLength()):
        buffer = root.Buffers(i)
        if not buffer.DataIsNone():
            offset = buffer._tab.Offset(4)
            assert buffer._tab.Vector(offset) % 16 == 0, i


def test_unknown_metadata_and_unused_buffers_are_kept() -> None:
    g = GraphBuilder()
    g.buffer(b"nobody asks for this")
    x = g.dense(g.input("x", [1, 4]), "fc", 3)
    model = load_model(g.build([x], metadata={"someone's": b"\x00\xff\x01", "other": b"z"}))
    again = load_model(model.to_bytes())
    assert [(m.name, m.buffer.data) for m in again.metadata or ()] == [("someone's", b"\x00\xff\x01"), ("other", b"z")]
    assert b"nobody asks for this" in [b.data for b in again.buffers]


def test_operator_codes_beyond_127_and_duplicates() -> None:
    raw = generated(small_cnn())
    for code in raw.operatorCodes:
        code.builtinCode = 0  # as old files have them: only the deprecated field
    raw.operatorCodes.append(raw.operatorCodes[0])
    raw.operatorCodes[-1].version = raw.operatorCodes[0].version
    raw.subgraphs[0].operators[0].opcodeIndex = len(raw.operatorCodes) - 1
    new = schema.OperatorCodeT()
    new.builtinCode, new.deprecatedBuiltinCode = schema.BuiltinOperator.BROADCAST_TO, 127
    raw.operatorCodes.append(new)
    codes = generated(load_model(pack(raw)).to_bytes()).operatorCodes
    pairs = [(c.builtinCode, c.deprecatedBuiltinCode) for c in codes]
    assert len(pairs) == len(set(pairs))
    assert (schema.BuiltinOperator.BROADCAST_TO, 127) in pairs
    assert all(old == min(127, builtin) for builtin, old in pairs)


def pack(raw: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(raw.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_fields_that_are_not_modelled_are_kept() -> None:
    raw = generated(small_cnn())
    graph = raw.subgraphs[0]
    graph.debugMetadataIndex = 7
    graph.tensors[0].shapeSignature = np.array([-1, 8, 8, 1], np.int32)
    variant = schema.VariantSubTypeT()
    variant.shape, variant.type, variant.hasRank = np.array([2], np.int32), schema.TensorType.INT8, True
    graph.tensors[0].variantTensors = [variant]
    graph.operators[0].mutatingVariableInputs = np.array([False, True, False])
    graph.operators[0].intermediates = np.array([0, -1], np.int32)
    graph.operators[0].builtinOptions2Type = schema.BuiltinOptions2.DilateOptions
    graph.operators[0].builtinOptions2 = schema.DilateOptionsT()
    graph.tensors[1].quantization.min = np.array([-1.5], np.float32)
    graph.tensors[1].quantization.max = np.array([1.5], np.float32)
    raw.metadataBuffer = np.array([2, 1], np.int32)
    data = pack(raw)
    assert plain(generated(load_model(data).to_bytes())) == plain(generated(data))


def test_names_that_are_no_utf8_are_kept() -> None:
    raw = generated(small_cnn())
    raw.subgraphs[0].tensors[0].name = b"caf\xe9"
    data = load_model(pack(raw)).to_bytes()
    assert generated(data).subgraphs[0].tensors[0].name == b"caf\xe9"


def test_set_data_leaves_other_users_of_a_buffer_alone() -> None:
    model = load_model(small_cnn())
    tensor = next(t for t in model.subgraphs[0].tensors if t.name == "conv/filter")
    other = tensor.copy()
    assert other.buffer is tensor.buffer
    before = tensor.buffer.data
    tensor.set_data(np.zeros_like(tensor.numpy()))
    assert other.buffer.data == before
    assert not tensor.numpy().any()
    with pytest.raises(ConversionError, match="conv/filter"):
        tensor.set_data(np.zeros((1, 2), np.int8))


def test_save_refuses_to_replace_and_leaves_nothing_half_written(tmp_path: Any) -> None:
    model = load_model(lenet5())
    path = tmp_path / "model.tflite"
    assert model.save(path) == path
    with pytest.raises(FileExistsError, match=r"model\.tflite exists"):
        model.save(path)
    small = load_model(small_cnn())
    small.save(str(path), force=True)
    assert path.read_bytes() == small.to_bytes()
    broken = Model(buffers=[Buffer(b"not empty")])
    with pytest.raises(ConversionError, match="buffer 0"):
        broken.save(path, force=True)
    assert path.read_bytes() == small.to_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["model.tflite"]


def test_load_from_path(tmp_path: Any) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_cnn())
    assert load_model(path).to_bytes() == load_model(str(path)).to_bytes()
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent.tflite")


def behind(data: bytes) -> dict[str, bytes]:
    """Returns the files of the archive behind a model, at the places of its table."""
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        assert all(data[f.header_offset :][:4] == b"PK\3\4" for f in files.infolist())
        assert data[files.start_dir :][:4] == b"PK\1\2"
        place = struct.unpack_from("<I", data, data.rfind(b"PK\5\6") + 16)
        assert place == (files.start_dir,)
        return {f.filename: files.read(f) for f in files.infolist()}


@pytest.mark.parametrize("counts_from_the_model", [True, False])
@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_archive_behind_a_model(kind: int, counts_from_the_model: bool) -> None:
    """Keeps appended labels, as TFLite's metadata has them, behind every changed model."""
    held = {"labels.txt": b"yes\nno\n", "deep/vocabulary.txt": b"a" * 5000}
    beginning = small_cnn()
    file = io.BytesIO(beginning if counts_from_the_model else b"")
    with zipfile.ZipFile(file, "a", kind) as files:
        for name, content in held.items():
            files.writestr(name, content)
        files.comment = b"of a test"
    data = file.getvalue() if counts_from_the_model else beginning + file.getvalue()
    model = load_model(data)
    assert behind(model.to_bytes()) == held
    zo = inject(model)
    assert behind(zo.to_bytes()) == behind(export_model(load_model(zo.to_bytes())).to_bytes()) == held
    assert not extract_segment(zo, 0).archive
    assert load_model(beginning).archive == load_model(data.replace(b"PK\1\2", b"none")).archive == b""
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(data)
        for at in rng.integers(len(beginning), len(data), rng.integers(1, 4)):
            damaged[at] = rng.integers(256)
        assert load_model(load_model(damaged).to_bytes()).to_bytes()[: len(beginning)] == beginning


@pytest.mark.parametrize("name", sorted(MODELS))
def test_repr_fits_on_a_line(name: str) -> None:
    plain = load_model(MODELS[name]())
    for model in (plain, load_model(inject_all(plain).to_bytes())):
        assert len(repr(model)) < 200
        graph = model.subgraphs[0]
        parts = [graph, *graph.tensors, *graph.operators, *(model.signatures or ()), *(model.metadata or ())]
        parts += [t.buffer for t in graph.tensors]
        parts += [q for t in graph.tensors if (q := t.quantization) is None or not q.is_per_channel]
        for part in [*parts, *(op.code for op in graph.operators)]:
            assert len(repr(part)) < 500, type(part)
    operators = sum(len(graph.operators) for graph in plain.subgraphs)
    assert repr(plain).startswith(f"<Model: {operators} operators, ")


def test_repr_says_inputs_and_outputs() -> None:
    small = repr(load_model(MODELS["small_cnn"]()))
    assert small.endswith(", 1x8x8x1 INT8 -> 1x4 INT8>")
