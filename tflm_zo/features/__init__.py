# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""From sensor samples to what a network sees."""

from __future__ import annotations

from .log_mel import log_mel, mel_filters

__all__ = ["log_mel", "mel_filters"]
