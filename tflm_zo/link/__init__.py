# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The link to a device that trains: its log comes home, and runs are sent to it.

The device's end is in ``ops/core/link``; over what the bytes go, a serial port, a socket, is pyserial's.
"""

from __future__ import annotations

from .collect import collect
from .deploy import Deployment, Load, deploy, load_of, revert
from .link import Link, open_port
from .protocol import FleetState, Hello, LinkError, NoAnswerError, Place, PlaceKind, RefusedError, StepAnswer

__all__ = [
    "Deployment",
    "FleetState",
    "Hello",
    "Link",
    "LinkError",
    "Load",
    "NoAnswerError",
    "Place",
    "PlaceKind",
    "RefusedError",
    "StepAnswer",
    "collect",
    "deploy",
    "load_of",
    "open_port",
    "revert",
]
