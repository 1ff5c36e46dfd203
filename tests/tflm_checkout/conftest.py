# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What starts Flower's programs is the benchmarks', too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
