# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A client of Flower that stands for a cohort of devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flwr.app import Context, RecordDict

from ...converters import Model
from ...link.link import Port
from ..gateway import Gateway
from ..lines import Lines

__all__ = ["GatewayClient", "gateway_of"]


@dataclass(frozen=True)
class GatewayClient:
    """What a gateway's client trains with: devices, each of which has samples of its own.

    Attributes:
        model: the ZO model that the devices' firmware was generated from: the model, its bytes or its path.
        lines: what opens the line to a device, by the device's name.
        log: path of the file that keeps the run's records for devices which lack them.
        deadline: seconds that devices have for a step.
        share_loss: whether the client tells the mean loss of its minibatches; False sends 0.
    """

    model: Model | bytes | str | os.PathLike[str]
    lines: Mapping[str, Callable[[], Port]]
    log: str | os.PathLike[str]
    deadline: float = 60.0
    share_loss: bool = True

    def member(self, model: Model, header: bytes) -> Gateway:
        """Returns what follows the run that a header begins."""
        return Gateway(model, header, self.lines, log=self.log, deadline=self.deadline)

    def evaluation(self, member: Gateway) -> RecordDict:
        """Brings all devices to the last step: they have no samples to spare for an evaluation."""
        member.update()
        return RecordDict()


def gateway_of(context: Context) -> GatewayClient | None:
    """Returns the gateway that a node's configuration describes, as ``tflm-zo gateway`` writes it; None: the
    node is none.

    Raises:
        ValueError: the configuration is incomplete.
    """
    config = {key: str(value) for key, value in context.node_config.items()}
    if "zo-lines" not in config:
        return None
    missing = [key for key in ("zo-model", "zo-log") if key not in config]
    if missing:
        raise ValueError(
            f"the node's configuration lacks {' and '.join(missing)}: start it by tflm-zo gateway"
        )
    lines = Lines.read(config["zo-lines"])
    deadline = float(config.get("zo-deadline", 60.0))
    return GatewayClient(config["zo-model"], lines.open, config["zo-log"], deadline)
