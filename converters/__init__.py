"""The rewriter: turns int8 .tflite models into models that train themselves with forward passes only."""

from .errors import ConversionError
from .export import export_model
from .grow_classes import grow_classes
from .initial_weights import WeightArray, initial_weights, step_multipliers, with_initial_weights
from .inject import inject
from .metadata import (
    ZoBackwardStep,
    ZoField,
    ZoLoss,
    ZoMetadata,
    ZoNodes,
    ZoOriginal,
    ZoPort,
    ZoSegment,
    ZoTail,
    ZoTrainable,
    read_metadata,
)
from .model import Model, load_model
from .passes.batch import set_batch
from .passes.cut_segments import possible_cuts
from .segments import can_change_batch, extract_segment
from .selections import Last, ResidualBlocks
from .settings import InjectSettings

__all__ = [
    "ConversionError",
    "InjectSettings",
    "Last",
    "Model",
    "ResidualBlocks",
    "WeightArray",
    "ZoBackwardStep",
    "ZoField",
    "ZoLoss",
    "ZoMetadata",
    "ZoNodes",
    "ZoOriginal",
    "ZoPort",
    "ZoSegment",
    "ZoTail",
    "ZoTrainable",
    "can_change_batch",
    "export_model",
    "extract_segment",
    "grow_classes",
    "initial_weights",
    "with_initial_weights",
    "inject",
    "load_model",
    "possible_cuts",
    "read_metadata",
    "set_batch",
    "step_multipliers",
]
