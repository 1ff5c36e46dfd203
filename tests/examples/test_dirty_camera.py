"""examples/dirty_camera: its dirt is as documented, its parts share nothing, and adaptation helps."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from examples.programs import data, evaluated, program, run, table
from helpers.commands import invoke


def test_without_data_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run("dirty_camera", "-o", tmp_path / "camera")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "TFLM_ZO_DATA is not set" in done.stderr
    nothing = {"TFLM_ZO_DATA": str(tmp_path), "TFLM_ZO_MODELS": str(tmp_path)}
    done = run("dirty_camera", "-o", tmp_path / "camera", **nothing)
    assert done.returncode == 2 and "cifar10.npz" in done.stderr and not (tmp_path / "camera").exists()


def test_dirt() -> None:
    module = program("dirty_camera")
    x = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)
    assert all(module.fog(x, 0)[i] == round(0.4 * int(x[i]) + 120) for i in np.ndindex(2, 3, 4, 3))
    assert all(module.dark(x, 0)[i] == round(255 * (int(x[i]) / 255) ** 4) for i in np.ndindex(2, 3, 4, 3))
    dirty = module.specks(x, 1)
    changed = (dirty != x).any(-1)
    assert 0.02 < changed.mean() < 0.04
    assert all(len(set(pixel)) == 1 and pixel[0] in (0, 255) for pixel in dirty[changed])


def test_no_image_is_in_two_parts() -> None:
    folder = data("TFLM_ZO_DATA", "cifar10.npz")
    module = program("dirty_camera")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.DIRT, "fog", lambda x, seed: x)
        patch.setenv("TFLM_ZO_DATA", str(folder))
        parts = module.parts("fog", 2)
    rows = Counter(x.tobytes() for x, _ in parts.values() for x in x)
    assert max(rows.values()) == 1 and len(rows) == 300 + 1000 + 2000


@pytest.mark.slow
def test_recalibration_and_forward_passes_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data("TFLM_ZO_DATA", "cifar10.npz")
    models = data("TFLM_ZO_MODELS", "pretrainedResnet_quant.tflite")
    output = tmp_path / "camera"
    done = run(
        *("dirty_camera", "-o", output, "--dirt", "specks", "--no-keras"),
        TFLM_ZO_DATA=str(folder),
        TFLM_ZO_MODELS=str(models),
    )
    assert done.returncode == 0, done.stderr
    rows = {name: means[0] for name, means in table(done.stdout).items()}
    before, recalibrated = rows["nothing"], rows["recalibrated, without labels"]
    assert recalibrated > before + 10
    assert rows["then forward passes only"] > recalibrated + 2
    # The commands of its page accept its files.
    monkeypatch.chdir(output / "specks")
    assert evaluated("model.tflite") == pytest.approx(before, abs=0.06)
    done = invoke("recalibrate", "model.tflite", "adapt.npz", "-o", "again.tflite", "--source", "old.npz")
    assert done.exit_code == 0, done.output
