# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a server leaves out of a round, and why."""

from __future__ import annotations

from dataclasses import dataclass
from logging import WARNING

from flwr.app import Message
from flwr.supercore import log

__all__ = ["Refusal", "refuse"]


@dataclass(frozen=True)
class Refusal:
    """A reply that was refused, or a message that a client has refused.

    Attributes:
        step: number of the step, or round, that was asked for.
        node: number of the client's node.
        reason: what is wrong with it.
    """

    step: int
    node: int
    reason: str


def refuse(refusals: list[Refusal], reply: Message, step: int, reason: str) -> None:
    """Notes and logs that a reply is left out."""
    node = reply.metadata.src_node_id
    log(WARNING, "step %d: node %d is left out: %s", step, node, reason)
    refusals.append(Refusal(step, node, reason))
