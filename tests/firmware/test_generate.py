# SPDX-License-Identifier: Apache-2.0
"""The generator: files have what the model has, and folders are written whole or not at all."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.firmware_folders import ALGORITHMS, COMMAND, firmware, zo_model
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo import core, load_model
from tflm_zo.converters import ConversionError, read_metadata
from tflm_zo.converters.segments import extract_segment
from tflm_zo.data import Data
from tflm_zo.firmware import PLATFORMS, Firmware, arena, generate_firmware, identifier
from tflm_zo.firmware.folder import CHECKSUMS, checksums, write_folder
from tflm_zo.firmware.source_text import comment, string
from tflm_zo.training import Nodes, Settings, Weights
from tflm_zo.training.settings import SettingsError


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena is its bound: measuring takes a second (test_arena.py does)."""
    monkeypatch.setattr(arena, "_recorded", lambda models: None)


def uncommented(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def initializer(text: str, name: str) -> str:
    """What stands between the braces of a definition."""
    found = re.findall(rf"\b{name}(?:\[\w*\])+ = \{{(.*?)\n?\}};", uncommented(text), re.S)
    assert len(found) == 1, name
    return str(found[0])


def rows(text: str, name: str) -> list[list[str]]:
    return [[v.strip() for v in row.split(",")] for row in re.findall(r"\{(.*?)\}", initializer(text, name))]


def define(made: Firmware, name: str) -> str:
    return re.findall(
        rf"^#define \w+_{name} (.*)$",
        next(t for p, t in made.files.items() if p.endswith("_zo_config.h")),
        re.M,
    )[0]


# --- what is in the files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["small_cnn", "two_inputs", "autoencoder", "residual"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_model_is_in_the_arrays(name: str, network: str) -> None:
    model = zo_model(name, network)
    made = firmware("cmake", name, network)
    text = made.files["small_model_data.cc"]
    header = made.files["small_model_data.h"]
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
    text = made.files["small_zo_model.cc"]

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
            tensor
            for p, tensor in zip(segment.inputs, model.subgraphs[k].inputs, strict=True)
            if p.role == "boundary"
        ]
        assert int(row[9]) == sum(tensor.size for tensor in enters) // metadata.batch

    trainable = rows(text, "kTrainable")
    assert len(trainable) == len(metadata.trainable) == int(define(made, "ZO_TENSORS"))
    for row, t in zip(trainable, metadata.trainable, strict=True):
        assert row[0] == f'"{t.layer}"'
        assert [int(v) for v in row[3:]] == [
            t.size,
            t.channels,
            t.inner,
            t.stream,
            t.block,
            t.segment,
            t.int16,
        ]

    inputs = rows(text, "kInputs")
    assert len(inputs) == len(metadata.original.inputs)
    for i, (segment_number, index, size) in enumerate(tuple(map(int, row)) for row in inputs):
        port_of = metadata.segments[segment_number].inputs[index]
        assert (port_of.role, port_of.index) == ("input", i)
        assert size == model.subgraphs[segment_number].inputs[index].size // metadata.batch
    for field, value in (("batch", metadata.batch), ("command_words", metadata.command_words)):
        assert re.search(rf"/\* {field} \*/ {value},", text)
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
    text = made.files["small_zo_model.cc"]
    for field, value in (("run_seed", 77), ("steps", 12), ("samples", 20), ("batch", 1), ("parts", 4)):
        assert re.search(rf"/\* {field} \*/ {value}u,", text), field
    assert define(made, "ZO_STEPS") == "12u" and define(made, "ZO_SAMPLES") == "20u"
    assert re.findall(r"#define SMALL_ZO_MAX_QUERIES (\d+)", made.files["ops/core/small_zo_types.h"]) == ["3"]
    trainer = made.files["small_zo_trainer.cc"]
    assert ("&kSettings, kTasks, 9," in trainer) == (name == "node")
    other = {"node": "weight", "weight": "node"}[name]
    assert f"ops/device/small_zo_{name}_trainer.cc" in made.files
    assert not any(path.startswith(f"ops/device/small_zo_{other}_trainer") for path in made.files)


def test_the_workspace_has_room_for_the_logs_headers() -> None:
    _generate = importlib.import_module("tflm_zo.firmware.generate")
    header = core.library().zo_snapshot_header_bytes
    for tasks in (1, 2, 7):
        assert _generate._SNAPSHOT_HEADER + _generate._SNAPSHOT_HEADER_TASK * tasks == header(tasks)


