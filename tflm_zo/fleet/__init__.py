"""Fleets: clients that train one model together by weight perturbation, and exchange seeds and loss
differences instead of weights.
"""

from .averaged_weights import AveragedWeights
from .fleet_log import FleetLog
from .gateway import Gateway
from .member import Answer, FleetError, Position, Replica, sum_of

__all__ = ["Answer", "AveragedWeights", "FleetError", "FleetLog", "Gateway", "Position", "Replica", "sum_of"]
