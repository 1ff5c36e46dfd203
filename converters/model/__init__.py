# SPDX-License-Identifier: Apache-2.0
"""An editable .tflite model: operators hold tensors and tensors hold buffers, as objects.

Whatever this package does not know the meaning of is kept: unknown metadata, options of operators, unused
buffers. A file that holds more than can be kept (a newer schema, data outside the flatbuffer) is refused.
"""

from .buffer import Buffer
from .metadata_entry import Metadata
from .model import Model
from .operator import Operator
from .operator_code import OperatorCode
from .quantization import Quantization
from .reader import load_model
from .signature import Signature
from .subgraph import Subgraph
from .tensor import Tensor

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
