"""The adaptation of a model to new data, from the model's file to the trained model's."""

from .evaluation import evaluate, with_loss
from .recipe import Adaptation, Observer, adapt, recalibrates
from .zo_model import Changes, ModelOfRun, model_of_run

__all__ = [
    "Adaptation",
    "Changes",
    "ModelOfRun",
    "Observer",
    "adapt",
    "evaluate",
    "model_of_run",
    "recalibrates",
    "with_loss",
]
