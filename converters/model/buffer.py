# SPDX-License-Identifier: Apache-2.0
"""Constant data of a model."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(eq=False)
class Buffer:
    """Bytes that tensors or metadata entries refer to; compared by identity.

    Several tensors may share one buffer: a pass that changes the data of a tensor gives that tensor a new
    buffer (``Tensor.set_data``) and leaves this one as it is.
    """

    data: bytes = dataclasses.field(default=b"", repr=False)
