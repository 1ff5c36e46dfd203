"""Data: prepares files, arrays, lists and dictionaries of samples for a model.

data = prepare(runtime, "digits.npz")  # or arrays: prepare(runtime, x, y)
trainer.fit(data)
"""

from ..io.arrays import read_arrays
from ..io.errors import DataError
from .levels import DataWarning, to_levels, to_real
from .part_labels import part_labels, part_scores
from .prepare import (
    Data,
    Inputs,
    Labels,
    ModelError,
    Samples,
    labelled,
    prepare,
    prepare_input,
    prepare_labels,
    prepare_samples,
)

__all__ = [
    "Data",
    "DataError",
    "DataWarning",
    "Inputs",
    "Labels",
    "ModelError",
    "Samples",
    "labelled",
    "part_labels",
    "part_scores",
    "prepare",
    "prepare_input",
    "prepare_labels",
    "prepare_samples",
    "read_arrays",
    "to_levels",
    "to_real",
]
