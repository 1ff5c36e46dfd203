"""examples/machine_sounds: faults sound as they are said to, and forward passes find those of a new fan."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from examples.programs import program, run, table
from helpers.commands import invoke


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return program("machine_sounds")


def power(example: ModuleType, fault: str | None, low: float, high: float) -> float:
    """Computes mean power between two frequencies of a healthy or faulty new fan, over 20 seconds."""
    random = np.random.default_rng(3)
    spectra = [np.fft.rfft(example.clip(example.NEW, random, fault)) for _ in range(20)]
    hertz = np.fft.rfftfreq(example.RATE, 1 / example.RATE)
    return float((np.abs(spectra)[:, (low <= hertz) & (hertz < high)] ** 2).mean())


def test_faults_are_heard_where_they_are(example: ModuleType) -> None:
    assert power(example, "bearing", 2650, 2950) > 1.05 * power(example, None, 2650, 2950)
    assert power(example, "rubbing", 3700, 4000) > 1.5 * power(example, None, 3700, 4000)
    # An imbalance is a modulation: sidebands of the blades' tone, a turn away from it.
    tone = example.NEW.turns * example.NEW.blades
    assert power(example, "imbalance", tone - 49, tone - 43) > 2 * power(example, None, tone - 49, tone - 43)


def test_the_area_is_that_of_its_definition(example: ModuleType) -> None:
    rng = np.random.default_rng(0)
    x, reproduced = rng.random((30, 4, 5)), rng.random((30, 4, 5))
    faulty = np.arange(30) % 3 == 0
    errors = np.array([np.mean((a - b) ** 2) for a, b in zip(x, reproduced, strict=True)])
    pairs = [(bad > good) + 0.5 * (bad == good) for bad in errors[faulty] for good in errors[~faulty]]
    assert example.auc(reproduced.reshape(-1, 5), x, faulty) == pytest.approx(np.mean(pairs))


def test_sounds_of_parts_differ_and_repeat(example: ModuleType) -> None:
    one, again, other = (example.sounds(example.KNOWN, 4, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert one.shape[2] == example.BANDS * example.FRAMES and 0 <= one.min() < one.max() <= 1


@pytest.mark.slow
def test_forward_passes_find_the_new_fans_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("keras", reason="NO TensorFlow: THE EXAMPLE WAS NOT RUN")
    done = run("machine_sounds", "-o", tmp_path / "sounds")
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    (before, known), after = rows["nothing"], rows["forward passes only"]
    assert known > 0.9 and after[0] > before + 0.15
    assert rows["forward passes only, old sounds, too"][1] > after[1] + 0.1
    # The commands of its page accept its files.
    monkeypatch.chdir(tmp_path / "sounds")
    done = invoke("train", "model.tflite", "adapt.npz", "-o", "trained.tflite", "--steps", "20")
    assert done.exit_code == 0, done.output
    assert "nothing is recalibrated: the model learns to reproduce its input" in done.stderr