# --- samples ------------------------------------------------------------------------------------------------


def arrays(text: str, name: str, dtype: Any) -> Any:
    return np.array(re.findall(r"-?\d+", initializer(text, name)), dtype)


def test_samples_are_compiled_in() -> None:
    rng = np.random.default_rng(5)
    image = rng.integers(-128, 128, (5, 8, 8, 1)).astype(np.int8)
    features = rng.integers(-128, 128, (5, 10)).astype(np.int8)
    labels = np.array([0, 3, -1, 2, 1], np.int32)
    made = generate_firmware(
        zo_model("weight", "two_inputs"),
        steps=3,
        samples=5,
        data=Data([image, features], labels),
        data_name="own.npz",
    )
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
        '#include "small_zo_samples.h"\n'
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
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", *sources]
    subprocess.run([*command, "-o", tmp_path / "program"], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    found = [[int(v) for v in line.split()] for line in done.stdout.splitlines()]
    assert [row[0] for row in found] == [0, 1, 2, 3, 0]
    assert all(row[4] == 198 for row in found), "written past the end of an input"
    assert len({tuple(row[1:4]) for row in found}) == 5, "samples differ"


# --- names and comments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "9lives", "my-model", "a b", "modèle", "_x", "a" * 49, "../x", "x;"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(SettingsError, match="name: expected up to 48 letters, digits and underscores"):
        generate_firmware(zo_model("weight"), steps=3, samples=5, name=name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LeNet-5 (int8)", "lenet_5_int8"),
        ("9lives", "model_9lives"),
        ("", "model"),
        ("日本", "model"),
        ("a" * 60, "a" * 48),
        ("a" * 47 + "-b", "a" * 47),
    ],
)
def test_names_of_files_become_identifiers(text: str, expected: str) -> None:
    assert identifier(text) == expected


def test_model_is_called_like_its_file(tmp_path: Path) -> None:
    zo_model("weight").save(tmp_path / "My Model-2.zo.tflite")
    made = generate_firmware(tmp_path / "My Model-2.zo.tflite", steps=3, samples=5)
    assert "my_model_2_model_data.cc" in made.files
    assert define(made, "ZO_MODEL_NAME") == '"my_model_2"'


def test_text_cannot_leave_a_comment_or_a_string(tmp_path: Path) -> None:
    assert comment("a\nb */ c /* d") == "a?b * / c / * d"
    hostile = "x */ int evil; /*\nint worse;"
    made = generate_firmware(
        zo_model("weight"),
        steps=3,
        samples=1,
        name="small",
        command=hostile,
        data=Data([np.zeros((1, 8, 8, 1), np.int8)], np.zeros(1, np.int32)),
        data_name=hostile,
    )
    for path, text in made.files.items():
        if path.endswith((".h", ".cc")) and not path.startswith("ops/"):
            assert "evil" not in uncommented(text) and "worse" not in uncommented(text), path
    # As C reads it back, byte by byte.
    name = 'a"b\\c\n\té??/1'
    source = tmp_path / "string.cc"
    source.write_text(f"#include <stdio.h>\nint main() {{ fputs({string(name)}, stdout); }}\n")
    subprocess.run(["g++", "-std=c++17", source, "-o", tmp_path / "string"], check=True)
    done = subprocess.run([tmp_path / "string"], capture_output=True, check=True)
    assert done.stdout == name.encode()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_file_says_what_made_it(platform: str) -> None:
    made = firmware(platform)
    for path, text in made.files.items():
        if "/ops/" in f"/{path}" or path in (CHECKSUMS, "library.properties"):
            continue
        if path in made.example or path.endswith("small_zo_samples.h"):
            assert "Generated by tflm_zo" in text, path
        else:
            assert COMMAND in text, path


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_two_runs_give_the_same_bytes(platform: str, name: str) -> None:
    again = generate_firmware(
        load_model(zo_model(name).to_bytes()),
        steps=3,
        samples=5,
        platform=platform,
        name="small",
        command=COMMAND,
    )
    assert again.files == firmware(platform, name).files


# --- refusals -----------------------------------------------------------------------------------------------


