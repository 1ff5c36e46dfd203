"""Whole short runs in the exact mode, to the bit: the ZO model, the log and the exported model, as stored files.

`cd tests && python -m training.test_golden_runs` writes them, which is right only if formats or bits change on purpose.
"""

import io
import re
import tarfile
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pytest

from helpers.commands import invoke
from helpers.models import MODELS
from tflm_zo import inject
from tflm_zo.converters import export_model, load_model
from tflm_zo.core import Rademacher
from tflm_zo.core.loader import library
from tflm_zo.training import Trainer, algorithm, inject_settings
from tflm_zo.training.setting_texts import changed

STEPS = 6
STORED = Path(__file__).with_name("golden_runs.tar.xz")

# Defaults of weight and node perturbation when the files were made.
_WEIGHTS_THEN: dict[str, Any] = {"perturbation": Rademacher(2)}
_OF_THEN: dict[str, Any] = {"learning_rate": 1.0, "perturbation": 2}

# algorithm, settings, kept files
GOLDEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "weight": ("weight", _WEIGHTS_THEN, "last"),
    "weight, queries": (
        "weight",
        {"queries": 3, "estimator": "one-sided", "schedule": "cosine", **_WEIGHTS_THEN},
        "last",
    ),
    "gradient": ("mezo", {"gradient_norm": True}, "last"),
    "node": ("node", _OF_THEN, "last"),
    "exact head": ("node", {"queries": 2, "exact.last": 1, **_OF_THEN}, "last"),
    "layers": ("poor-mans-training", {}, "last"),
    "coordinates": ("deepzero", {}, "last"),
    "elastic": ("elastic-zo", {"learning_rate": 1.0}, "last"),
    "bits": ("elastic-zo-int8", {}, "last"),
    "weight, measured": ("weight", _WEIGHTS_THEN, "best"),
    "node, measured": ("node", _OF_THEN, "best"),
    "standardized": ("fqt", {"last": 1}, "last"),
}

# Kinds that this version does not have, and the setting that it names.
REMOVED = {"momentum": "`momentum`", "sharpness": "`sharpness`", "wide": "`int16`"}

# A smaller loss was enough for the best state once, and that of this run is right less often than the model
# before the run. The log says which state was kept, and is read as ever.
_KEPT_THEN = ("node, measured",)

FILES = ("model.zo.tflite", "run.zolog", "adapted.tflite")
Run = dict[str, bytes]


def rule_of_then() -> Any:
    """Selects the first measurement with the smallest loss, for any number of right outputs."""
    return mock.patch.object(library(), "zo_measurement_is_better", lambda m, best, _: m.loss < best.loss)


def made(name: str, folder: Path) -> Run:
    """Makes the files of a run of that kind."""
    method, settings, keep = GOLDEN[name]
    chosen = changed(algorithm(method), {**settings, "batch_size": 8, "seed": 5})
    if chosen.is_layerwise:
        chosen = replace(chosen, snapshot_every=100)  # the default when the files were made
    model = inject(MODELS["small_cnn"](), inject_settings(chosen, batch=4))
    trainer = Trainer(model, chosen, runtime="litert")
    rng = np.random.default_rng(7)
    x = rng.integers(-128, 128, (20, 8, 8, 1)).astype(np.int8)
    y = rng.integers(0, 4, 20)
    log = folder / "run.zolog"
    with rule_of_then() if name in _KEPT_THEN else nullcontext():
        trainer.fit(x, y, steps=STEPS, log=log, keep=keep)
    return dict(zip(FILES, (model.to_bytes(), log.read_bytes(), trainer.export().to_bytes()), strict=True))


@cache
def stored() -> dict[str, Run]:
    runs: dict[str, Run] = {}
    with tarfile.open(STORED) as archive:
        for entry in archive:
            name, _, file = entry.name.rpartition("/")
            content = archive.extractfile(entry)
            assert content is not None
            runs.setdefault(name, {})[file] = content.read()
    return runs


def test_every_kind_is_stored() -> None:
    assert {name: tuple(run) for name, run in stored().items()} == dict.fromkeys([*GOLDEN, *REMOVED], FILES)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    assert made(name, tmp_path) == stored()[name]


def replayed(name: str) -> Any:
    """Writes stored files into the present folder, and replays the log on its model."""
    for file, content in stored()[name].items():
        Path(file).write_bytes(content)
    return invoke("replay", "model.zo.tflite", "run.zolog", "-o", "again.tflite")


@pytest.mark.parametrize("name", GOLDEN)
def test_stored_files_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays a stored log on its model: the result equals the stored one."""
    monkeypatch.chdir(tmp_path)
    done = replayed(name)
    assert done.exit_code == 0, done.output
    assert Path("again.tflite").read_bytes() == stored()[name]["adapted.tflite"]
    again = export_model(load_model("model.zo.tflite"))
    assert again.to_bytes() == load_model(again.to_bytes()).to_bytes()


@pytest.mark.parametrize("name", REMOVED)
def test_files_of_removed_kinds_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = replayed(name)
    assert done.exit_code == 1 and not Path("again.tflite").exists()
    assert re.search(f"made with setting {REMOVED[name]}.*; use tflm_zo 0.1", done.output)


def main() -> None:
    """Writes the stored files. Those of `REMOVED` need an earlier version."""
    with tarfile.open(STORED, "w:xz") as archive:
        for name in GOLDEN:
            with TemporaryDirectory() as folder:
                for file, content in made(name, Path(folder)).items():
                    entry = tarfile.TarInfo(f"{name}/{file}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
