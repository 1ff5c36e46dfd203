"""Short runs of weight perturbation on ``small_cnn``."""

from pathlib import Path
from typing import Any

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import packed, random_samples, state
from tflm_zo.converters import Model
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Settings, Trainer, Weights

X, Y = random_samples(3)
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=8, seed=9)

# Settings of the injections.
INJECTIONS: dict[str, dict[str, Any]] = {
    "8": {"update_bits": 8, "command_words": 40},
    "16": {"update_bits": 16},
    "cut": {"update_bits": 16, "cuts": ("pool",)},
    "cut, 8": {"update_bits": 8, "cuts": ("pool",)},
    "multipliers": {"update_bits": 16, "multipliers": "quantization-aware", "command_words": 40},
    "headroom": {"update_bits": 16, "headroom": 4, "max_queries": 8, "command_words": 60},
}


def zo_model(name: str = "16", **more: Any) -> Model:
    return inject_all(MODELS["small_cnn"](), **{"batch": 4, "max_queries": 4, **INJECTIONS[name], **more})


def is_replay(trainer: Trainer, log: Path) -> bool:
    """Returns True if the trainer's weights and fractions equal those of its model and a log."""
    return state(trainer) == packed(*replay_log(trainer.model, Log.read(log)))
