# SPDX-License-Identifier: Apache-2.0
"""A metadata entry: a name and bytes."""

from __future__ import annotations

import dataclasses

from .buffer import Buffer


@dataclasses.dataclass(eq=False)
class Metadata:
    """A metadata entry; whoever writes and reads entries of that name gives the bytes their meaning."""

    name: str
    buffer: Buffer
