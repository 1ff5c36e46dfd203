"""Logs of training runs (``.zolog``): the seed log of weight perturbation and the snapshot log of layer-wise runs."""

from .layout import MAGIC, IncompleteHeaderError, LogError, LogWarning, fingerprint, is_snapshot_log
from .log import Log, data_checksum, keep_threshold
from .replay import checksum_of, replay_log
from .writer import LogWriter

__all__ = [
    "IncompleteHeaderError",
    "Log",
    "LogError",
    "LogWarning",
    "LogWriter",
    "MAGIC",
    "checksum_of",
    "data_checksum",
    "fingerprint",
    "is_snapshot_log",
    "keep_threshold",
    "replay_log",
]
