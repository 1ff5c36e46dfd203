# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Server and client of the fleet."""
