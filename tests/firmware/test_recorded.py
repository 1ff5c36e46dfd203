"""The device's memory for a recorded run equals that of firmware of the same run."""

from pathlib import Path

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.models import MODELS
from helpers.runs import layerwise_settings, settings_of, weight_settings
from tflm_zo.converters import load_model
from tflm_zo.firmware import generate_firmware
from tflm_zo.firmware.sizes import device_memory
from tflm_zo.logs import Log
from tflm_zo.training import Settings, Trainer
from tflm_zo.training.injection import inject_for

X = np.random.default_rng(6).integers(-128, 128, (40, 28, 28, 1)).astype(np.int8)
Y = np.arange(40) % 10

SETTINGS: dict[str, Settings] = {
    "weight": weight_settings(batch_size=8, learning_rate=1.0),
    "blocks": weight_settings(batch_size=8, learning_rate=1.0, scope="blocks"),
    "node": layerwise_settings(batch_size=8, learning_rate=1.0),
    "exact head": layerwise_settings(batch_size=16, learning_rate=1.0, **{"exact.last": 1}),
    "exact tail": layerwise_settings(batch_size=8, learning_rate=1.0, **{"exact.last": 3}),
    "some layers": layerwise_settings(batch_size=8, learning_rate=1.0, layers="fc*"),
    "fqt": settings_of("fqt", batch_size=8),
    "poor man's": settings_of("poor-mans-training", batch_size=8, learning_rate=1.0),
    "elastic": settings_of("elastic-zo-int8", batch_size=8),
}


@pytest.mark.parametrize("name", slow_but(("weight", "fqt"), SETTINGS))
def test_it_is_what_firmware_of_one_sample_an_invoke_says(name: str, tmp_path: Path) -> None:
    settings, model = SETTINGS[name], load_model(MODELS["lenet5"]())
    trainer = Trainer(model, settings)
    assert trainer.runtime.metadata.batch == 8 or settings.batch_size == 16
    trainer.fit(X, Y, steps=2, log=tmp_path / "run.zolog", keep="last")
    found = device_memory(trainer.model, Log.read(tmp_path / "run.zolog", layerwise=settings.is_layerwise))

    one = inject_for(model, settings, batch=1)
    made = generate_firmware(one, settings, steps=2, samples=40)
    assert found.ram == made.ram
    assert found.trained == made.trainable_bytes
    assert (found.batch, found.minibatch) == (1, settings.batch_size)
    assert found.trained < found.ram.arena.bytes


def test_a_model_that_is_tied_to_its_batch_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SETTINGS["node"]
    trainer = Trainer(load_model(MODELS["lenet5"]()), settings)
    trainer.fit(X, Y, steps=2, log=tmp_path / "run.zolog", keep="last")
    log = Log.read(tmp_path / "run.zolog")
    free = device_memory(trainer.model, log)

    def tied(*_: object) -> None:
        from tflm_zo.converters import ConversionError

        raise ConversionError("tied")

    monkeypatch.setattr("tflm_zo.firmware.sizes.with_batch", tied)
    found = device_memory(trainer.model, log)
    assert (found.batch, found.minibatch) == (8, 8)
    assert found.ram.arena.bytes > free.ram.arena.bytes
