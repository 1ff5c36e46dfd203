"""Algorithms still reach the accuracies of docs/results.md, with the defaults: one run of each benchmark."""

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from tflm_zo import inject
from tflm_zo.training import Settings, Trainer, algorithm, inject_settings

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks" / "learning"


@pytest.fixture(autouse=True)
def tensorflow() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed: learning is not checked")


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports modules of the benchmark as its script does."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return type("Learning", (), {name: importlib.import_module(name) for name in ("tasks", "methods")})


def need(file: str) -> None:
    if not (Path(os.environ.get("TFLM_ZO_DATA", "")) / file).is_file():
        pytest.skip(f"TFLM_ZO_DATA names no folder with {file}: learning is not checked on it")


def adapted(learning: Any, task: str, method: str, budget: float, folder: Path) -> dict[str, float]:
    made = learning.tasks.TASKS[task](folder, 0)
    found: dict[str, float] = learning.methods.adapt(made, learning.methods.METHODS[method], budget, 0)
    return found


def test_digits(tmp_path: Path) -> None:
    """Trains on scikit-learn's digits, which need no download. Five pre-trainings: 21.6 % before, 95.3 ± 1.1
    % after."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from tflm_zo.demo.scenarios import SCENARIOS
    from tflm_zo.demo.story import _pretrained

    task = SCENARIOS["digits"]()
    model = inject(_pretrained(task, 0), inject_settings(algorithm("node")))
    trainer = Trainer(model, Settings())
    assert trainer.evaluate(*task.test)["accuracy"] < 0.4
    trainer.fit(*task.adapt, budget=1e5, keep="last")
    assert trainer.evaluate(*task.test)["accuracy"] >= 0.91


@pytest.mark.parametrize(("method", "least"), [("node", 93.0), ("node-exact", 91.5), ("weight", 68.0)])
def test_rotated_digits(learning: Any, method: str, least: float, tmp_path: Path) -> None:
    """Trains LeNet-5 with 10^5 forward equivalents. Three pre-trainings: 45.3 % before, 95.3 ± 0.4, 94.6 ±
    0.7 and 75.9 ± 2.1 % after; least is about four standard deviations less.
    """
    need("mnist10k.npz")
    found = adapted(learning, "rotated", method, 1e5, tmp_path)
    assert found["before"] < 60
    assert found["test"] >= least


@pytest.mark.parametrize(("speaker", "before", "least"), [(1, 93.0, 96.0), (3, 80.0, 81.0)])
def test_a_speaker_never_heard_before(learning: Any, speaker: int, before: float, least: float, tmp_path: Path) -> None:
    """Trains a DS-CNN on 128 utterances with 10^4 forward equivalents. Three pre-trainings: 85.8 ± 4.4 %
    before and 99.0 ± 0.3 % after for one speaker, 66.8 ± 4.1 % and 89.0 ± 2.9 % for another, of whom the last
    layer alone learns 77.8 %.
    """
    need("fsdd.npz")
    found = adapted(learning, f"speaker-{speaker}", "node", 1e4, tmp_path)
    assert found["before"] < before
    assert found["test"] >= least
