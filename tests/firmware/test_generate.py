"""The generator: files have the properties of the model and the run."""

import hashlib
import importlib
import re
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.firmware_folders import ALGORITHMS, define, firmware, initializer, rows, zo_model
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import core, load_model
from tflm_zo.converters import ConversionError, read_metadata
from tflm_zo.converters.segments import extract_segment
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Nodes, Settings, SettingsError, Weights

pytestmark = pytest.mark.usefixtures("nothing_is_measured")

TESTS = Path(__file__).parents[1]


# --- content of the files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["small_cnn", "two_inputs", "autoencoder", "residual"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_model_is_in_the_arrays(name: str, network: str) -> None:
    model = zo_model(name, network)
    made = firmware("cmake", name, network)
    text = made.files["small_zo_model.cc"]
    header = made.files["small_zo_trainer.h"]
    count = len(read_metadata(model).segments)
    total = 0
    for k in range(count):
        array = "g_small_model_data" if count == 1 else f"g_small_segment_{k}_model_data"
        values = bytes(int(v, 16) for v in re.findall(r"0x[0-9a-f]{2}\b", initializer(text, array)))
        assert values == extract_segment(model, k).to_bytes()
        assert values[4:8] == b"TFL3"
        assert f"constexpr unsigned int {array}_size = {len(values)};" in header
        assert f"alignas(16) const unsigned char {array}[]" in text
        total += len(values)
    assert text.count("const unsigned char") == count
    assert int(define(made, "ZO_MODEL_BYTES")) == made.model_bytes == total


