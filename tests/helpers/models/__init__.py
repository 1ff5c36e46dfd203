"""Random-weight int8 models of batch size 1 for the tests, built without TensorFlow."""

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
