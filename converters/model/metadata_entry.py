# SPDX-License-Identifier: Apache-2.0
"""A metadata entry: a name and bytes."""

from __future__ import annotations

import dataclasses

from .buffer import Buffer


@dataclasses.dataclass(eq=False)
class Metadata:
    """A metadata entry; what the bytes mean is between those who write and read that name."""

    name: str
    buffer: Buffer
