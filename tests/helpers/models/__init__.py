"""Random-weight int8 models for the tests, built without TensorFlow.

``MODELS`` maps a name to a function that returns the bytes of a .tflite model; the functions take an optional
``seed``. All models have batch size 1.
"""

from .graph_builder import GraphBuilder
from .networks import MODELS, depthwise_separable, lenet5, residual, shared_filters, small_cnn, two_inputs, two_outputs

__all__ = [
    "MODELS",
    "GraphBuilder",
    "depthwise_separable",
    "lenet5",
    "residual",
    "shared_filters",
    "small_cnn",
    "two_inputs",
    "two_outputs",
]
