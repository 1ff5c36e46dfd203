"""The rewriting passes, in the order in which ``inject`` applies them.

A pass is a function ``(model, settings, plan) -> None``: it changes the model in place, reads the settings, and stores
results for later passes in the plan. It raises ConversionError where it cannot do its part; ``inject`` works on a copy,
so nothing is left half-done.
"""

from collections.abc import Callable
from typing import Final

from ..model import Model
from ..settings import InjectSettings
from .batch import fix_batch
from .check_supported import check_supported, name_ports, set_quantized_dimension
from .cut_segments import cut_segments, name_signatures
from .loss import find_loss, insert_loss
from .make_trainable import insert_weight_operators, make_trainable
from .plan import Plan
from .plan_nodes import plan_nodes
from .plan_tail import plan_tail
from .requantize import reserve_headroom, share_scales
from .select_trainable import select_trainable, train_biases
from .write_metadata import write_metadata

#: The type of every pass.
Pass = Callable[[Model, InjectSettings, Plan], None]

PASSES: Final[tuple[Pass, ...]] = (
    check_supported,
    share_scales,
    set_quantized_dimension,
    name_ports,
    fix_batch,
    find_loss,
    select_trainable,
    reserve_headroom,
    plan_nodes,
    plan_tail,
    train_biases,
    cut_segments,
    make_trainable,
    insert_weight_operators,
    insert_loss,
    name_signatures,
    write_metadata,
)

__all__ = ["PASSES", "Pass", "Plan"]
