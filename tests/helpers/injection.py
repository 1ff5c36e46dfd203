"""Models with all weights trainable, independent of the rewriter's defaults."""

import os
from typing import Any, Final

from tflm_zo.converters import Model, inject

ALL_WEIGHTS: Final[dict[str, Any]] = {"trainable": "all", "nodes": (), "headroom": 2, "replay": True}


def inject_all(model: Model | str | os.PathLike[str] | bytes, **given: Any) -> Model:
    """Makes a ZO model with every feature: every weight is trainable, moves by 2 LSB and is replayed from
    seeds.

    Args:
        model: as for `inject`.
        **given: settings of `inject` that differ; ``nodes`` are carried beside the trainable weights, and
            ``trainable="none"`` leaves nothing to move.
    """
    usual = {} if given.get("trainable") == "none" else ALL_WEIGHTS
    return inject(model, **{"algorithm": "", **usual, **given})
