# SPDX-License-Identifier: Apache-2.0
"""The rewriter: turns int8 .tflite models into models that train themselves with forward passes only."""

from .errors import ConversionError
from .model import Model, load_model

__all__ = ["ConversionError", "Model", "load_model"]
