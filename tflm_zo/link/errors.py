# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Errors of a link to a device."""

from __future__ import annotations

from ..core import library

__all__ = ["LinkError", "NoAnswerError", "RefusedError"]


class LinkError(RuntimeError):
    """The device cannot do what was asked for, or is another one than was expected."""


class NoAnswerError(LinkError):
    """The device does not answer."""


class RefusedError(LinkError):
    """The device has refused a request.

    Attributes:
        status: the ``zo_status`` that it has answered.
    """

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"the device refuses: {library().zo_status_text(status).decode('ascii')}")
