"""Fleets over Flower: a ServerApp whose global state is a seed log, and ClientApps that follow it.

A round is one step of the run. The server sends the record of the last step, and clients answer with a loss
difference for each query, so a round takes a few hundred bytes for a model of any size. It needs the extra
``fleet`` (Flower's Message API).
"""

from .averaging import AveragingClient, AveragingStrategy, averaging_app
from .client import FleetClient, GatewayClient, client_app, gateway_of
from .local_grid import LocalGrid, Traffic
from .messages import VERSION, Refusal
from .recalibration import RecalibrationClient, recalibrate_fleet, recalibration_app
from .strategy import FleetStrategy, server_app

__all__ = [
    "VERSION",
    "AveragingClient",
    "AveragingStrategy",
    "FleetClient",
    "FleetStrategy",
    "GatewayClient",
    "LocalGrid",
    "RecalibrationClient",
    "Refusal",
    "Traffic",
    "averaging_app",
    "client_app",
    "gateway_of",
    "recalibrate_fleet",
    "recalibration_app",
    "server_app",
]
