"""Features: the inputs of a network from sensor samples."""

from .log_mel import log_mel, mel_filters

__all__ = ["log_mel", "mel_filters"]
