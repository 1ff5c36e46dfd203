# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Input and output of the whole package: arrays read, files written whole or not at all, tables printed.

It imports nothing of the package.
"""