def test_models_that_cannot_be_trained() -> None:
    plain = load_model(MODELS["small_cnn"]())
    with pytest.raises(ConversionError, match="no ZO model .* inject it first"):
        generate_firmware(plain, steps=3, samples=5)
    without = load_model(inject_all(MODELS["small_cnn"](), loss="none").to_bytes())
    with pytest.raises(ConversionError, match="no loss, so it cannot train; inject it with one"):
        generate_firmware(without, steps=3, samples=5)
    floats = load_model(inject_all(MODELS["float_edges"]()).to_bytes())
    with pytest.raises(ConversionError, match="input 0 is not int8"):
        generate_firmware(floats, steps=3, samples=5)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("weight", Settings(batch_size=4), "no nodes: inject it with nodes"),
        ("node", Settings(tasks=(Weights(),), batch_size=4), "headroom is 0; inject with headroom=2"),
    ],
)
def test_settings_of_the_other_kind(name: str, settings: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        generate_firmware(zo_model(name), settings, steps=3, samples=5)


def test_settings_that_do_not_fit() -> None:
    with pytest.raises(SettingsError, match="multiple of the model's batch 4, got 6"):
        generate_firmware(
            zo_model("weight", batch=4), Settings(tasks=(Weights(),), batch_size=6), steps=3, samples=5
        )
    for bad in ({"steps": 0, "samples": 5}, {"steps": 3, "samples": 0}, {"steps": 2**32, "samples": 5}):
        with pytest.raises(SettingsError, match=r"(steps|samples): expected 1\.\.4294967295, got"):
            generate_firmware(zo_model("weight"), **bad)
    with pytest.raises(SettingsError, match="no 'iar'; there are cmake, make, arduino, zephyr, esp-idf"):
        generate_firmware(zo_model("weight"), steps=3, samples=5, platform="iar")


# --- folders ------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def encoded(made: Firmware) -> dict[str, bytes]:
    return {path: text.encode() for path, text in made.files.items()}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_checksums_are_those_of_the_files(platform: str, tmp_path: Path) -> None:
    made = firmware(platform)
    assert made.write(tmp_path / "out") == []
    assert contents(tmp_path) == {f"out/{path}": text for path, text in encoded(made).items()}
    done = subprocess.run(
        ["sha256sum", "-c", CHECKSUMS], cwd=tmp_path / "out", capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.count(": OK") == len(made.files) - 1


def test_folders_that_are_not_replaced(tmp_path: Path) -> None:
    made = firmware("cmake")
    out = tmp_path / "out"
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/small_zo_config.h").write_text("mine")
    made.write(out)
    before = contents(tmp_path)
    for folder, force, said in (
        ("out", False, "replace it with force=True"),
        ("file", True, "is a file; name a folder"),
        ("other", True, "is no generated firmware .* force=True does not replace it"),
        ("no/out", False, "the folder .*no does not exist"),
    ):
        with pytest.raises(OSError, match=said):
            made.write(tmp_path / folder, force=force)
    assert contents(tmp_path) == before
    (tmp_path / "empty").mkdir()
    made.write(tmp_path / "empty")
    assert contents(tmp_path / "empty") == encoded(made)


def test_force_replaces_what_was_generated_and_keeps_what_was_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    firmware("cmake", "weight").write(out)
    (out / "small_zo_samples.cc").write_text("// my own samples\n")
    (out / "build").mkdir()
    (out / "build/firmware.elf").write_bytes(b"\x7fELF")
    (out / "notes.txt").write_text("mine\n")
    (out / "link").symlink_to("notes.txt")
    (out / "missing").symlink_to("nowhere")
    made = firmware("cmake", "node")
    kept = made.write(out, force=True)
    assert kept == ["build/firmware.elf", "link", "missing", "notes.txt", "small_zo_samples.cc"]
    found = contents(out)
    assert found.pop("small_zo_samples.cc") == b"// my own samples\n"
    assert found.pop("build/firmware.elf") == b"\x7fELF"
    assert found.pop("notes.txt") == found.pop("link") == b"mine\n"
    assert (out / "missing").is_symlink()
    # Files of the first run that the second has not are gone: an Arduino builder would compile them.
    expected = encoded(made)
    del expected["small_zo_samples.cc"]
    assert found == expected and "ops/device/small_zo_weight_trainer.cc" not in found
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    # The same again: what was kept is still not what was generated.
    assert made.write(out, force=True) == kept


def test_files_that_are_the_same_keep_their_times(tmp_path: Path) -> None:
    out = tmp_path / "out"
    firmware("cmake", "node").write(out)
    for path in out.rglob("*"):
        os.utime(path, (10**9, 10**9))
    made = firmware("cmake", "weight")
    made.write(out, force=True)
    assert contents(out) == encoded(made)
    old = encoded(firmware("cmake", "node"))
    same = {name for name, data in encoded(made).items() if old.get(name) == data}
    assert {f.relative_to(out).as_posix() for f in out.rglob("*") if f.stat().st_mtime == 10**9} >= same
    assert "ops/core/random/small_zo_stream.h" in same and "small_zo_config.h" not in same
    assert (out / "small_zo_config.h").stat().st_mtime > 10**9


def test_force_does_not_undo_changes_by_hand(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = firmware("cmake")
    made.write(out)
    config = out / "small_zo_config.h"
    config.write_text(config.read_text().replace("ZO_STEPS 3u", "ZO_STEPS 4u"))
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=r"zo_config\.h was changed by hand.*move or delete it"):
        made.write(out, force=True)
    assert contents(tmp_path) == before
    config.unlink()
    assert made.write(out, force=True) == []
    assert contents(out) == encoded(made)


def test_force_to_another_platform(tmp_path: Path) -> None:
    out = tmp_path / "out"
    firmware("cmake").write(out)
    (out / "main.cc").write_text("// mine\n")
    made = firmware("arduino")
    assert made.write(out, force=True) == ["main.cc"]
    assert contents(out) == {**encoded(made), "main.cc": b"// mine\n"}


# Of a folder that is replaced, only what differs is written.
@pytest.mark.parametrize(("force", "at"), [(False, 0), (False, 40), (False, 92), (True, 0), (True, 10)])
def test_nothing_is_left_half_written(force: bool, at: int, tmp_path: Path, monkeypatch: Any) -> None:
    out = tmp_path / "out"
    if force:
        firmware("cmake", "weight").write(out)
        (out / "notes.txt").write_text("mine\n")
    before = contents(tmp_path)
    written = 0
    original = Path.write_text

    def write_text(path: Path, *arguments: Any, **options: Any) -> int:
        nonlocal written
        written += 1
        if written == at + 1:
            raise OSError(28, "No space left on device", str(path))
        return original(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_text)
        with pytest.raises(OSError, match="No space left"):
            firmware("cmake").write(out, force=force)
    assert written == at + 1
    assert contents(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == (["out"] if force else [])


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: Any
) -> None:
    out = tmp_path / "out"
    firmware("cmake", "weight").write(out)
    before = contents(tmp_path)

    original = os.replace

    def replace(source: Any, target: Any) -> None:
        if str(source).endswith(".part"):
            raise OSError(13, "Permission denied", str(target))
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="Permission denied"):
            firmware("cmake").write(out, force=True)
    assert contents(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    firmware("cmake", "weight").write(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    made = firmware("cmake")
    made.write(tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink() and contents(tmp_path / "real") == encoded(made)


KILLED = """
import os, signal, sys
from tflm_zo.firmware.folder import CHECKSUMS, checksums, write_folder
real, left = os.replace, int(sys.argv[1])

def replace(a, b):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    real(a, b)

os.replace = replace
files = {"zo.h": "new", "main.cc": "new"}
write_folder("out", files | {CHECKSUMS: checksums(files)}, ["main.cc"], force=True)
"""


@pytest.mark.parametrize("moment", [0, 1])
def test_what_a_kill_leaves_goes_with_the_next_folder(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the old folder has lost its name, and before the new one has it."""
    monkeypatch.chdir(tmp_path)
    sources = {"zo.h": "old", "main.cc": "old"}
    files = sources | {CHECKSUMS: checksums(sources)}
    write_folder("out", files, ["main.cc"], force=False)
    Path("out/main.cc").write_text("mine")
    child = subprocess.run([sys.executable, "-c", KILLED, str(moment)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert Path("out").exists() == (moment == 0) and len(list(tmp_path.iterdir())) == 2
    if moment:
        with pytest.raises(FileExistsError, match="replace it with force=True"):
            write_folder("out", files, ["main.cc"], force=False)
    assert write_folder("out", files, ["main.cc"], force=True) == ["main.cc"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert [Path("out", name).read_text() for name in sources] == ["old", "mine"]
