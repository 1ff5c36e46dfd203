"""Names and numbers of the graph contract that the passes and the metadata share with ops/core."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final

#: Custom operators of this package.
OP_PREFIX: Final = "TFLM_ZO_"
SEED_REPLAY: Final = "TFLM_ZO_SEED_REPLAY"
UPDATE: Final = "TFLM_ZO_UPDATE"
PERTURB: Final = "TFLM_ZO_PERTURB"
LOSS: Final = "TFLM_ZO_LOSS"
#: Resets, reads and assigns a state.
STATE_OPERATOR: Final = "TFLM_ZO_STATE"
#: Operators of training, whose options and tensors the C core checks.
OWN_OPERATORS: Final = (SEED_REPLAY, UPDATE, PERTURB, LOSS, STATE_OPERATOR)

#: The operator in which Arm's vela collects the operators for an Ethos-U.
ETHOS_U: Final = "ethos-u"

#: The operator that TFLM's compression of weights puts in front of layers, and the metadata of its older form.
DECODE: Final = "TFLM_DECODE"
COMPRESSION: Final = "COMPRESSION_METADATA"
COMPRESSED: Final = "TFLM has compressed the weights, which cannot be trained"

#: Name of the metadata entry.
METADATA_NAME: Final = "tflm_zo"

COMMAND: Final = "zo_command"
LABEL: Final = "zo_label"
LOSS_OUTPUT: Final = "zo_loss"
STATUS: Final = "zo_status"
#: Beginning of the names of tensors that operators of `inject` compute for the loss alone.
OUTPUTS: Final = "zo_outputs"
STATE: Final = "zo_state"
INITIAL: Final = "zo_initial"
FRACTION: Final = "zo_fraction"
BOUNDARY: Final = "boundary"

STATE_WORDS: Final = 4
STATUS_WORDS: Final = 4


def free_name(base: str, taken: Collection[str]) -> str:
    """Returns a name, with a number where it is taken."""
    return next(n for k in itertools.count() if (n := f"{base}_{k}" if k else base) not in taken)


def segment_key(number: int) -> str:
    """Returns the signature key and subgraph name of a segment."""
    return f"segment_{number}"


def skip_name(number: int) -> str:
    """Returns the signature name, in a later segment, of the boundary that entered a segment."""
    return f"skip_{number}"


#: Appended to the name of a filter: its factors of the update step.
MULTIPLIER: Final = "/zo_multiplier"
