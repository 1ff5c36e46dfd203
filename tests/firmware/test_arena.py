"""The arena's size in generated firmware, and the plan of activations and scratch buffers."""

import dataclasses
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from helpers.firmware_folders import ALGORITHMS, zo_model
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation, Padding
from helpers.models.single_operators import SINGLE_OPERATORS
from tflm_zo.converters import ConversionError, load_model, read_metadata
from tflm_zo.converters.model import Operator
from tflm_zo.converters.segments import extract_segment
from tflm_zo.firmware import arena, generate_firmware
from tflm_zo.firmware.arena import Buffers, buffers_of, planned_bytes
from tflm_zo.firmware.cmsis_nn import Extra, extra_memory


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bound_of_the_arena_holds(name: str) -> None:
    pytest.importorskip("tflite_micro")
    for network in ("small_cnn", "residual", "two_inputs", "autoencoder"):
        model = zo_model(name, network)
        segments = [extract_segment(model, k) for k in range(len(read_metadata(model).segments))]
        # Once for both builds: it takes a second.
        with mock.patch.object(arena, "recorded", return_value=arena.recorded(segments)):
            measured = arena.arenas_of([segments], [2])[0]
            without = arena.arenas_of([segments], [2], static_memory=False)[0]
        assert measured.measured and measured.bytes % 16 == 0
        assert measured.bytes < without.bytes < measured.bytes + 256 * len(segments) + 1024
        with mock.patch.object(arena, "recorded", return_value=None):
            bound = arena.arenas_of([segments], [2])[0]
        assert not bound.measured and bound.bytes % 16 == 0
        assert measured.bytes <= bound.bytes, network


def test_what_tflm_refuses() -> None:
    pytest.importorskip("tflite_micro")
    model = load_model(SINGLE_OPERATORS["MAX_POOL_2D"])
    model.subgraphs[0].outputs[0].quantization.scales *= 2
    with pytest.raises(ConversionError, match="TFLM refuses the model: .*pooling.* Node MAX_POOL_2D"):
        arena.arenas_of([[model]], [0])


def test_arena_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tflite_micro.py").write_text("raise ImportError('no module named tflite_micro')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(arena, "_known", {})
    made = generate_firmware(zo_model("weight"), steps=3, samples=5)
    assert not made.ram.arena.measured
    text = made.files["model_zo_config.h"]
    assert f"#define MODEL_ZO_ARENA_BYTES {made.ram.arena.bytes}" in text
    assert "an upper bound" in text and "pip install 'tflm_zo[tflm]'" in text


