# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""int8 zeroth-order training simulated in NumPy, as one would write it to study it on a PC.

The yardstick of training_throughput.py: an int8 network interpreted with im2col and BLAS on whole batches
(`Network`), and the SPSA step on it (`Simulation`). It is written for speed as far as plain NumPy goes: exact
integers in floating-point matrix products, in-place requantization, lookup tables. Its arithmetic is TFLM's
bit for bit, and its steps are the trainer's if it is given the trainer's directions
(tests/benchmarks/test_numpy_simulation.py).

`Backward` is integer backpropagation through such a network: a reference for accuracy, not for speed.
"""

from .backward import Backward
from .network import Network, UnsupportedError
from .simulation import Simulation

__all__ = ["Backward", "Network", "Simulation", "UnsupportedError"]
