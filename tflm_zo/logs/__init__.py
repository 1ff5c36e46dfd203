"""Logs of training runs (``.zolog``): the seed log of weight perturbation and the snapshot log of layer-wise runs."""

from .layout import MAGIC, IncompleteHeaderError, LogError, LogWarning, fingerprint, is_snapshot_log
from .log import Log, data_checksum
from .replay import replay_log
from .writer import LogWriter

__all__ = [
    "IncompleteHeaderError",
    "Log",
    "LogError",
    "LogWarning",
    "LogWriter",
    "MAGIC",
    "data_checksum",
    "fingerprint",
    "is_snapshot_log",
    "replay_log",
]
