# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Fleets: clients that train one model together by weight perturbation, and exchange seeds and loss
differences instead of weights.
"""

from __future__ import annotations

from .answer import Answer, FleetError, sum_of
from .averaged_weights import AveragedWeights
from .fleet_log import FleetLog
from .gateway import Gateway
from .position import Position
from .replica import Replica

__all__ = ["Answer", "AveragedWeights", "FleetError", "FleetLog", "Gateway", "Position", "Replica", "sum_of"]
