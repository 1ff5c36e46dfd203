"""The timing benchmarks run from the repository root and print JSON."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import chosen_models, random_data
from operator_instructions import training

from cortex_m.costs import node_costs, weight_op_costs
from cortex_m.emulator import CORES, each
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import KERNELS, require
from helpers.models import MODELS
from tflm_zo import exact_delegate
from tflm_zo.planner.instructions import instruction_table
from tflm_zo.runtime import load

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: object) -> Any:
    command = [sys.executable, f"benchmarks/{script}.py", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    return result["models"]["small"] | {key: value for key, value in result.items() if key.endswith("_ns")}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.tflite"
    path.write_bytes(MODELS["small_cnn"]())
    return path


@pytest.mark.slow
def test_training_throughput(model: Path) -> None:
    pytest.importorskip("threadpoolctl")
    result = run("training_throughput", model, "--rounds", 1, "--seconds", 0.05, "--batch", 8)
    speeds = [result[f"{of}_samples_per_s"] for of in ("bare", "training", "simulation")]
    assert min(speeds) > 0
    assert result["ratio"] == pytest.approx(speeds[1] / speeds[0])
    assert result["speedup_over_simulation"] == pytest.approx(speeds[1] / speeds[2])


def test_replay(model: Path) -> None:
    results = run("replay", model, "--steps", 30, "--minibatches", 4, 16, "--batch", 8, "--rounds", 1)
    assert list(results) == ["4", "16"]
    for result in results.values():
        assert result["steps"] == 30
        assert result["log_bytes"] == 132 + 30 * 24  # header and records of one query
        assert result["speedup"] == pytest.approx(result["training_s"] / result["replay_s"])


def test_invoke_overhead(model: Path) -> None:
    require("tflm")
    result = run("invoke_overhead", model, "--rounds", 1)
    assert result["ratio"] == pytest.approx(result["perturb_us"] / result["plain_us"])
    assert all(0 < own < 1000 for own in result["weights_ns"].values())


@pytest.mark.parametrize("kernels", slow_but(KERNELS[:1], KERNELS))
def test_exactness_speed(model: Path, kernels: str) -> None:
    try:
        exact_delegate(kernels=kernels)
    except ValueError:
        pytest.skip(f"this machine cannot run the kernels {kernels}")
    command = [sys.executable, "benchmarks/exactness_speed.py", str(model), "--rounds", "1", "--seconds", "0.01"]
    done = subprocess.run(
        [*command, "--kernels", kernels, "--json"], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout)["small"].values():
        assert row["to_xnnpack"] == pytest.approx(row["exact_us"] / row["xnnpack_us"])
        if kernels != "portable" and shutil.which("cc"):
            assert 0 < row["of_peak"] < 1


@pytest.mark.slow
def test_training_throughput_of_what_is_not_simulated(tmp_path: Path) -> None:
    pytest.importorskip("threadpoolctl")
    path = tmp_path / "small.tflite"
    path.write_bytes(MODELS["depth_multiplier"]())
    result = run("training_throughput", path, "--rounds", 1, "--seconds", 0.05, "--batch", 8)
    assert result["ratio"] > 0 and "speedup_over_simulation" not in result


def test_models_without_downloads() -> None:
    assert list(chosen_models([])) == ["lenet5 (random weights)"]


def test_no_model(tmp_path: Path) -> None:
    path = tmp_path / "text.tflite"
    path.write_text("this is not a model")
    with pytest.raises(SystemExit, match=r"text.tflite: not a .tflite model"):
        chosen_models([path])
    with pytest.raises(SystemExit, match=r"No such file or directory: '.*missing.tflite'"):
        chosen_models([tmp_path / "missing.tflite"])


def test_no_classifier() -> None:
    runtime = load(inject_all(MODELS["autoencoder"]()), "litert")
    with pytest.raises(SystemExit, match="expected a classifier, got a model with loss mse"):
        random_data(runtime, 4)


@pytest.mark.slow
def test_commands(model: Path) -> None:
    result = run("commands", model, "--rounds", 1, "--steps", 100)
    assert list(result) == ["start_s", "plan", "report"] and min(result.values()) > 0


def test_memory_of_steps() -> None:
    results = run("memory_of_steps", "--steps", 300)
    assert list(results) == ["weight", "node"]
    for result in results.values():
        # 7 KB a step; the allocator takes a page now and then.
        assert result["grown_mb"] < 1 and 10 < result["first_mb"] and 10 < result["resumed_mb"]


@pytest.mark.slow
@pytest.mark.parametrize("core", each(("cortex-m0plus", "cortex-m4", "cortex-m55", "rv32imc"), fast=("cortex-m4",)))
def test_a_plan_has_what_training_takes_on_a_core(core: str, tmp_path: Path) -> None:
    """Compares the table of coefficients with the core's present loops."""
    found = training(weight_op_costs(CORES[core], tmp_path), node_costs(CORES[core], tmp_path))
    assert instruction_table()["training"][core] == pytest.approx(found, rel=0.1, abs=0.5)


@pytest.mark.slow
def test_log_stores() -> None:
    """Raw flash is worn evenly; a record costs little more than itself."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("NO gcc OR NO g++: THE BENCHMARK OF LOG STORES DID NOT RUN")
    command = [sys.executable, "benchmarks/log_stores.py", "--json"]
    environment = {key: value for key, value in os.environ.items() if key != "LITTLEFS_DIR"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment)
    assert done.returncode == 0 and "left out: stores on littlefs" in done.stderr, done.stderr
    results = json.loads(done.stdout)
    assert list(results) == ["weight", "node"] and all(len(stores) == 3 for stores in results.values())
    for algorithm, stores in results.items():
        for found in stores.values():
            assert found["most_erases"] - found["least_erases"] <= 1
            assert found["least_erases"] >= 0.9 * found["most_erases"]
            assert found["programmed_a_step"] < (60 if algorithm == "weight" else 2500)
            # A mount before each step costs two marks beside its writes, and no sector.
            assert found["sleeping_erases_a_step"] < 3 * found["erases_a_step"]
            assert found["sleeping_erases_a_year"] < (500 if algorithm == "weight" else 6000)


def test_a_fleets_log_is_replayed(model: Path) -> None:
    command = [sys.executable, "benchmarks/fleet_catch_up.py", str(model), "--queries", "2"]
    done = subprocess.run(
        [*command, "--rounds", "20", "--missed", "5"], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    size = 20 + 4 * 2  # of a record
    assert f"{132 + 20 * size} B" in done.stdout and f"{5 * size} B" in done.stdout
