from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import random_samples


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``tflm-zo ARGUMENTS`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return invoke


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the working directory, with small_cnn as a plain model, p.tflite, and 32 samples, d.npz."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.tflite").write_bytes(MODELS["small_cnn"]())
    x, y = random_samples(0, 32)
    np.savez("d.npz", x=x, y=y)
    return tmp_path


@pytest.fixture
def zo_folder(folder: Path) -> Path:
    inject_all(MODELS["small_cnn"](), batch=8).save(folder / "m.zo.tflite")
    return folder


@pytest.fixture
def model_file(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str = "small_cnn") -> Path:
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(MODELS[name]())
        return path

    return write


@pytest.fixture
def data_file(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str = "data.npz", **arrays: Any) -> Path:
        path = tmp_path / name
        np.savez(path, **arrays)
        return path

    return write


@pytest.fixture
def samples() -> tuple[Any, Any]:
    """Returns x and y for ``small_cnn``: 45 samples, so that the last batch is incomplete."""
    rng = np.random.default_rng(3)
    return rng.uniform(-1.9, 1.9, (45, 8, 8, 1)).astype(np.float32), rng.integers(0, 4, 45)
