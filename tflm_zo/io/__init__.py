# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Input and output: reading arrays, writing files atomically, printing tables.

It imports no other part of the package.
"""