@pytest.mark.parametrize(
    ("build", "mve"),
    [([], False), (["__ARM_FEATURE_MVE=1"], True), (["__ARM_FEATURE_MVE=1", "TFLM_WITHOUT_CMSIS_NN"], False)],
)
def test_the_build_chooses_the_arena(build: list[str], mve: bool, tmp_path: Path) -> None:
    made = generate_firmware(zo_model("weight", "depthwise_separable"), steps=3, samples=5)
    made.write(tmp_path / "out")
    command = ["cc", "-E", "-P", *(f"-D{macro}" for macro in build), "-"]
    text = '#include "model_zo_config.h"\nMODEL_ZO_ARENA_BYTES\n'
    done = subprocess.run(command, input=text, cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    assert made.ram.arena.bytes + 1024 < made.ram.arena.bytes_mve
    assert int(done.stdout) == (made.ram.arena.bytes_mve if mve else made.ram.arena.bytes)


def test_the_working_directory_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tflm_zo").mkdir()
    (tmp_path / "tflm_zo/__init__.py").write_text("raise SystemExit('of the wrong folder')\n")
    seen: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(arena, "_known", {})
    original = subprocess.run

    def run(*arguments: Any, **options: Any) -> Any:
        done = original(*arguments, **options)
        seen.append(done)
        return done

    monkeypatch.setattr(arena.subprocess, "run", run)
    generate_firmware(zo_model("weight"), steps=3, samples=5)
    assert len(seen) == 1 and "of the wrong folder" not in seen[0].stderr


def scratch_of_mean(op: Operator) -> int:
    source, axes = op.inputs
    assert source is not None and axes is not None
    counts = op.outputs[0].size, len(source.shape), axes.size
    return sum(-(-4 * count // 16) * 16 for count in counts)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_plan_is_tflms(name: str) -> None:
    pytest.importorskip("tflite_micro")
    networks = [n for n in MODELS if n not in ("lenet5", "float_edges")]
    segments = []
    for network in networks:
        try:
            model = zo_model(name, network)
        except ValueError:
            continue  # nothing of it carries nodes
        segments += [extract_segment(model, k) for k in range(len(read_metadata(model).segments))]
    recorded = arena.recorded(segments)
    assert recorded is not None and len(recorded) > 8
    for segment, sizes in zip(segments, recorded, strict=True):
        graph = segment.subgraphs[0]
        scratch = {i: scratch_of_mean(op) for i, op in enumerate(graph.operators) if op.code.name == "MEAN"}
        assert planned_bytes(buffers_of(graph, scratch)) == sizes["head"]


def test_gaps_are_filled_from_the_largest_buffer_on() -> None:
    # 64 at 0; 48 beside it at 64; 32, at another time than the first one, at 0; 16 behind it.
    plan = Buffers([16, 64, 32, 48], [(2, 3), (0, 1), (2, 2), (1, 2)])
    assert planned_bytes(plan) == 112
    assert planned_bytes(dataclasses.replace(plan, spans=[(0, 3)] * 4)) == 160
    assert planned_bytes(Buffers([], [])) == 0


def operators(plain: bytes) -> list[Operator]:
    return list(load_model(plain).subgraphs[0].operators)


def test_scratch_of_convolutions() -> None:
    g = GraphBuilder(0)
    x = g.input("x", [1, 10, 8, 3])
    x = g.conv(x, "a", 8, (3, 3))  # 27 columns: 28 of 2 bytes, twice; with vectors 4 rows of 32
    x = g.conv(x, "b", 6, (1, 1))  # none
    x = g.conv(x, "c", 6, (1, 1), stride=2)  # none
    x = g.depthwise(x, "d", (3, 3))  # none; 4 images of the filter, 124 channels
    x = g.depthwise(x, "e", (5, 3))  # the filter in 16 bits
    built = g.build([g.dense(g.flatten(x, "f"), "fc", 5, Activation.NONE)])
    ops = operators(built)
    assert [extra_memory(op, mve=False).scratch for op in ops] == [112, 0, 0, 0, 180, 0, 0]
    assert [extra_memory(op, mve=True) for op in ops] == [
        *(Extra(128), Extra(), Extra(), Extra(4464), Extra(7440), Extra()),
        Extra(0, 20),  # sums of a constant filter stay
    ]


def test_scratch_of_one_channel_that_becomes_many() -> None:
    # As in micro_speech: 8 filters of 10 x 8 on one channel. With vectors it is a convolution of 80 columns,
    # 4 rows of them, and the filter turned; without there is none at all.
    g = GraphBuilder(0)
    x = g.depthwise(g.input("x", [1, 49, 40, 1]), "a", (10, 8), stride=2, multiplier=8)
    plain = g.build([g.dense(g.flatten(x, "f"), "fc", 4, Activation.NONE)])
    depthwise = operators(plain)[0]
    assert extra_memory(depthwise, mve=False) == Extra()
    assert extra_memory(depthwise, mve=True) == Extra(4 * 80 + 640)


def test_scratch_of_rows_and_pools() -> None:
    g = GraphBuilder(0)
    x = g.input("x", [1, 1, 16, 4])
    x = g.conv(x, "a", 8, (1, 3), padding=Padding.VALID)
    x = g.conv(x, "b", 8, (1, 3))
    ops = operators(g.build([g.dense(g.flatten(x, "f"), "fc", 4, Activation.NONE)]))
    assert [extra_memory(op, mve=False).scratch for op in ops[:2]] == [48, 96]
    # A row without padding is read where it lies; else its ends are copied with their zeros.
    assert [extra_memory(op, mve=True).scratch for op in ops[:2]] == [12, 32]
    g = GraphBuilder(0)
    x = g.pool(g.input("x", [1, 8, 8, 5]), "average", 4, average=True)
    pool = operators(g.build([g.dense(g.flatten(x, "f"), "fc", 4, Activation.NONE)]))[0]
    assert (extra_memory(pool, mve=False), extra_memory(pool, mve=True)) == (Extra(20), Extra())
