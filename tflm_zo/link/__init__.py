"""The link to a training device: it collects the device's log and sends runs to it.

The device's side is in ``ops/core/link``. pyserial opens the port (a serial device or a socket).
"""

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
