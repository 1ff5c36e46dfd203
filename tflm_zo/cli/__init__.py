"""The command line ``tflm-zo``; ``commands`` describes how to add a command."""

from .app import app, main

__all__ = ["app", "main"]
