import dataclasses
from pathlib import Path

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.long_runs import seed_log
from helpers.models import MODELS
from helpers.runs import layerwise_settings, random_samples, weight_settings
from tflm_zo.converters import load_model
from tflm_zo.converters.summary import summarize
from tflm_zo.report import TestData, page, read_run, report_model, report_runs
from tflm_zo.training import Trainer

X, Y = random_samples(5, 40)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder with logs and models of two runs, test data, and a log of 10⁵ steps, long.zolog."""
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in (
        ("node", layerwise_settings(batch_size=8, learning_rate=1.0)),
        ("weight", weight_settings(batch_size=8, learning_rate=1.0)),
    ):
        trainer = Trainer(MODELS["small_cnn"](), settings)
        trainer.fit(X, Y, steps=60, log=folder / f"{name}.zolog")
        trainer.model.save(folder / f"{name}.zo.tflite")
    np.savez(folder / "test.npz", x=X, y=Y)
    model = inject_all(MODELS["lenet5"](), batch=8)
    model.save(folder / "long.zo.tflite")
    (folder / "long.zolog").write_bytes(seed_log(model, 100_000)[0])
    return folder


@pytest.fixture(scope="session")
def pages(runs: Path) -> dict[str, str]:
    """Renders pages by name: of a run with all parts, of several runs, of many, of a long one, and of a model."""
    data = TestData(runs / "test.npz", landscape=True)
    several = [read_run(runs / f"{name}.zolog", []) for name in ("node", "weight", "long")]
    # Their lines end at the same places, and their names are too long to be shown whole.
    names = [f"a-very-long-name-of-the-MOMENTUM-run-{i}.zolog" for i in range(8)]
    eight = [dataclasses.replace(several[i % 2], path=Path(name)) for i, name in enumerate(names)]
    model = load_model(runs / "node.zo.tflite")
    summary = {"model": "node.zo.tflite", "untrained": None, **summarize(model, 1000)}
    return {
        "one": page(report_runs(several[:1], data)),
        "eight": page(report_runs(eight)),
        "several": page(report_runs(several)),
        "long": page(report_runs(several[2:])),
        "model": page(report_model(summary)),
    }
