# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from helpers.firmware_folders import ALGORITHMS


@pytest.fixture(params=ALGORITHMS)
def kind(request: pytest.FixtureRequest) -> str:
    """The algorithm of a generated folder."""
    return str(request.param)
