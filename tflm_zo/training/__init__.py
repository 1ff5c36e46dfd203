"""Training: tasks and settings, algorithms, the trainer and its callbacks."""

from . import algorithms
from .algorithms import ALGORITHMS, algorithm, algorithm_for, algorithm_of
from .callbacks import Callback, Checkpoint, CSVLogger, EarlyStopping, ProgressBar, TensorBoard
from .checks import SettingsError
from .injection import TrainingWarning, inject_for, inject_settings
from .progress import History, RunProgress
from .rules import Bits, Gradient, Normalized, PerError, Rms, Sign, Standardized
from .schedules import Constant, Cosine, Linear, Step
from .settings import Settings
from .tasks import Exact, Nodes, Weights
from .trained_layers import TrainedLayers, trained_layers
from .trainer import Trainer
from .verify import RuntimeRun, compare_runtimes
from .workers import Workers, WorkersError

__all__ = [
    "ALGORITHMS",
    "Bits",
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "Constant",
    "Cosine",
    "EarlyStopping",
    "Exact",
    "Gradient",
    "History",
    "Linear",
    "Nodes",
    "Normalized",
    "PerError",
    "ProgressBar",
    "Rms",
    "RunProgress",
    "RuntimeRun",
    "Settings",
    "SettingsError",
    "Sign",
    "Standardized",
    "Step",
    "TensorBoard",
    "TrainedLayers",
    "Trainer",
    "TrainingWarning",
    "Weights",
    "Workers",
    "WorkersError",
    "algorithm",
    "algorithm_for",
    "algorithm_of",
    "algorithms",
    "compare_runtimes",
    "inject_for",
    "inject_settings",
    "trained_layers",
]
