"""Losses of sequences, which join those of their steps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .arguments import address
from .loader import constants, library

OVER_SUM: Final[int] = constants.ZO_OVER_SUM
OVER_LARGEST: Final[int] = constants.ZO_OVER_LARGEST
#: ``zo_loss_over`` by its name in a model's metadata, ``ZoLoss.over``.
LOSS_OVER: Final = {"sum": OVER_SUM, "largest": OVER_LARGEST}


def join_losses(
    over: int, labels: NDArray[Any] | None, losses: NDArray[np.int32], joined: NDArray[np.int32] | None
) -> NDArray[np.int32]:
    """Adds the losses of a step, int32 [samples], to those of its sequences, see ``zo_join_losses``.

    Args:
        over: ``OVER_SUM``, or ``OVER_LARGEST``, which needs the labels.
        labels: labels of the step, int32 [samples, ...], one for each.
        losses: losses of the step.
        joined: result for the steps before it, which is changed; None: there are none.
    """
    if joined is None:
        joined = np.full(len(losses), -1, np.int32)
    if over == OVER_LARGEST and labels is not None:
        labels = np.ascontiguousarray(labels.reshape(-1))
        where: int | None = address("labels", labels, np.int32)
    else:
        over, where = OVER_SUM, None
    own = np.ascontiguousarray(losses)
    library().zo_join_losses(
        over, len(own), where, address("losses", own, np.int32), address("joined", joined, np.int32)
    )
    return joined
