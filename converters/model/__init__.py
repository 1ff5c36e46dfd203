"""An editable .tflite model: operators hold tensors and tensors hold buffers, as objects.

Unknown parts are kept: metadata, options of operators, unused buffers. A file that holds more than can be kept (a newer
schema, data outside the flatbuffer) is refused.
"""

from .graph import Buffer, Operator, OperatorCode, Quantization, Subgraph, Tensor
from .model import Metadata, Model, Signature
from .reader import load_model

__all__ = [
    "Buffer",
    "Metadata",
    "Model",
    "Operator",
    "OperatorCode",
    "Quantization",
    "Signature",
    "Subgraph",
    "Tensor",
    "load_model",
]
