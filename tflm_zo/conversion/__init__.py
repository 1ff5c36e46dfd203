"""Conversion: a Keras model or a float32 `.tflite` becomes a plain int8 `.tflite`, with a report.

It imports `recalibration`, which measures the statistics that a converted model keeps of its channels.
"""

from .int8 import ConversionReport, ConversionResult
from .keras import convert
from .quantize import quantize

__all__ = ["ConversionReport", "ConversionResult", "convert", "quantize"]
