# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The version of the package, which `pyproject.toml` and `CITATION.cff` repeat."""

__version__ = "0.1.0"
