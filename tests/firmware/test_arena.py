"""The arena's size in generated firmware: measured if TFLM's package is installed, else a bound."""

import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from helpers.firmware_folders import ALGORITHMS, zo_model
from helpers.models.single_operators import SINGLE_OPERATORS
from tflm_zo.converters import ConversionError, load_model, read_metadata
from tflm_zo.converters.segments import extract_segment
from tflm_zo.firmware import arena, generate_firmware


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bound_of_the_arena_holds(name: str) -> None:
    pytest.importorskip("tflite_micro")
    for network in ("small_cnn", "residual", "two_inputs", "autoencoder"):
        model = zo_model(name, network)
        segments = [extract_segment(model, k) for k in range(len(read_metadata(model).segments))]
        # Once for both builds: it takes a second.
        with mock.patch.object(arena, "_recorded", return_value=arena._recorded(segments)):
            measured = arena.arenas_of([segments], [2])[0]
            without = arena.arenas_of([segments], [2], static_memory=False)[0]
        assert measured.measured and measured.bytes % 16 == 0
        assert measured.bytes < without.bytes < measured.bytes + 256 * len(segments) + 1024
        with mock.patch.object(arena, "_recorded", return_value=None):
            bound = arena.arenas_of([segments], [2])[0]
        assert not bound.measured and bound.bytes % 16 == 0
        assert measured.bytes <= bound.bytes, network


def test_what_tflm_refuses() -> None:
    """A refusal is no sign that the package is not there."""
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