@pytest.mark.parametrize("network", ["small_cnn", "two_inputs", "autoencoder", "residual"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_tables_are_the_metadata(name: str, network: str) -> None:
    model = zo_model(name, network)
    metadata = read_metadata(model)
    made = firmware("cmake", name, network)
    text = made.files["small_zo_trainer.cc"]

    def port(segment: Any, side: str, role: str) -> str:
        found = [i for i, p in enumerate(getattr(segment, side)) if p.role == role]
        return str(found[0]) if found else "kNone"

    segments = rows(text, "kSegments")
    assert len(segments) == len(metadata.segments) == int(define(made, "ZO_SEGMENTS"))
    for k, (row, segment) in enumerate(zip(segments, metadata.segments, strict=True)):
        sides = [("inputs", r) for r in ("boundary", "label", "command")]
        sides += [("outputs", r) for r in ("boundary", "loss", "status")]
        assert row[1:7] == [port(segment, side, role) for side, role in sides]
        own = [i for i, t in enumerate(metadata.trainable) if t.segment == k]
        assert int(row[8]) == len(own) and (not own or int(row[7]) == own[0])
        enters = [
            tensor for p, tensor in zip(segment.inputs, model.subgraphs[k].inputs, strict=True) if p.role == "boundary"
        ]
        assert int(row[9]) == sum(tensor.size for tensor in enters) // metadata.batch

    # Random signs on all weights of all layers need no more of a tensor than its op's options.
    assert "kTrainable" not in text
    assert len(metadata.trainable) == int(define(made, "ZO_TENSORS"))

    inputs = rows(text, "kInputs")
    assert len(inputs) == len(metadata.original.inputs)
    for i, (segment_number, index, number, size) in enumerate(tuple(map(int, row)) for row in inputs):
        port_of = metadata.segments[segment_number].inputs[index]
        assert (port_of.role, port_of.index) == ("input", i) == ("input", number)
        assert size == model.subgraphs[segment_number].inputs[index].size // metadata.batch
    assert re.search(rf"/\* batch \*/ {metadata.batch},", text)
    assert re.search(rf"/\* limit \*/ {127 - metadata.headroom},", text)
    bits = 2 if metadata.update_bits == 16 else 1
    assert int(define(made, "ZO_TRAINABLE_BYTES")) == bits * sum(t.size for t in metadata.trainable)


def test_resolver_has_the_models_operators() -> None:
    made = firmware("cmake", "weight")
    text = made.files["small_zo_op_resolver.h"]
    calls = re.findall(r"micro_op_resolver\.(\w+)\(", text)
    assert sorted(calls) == [
        *("AddConv2D", "AddCustom", "AddCustom", "AddCustom", "AddCustom"),
        *("AddFullyConnected", "AddMaxPool2D", "AddReshape"),
    ]
    assert set(re.findall(r'AddCustom\("(\w+)"', text)) == {
        f"TFLM_ZO_{op}" for op in ("SEED_REPLAY", "UPDATE", "PERTURB", "LOSS")
    }
    assert f"kNumberOperators = {len(calls)};" in text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_are_the_runs(name: str) -> None:
    settings: Any = {
        "node": Settings(tasks=(Nodes(queries=3),), batch_size=4, seed=77, snapshot_every=9),
        "weight": Settings(tasks=(Weights(queries=3),), batch_size=4, seed=77),
    }[name]
    made = generate_firmware(zo_model(name), settings, steps=12, samples=20, name="small")
    # Weight perturbation's are constants of the op pack, and in the header of the log.
    text = made.files[{"node": "small_zo_model.cc", "weight": "small_zo_ops_internal.h"}[name]]
    for field, value in (("run_seed", 77), ("steps", 12), ("samples", 20), ("batch", 1), ("parts", 4)):
        assert re.search(rf"/\* {field} \*/ {value}u,", text), field
    assert define(made, "ZO_STEPS") == "12u" and define(made, "ZO_SAMPLES") == "20u"
    op_pack = "".join(made.files[f"small_zo_ops{of}"] for of in (".h", "_internal.h", ".c"))
    assert re.findall(r"#define SMALL_ZO_MAX_QUERIES (\d+)", op_pack) == ["3"]
    trainer = made.files["small_zo_trainer.cc"]
    assert ("&kSettings, kTasks, 9," in trainer) == (name == "node")
    other = {"node": "weight", "weight": "node"}[name]
    assert f"ops/device/small_zo_{name}_trainer.cc ---" in trainer
    assert f"ops/device/small_zo_{other}_trainer" not in trainer


def test_the_header_of_a_weight_runs_log_is_a_constant() -> None:
    """Follows `ops/core/log/zo_log.h`, with the fingerprint that the tables point to."""
    settings = Settings(tasks=(Weights(queries=3),), batch_size=4, seed=77)
    model = zo_model("weight")
    made = generate_firmware(model, settings, steps=12, samples=20, name="small")
    text = initializer(made.files["small_zo_model.cc"], "kLogHeader")
    header = bytes(int(v, 16) for v in re.findall(r"0x[0-9a-f]{2}\b", text))
    assert header[:16] == b"ZOLOG\r\n\x1a" + struct.pack("<4H", 3, 132, 20 + 4 * 3, 3)
    assert header[16:32] == hashlib.sha256(model.to_bytes()).digest()[:16]
    assert struct.unpack_from("<6I", header, 32) == (77, 12, 20, 1, 4, 3)
    assert struct.unpack_from("<I", header, 124) == (0,)
    assert header[128:] == struct.pack("<I", zlib.crc32(header[:128]))
    tables = made.files["small_zo_trainer.cc"]
    assert "/* fingerprint */ kLogHeader + SMALL_ZO_LOG_FINGERPRINT_AT," in tables


def test_the_workspace_has_room_for_the_logs_headers() -> None:
    _ram = importlib.import_module("tflm_zo.firmware.sizes")
    header = core.library().zo_snapshot_header_bytes
    for tasks in (1, 2, 7):
        assert _ram._SNAPSHOT_HEADER + _ram._SNAPSHOT_HEADER_TASK * tasks == header(tasks)


# --- samples ------------------------------------------------------------------------------------------------


def arrays(text: str, name: str, dtype: Any) -> Any:
    return np.array(re.findall(r"-?\d+", initializer(text, name)), dtype)


def test_samples_are_compiled_in() -> None:
    rng = np.random.default_rng(5)
    image = rng.integers(-128, 128, (5, 8, 8, 1)).astype(np.int8)
    features = rng.integers(-128, 128, (5, 10)).astype(np.int8)
    labels = np.array([0, 3, -1, 2, 1], np.int32)
    data = Data([image, features], labels)
    made = generate_firmware(zo_model("weight", "two_inputs"), steps=3, samples=5, data=data, data_name="own.npz")
    text = made.files["model_zo_samples.cc"]
    np.testing.assert_array_equal(arrays(text, "kInput0", np.int8).reshape(5, 8, 8, 1), image)
    np.testing.assert_array_equal(arrays(text, "kInput1", np.int8).reshape(5, 10), features)
    np.testing.assert_array_equal(arrays(text, "kLabels", np.int32), labels)
    assert "int32_t kLabels[kCount][1]" in text and "kInput0[kCount][64]" in text
    assert "kCount = 5;" in text and "5 samples of own.npz" in text


def test_noise_where_there_are_none(tmp_path: Path) -> None:
    # Compiled for this machine and read: bytes of each sample, and labels that are classes.
    made = firmware("cmake", "weight", "two_inputs")
    for path, text in made.files.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    assert "NOISE" in made.files["small_zo_samples.cc"]
    (tmp_path / "print.cc").write_text(
        "#include <stdio.h>\n"
        '#include "small_zo_trainer.h"\n'
        "using namespace small_zo;\n"
        "int main() {\n"
        "  static int8_t image[65], features[11];\n"
        "  image[64] = features[10] = 99;\n"
        "  int8_t* const inputs[8] = {image, features};\n"
        "  int32_t label;\n"
        "  for (uint32_t i = 0; i < kSampleCount; ++i) {\n"
        "    if (!kSamples.read(kSamples.context, i, inputs, &label)) return 1;\n"
        "    const int past = image[64] + features[10];\n"
        '    printf("%d %d %d %d %d\\n", label, image[0], image[63], features[9], past);\n'
        "  }\n"
        "  int8_t* const none[8] = {};\n"
        "  if (!kSamples.read(kSamples.context, 0, none, nullptr)) return 2;\n"
        "  return kSamples.read(kSamples.context, kSampleCount, none, nullptr) ? 3 : 0;\n"
        "}\n"
    )
    sources = [tmp_path / "print.cc", tmp_path / "small_zo_samples.cc"]
    headers = [f"-I{tmp_path}", f"-I{TESTS / 'device/tflm'}"]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *headers, *sources]
    subprocess.run([*command, "-o", tmp_path / "program"], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    found = [[int(v) for v in line.split()] for line in done.stdout.splitlines()]
    assert [row[0] for row in found] == [0, 1, 2, 3, 0]
    assert all(row[4] == 198 for row in found), "written past the end of an input"
    assert len({tuple(row[1:4]) for row in found}) == 5, "samples differ"


# --- refusals -----------------------------------------------------------------------------------------------


def test_models_that_cannot_be_trained() -> None:
    plain = load_model(MODELS["small_cnn"]())
    with pytest.raises(ConversionError, match="no ZO model .* inject it first"):
        generate_firmware(plain, steps=3, samples=5)
    without = load_model(inject_all(MODELS["small_cnn"](), loss="none").to_bytes())
    with pytest.raises(ConversionError, match="no loss, so it cannot train; inject it with one"):
        generate_firmware(without, steps=3, samples=5)


def test_settings_that_do_not_fit() -> None:
    with pytest.raises(SettingsError, match="`model` must carry nodes"):
        generate_firmware(zo_model("weight"), Settings(batch_size=4), steps=3, samples=5)
    with pytest.raises(SettingsError, match="multiple of the model's batch 4. Received: 6"):
        generate_firmware(zo_model("weight", batch=4), Settings(tasks=(Weights(),), batch_size=6), steps=3, samples=5)
    for bad in ({"steps": 0, "samples": 5}, {"steps": 3, "samples": 0}, {"steps": 2**32, "samples": 5}):
        with pytest.raises(SettingsError, match=r"`(steps|samples)` must be in 1\.\.4294967295"):
            generate_firmware(zo_model("weight"), **bad)
    with pytest.raises(SettingsError, match=r"`steps` must be in 1\.\.33554432, because a device's store"):
        generate_firmware(zo_model("weight"), steps=2**25 + 1, samples=5)
    with pytest.raises(SettingsError, match="`platform` must be one of cmake, make, arduino, zephyr"):
        generate_firmware(zo_model("weight"), steps=3, samples=5, platform="iar")
