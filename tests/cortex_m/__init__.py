# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Programs on emulated Cortex-M and RISC-V cores: how they are built
and run (emulator.py), and what is tested so."""
