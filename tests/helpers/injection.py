"""Models with all weights trainable, independent of the rewriter's defaults."""

import os
from typing import Any, Final

from tflm_zo.converters import Model, inject

ALL_WEIGHTS: Final[dict[str, Any]] = {"trainable": "all", "nodes": (), "headroom": 2, "replay": True}


def inject_all(model: Model | str | os.PathLike[str] | bytes, **given: Any) -> Model:
    """Makes a ZO model whose weights are all trainable, move by 2 LSB and are replayed; `given`: other settings."""
    usual = {} if given.get("trainable") == "none" else ALL_WEIGHTS
    return inject(model, **{"algorithm": "", **usual, **given})
