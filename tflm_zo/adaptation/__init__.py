"""The adaptation of a model to new data, from the model's file to the trained model's."""

from .calibration import Calibration, Detection, calibrate
from .evaluation import evaluate, loss_told, with_loss
from .recipe import Adaptation, Observer, adapt, recalibrates
from .zo_model import Changes, ModelOfRun, model_of_run

__all__ = [
    "Adaptation",
    "Calibration",
    "Changes",
    "Detection",
    "ModelOfRun",
    "Observer",
    "adapt",
    "calibrate",
    "evaluate",
    "model_of_run",
    "recalibrates",
    "loss_told",
    "with_loss",
]
