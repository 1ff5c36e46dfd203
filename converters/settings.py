"""Settings of the rewriter."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NoReturn, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from .errors import InjectError, checked_integer
from .loss_parts import loss_text, parse_parts
from .selections import ALL, Last, ResidualBlocks, TailChoice

#: Largest number of seeds in one UPDATE, PERTURB or step of a REPLAY (ZO_MAX_QUERIES).
MAX_QUERIES: Final = 32
#: Fewest bits of magnitude and sign that headroom may leave a weight: 127 - h >= 15 is 5 bits.
SMALLEST_LIMIT: Final = 15

Parameters = Literal["weights", "biases", "all"]
PARAMETERS: Final[tuple[str, ...]] = get_args(Parameters)

Selection = Last | str | Sequence[str]
"""The last layers, or names of layers, or patterns with * and ?."""

LossKind = Literal["auto", "cross_entropy", "floor_log2", "binary_cross_entropy", "mse", "mae", "huber", "none"]
Loss = LossKind | str | Mapping[str, str]
"""A kind of loss, or the parts of a sum: ``"OUTPUT=KIND*WEIGHT,…"``, or ``KIND*WEIGHT`` by output."""
LossOver = Literal["auto", "sum", "largest"]
LOSS_KINDS: Final[tuple[str, ...]] = get_args(LossKind)
LOSS_OVERS: Final[tuple[str, ...]] = get_args(LossOver)

#: Multipliers (s_min / s)^2 per channel, see ``quantization_aware``.
QUANTIZATION_AWARE: Final = "quantization-aware"

#: Value of ``cuts`` that cuts before every trainable layer.
LAYERS: Final = "layers"

#: Value of ``trainable`` that stands for the layers that carry nodes.
NODES: Final = "nodes"

# Settings that say how trainable weights are perturbed and moved.
_OF_WEIGHTS: Final = ("blocks", "headroom", "update_bits", "multipliers", "replay")

# Words of a command, see ops/core/graph/zo_command.h.
_HEADER_WORDS: Final = 2
_INSTRUCTION_WORDS: Final = 4
_ITEM_WORDS: Final = 2


#: Largest number of samples per invoke.
MOST_SAMPLES: Final = 2**20


def smallest_command(max_queries: int) -> int:
    """Returns the words of a command with an UPDATE of `max_queries` seeds that restores a direction, and a PERTURB."""
    update = _INSTRUCTION_WORDS + _ITEM_WORDS * (max_queries + 1)
    return _HEADER_WORDS + update + _INSTRUCTION_WORDS + _ITEM_WORDS


def _strings(value: str | Sequence[str], what: str) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else tuple(value)
    if any(not isinstance(item, str) or not item for item in items):
        raise InjectError(what, "be names", value)
    return items


def _selection(value: Selection, what: str) -> Last | tuple[str, ...]:
    return value if isinstance(value, Last) else _strings(value, what)


def parameters_of(are_biases: Iterable[bool]) -> Parameters:
    """Returns the trainable parameters, from a flag for each trainable tensor: True for biases, False for a filter."""
    kinds = set(are_biases)
    return "all" if len(kinds) > 1 else "biases" if kinds == {True} else "weights"


class InjectChanges(TypedDict, total=False):
    """The settings of `InjectSettings` that are given by name."""

    trainable: Selection
    blocks: Mapping[str, str | Sequence[str]] | None
    headroom: int
    update_bits: int
    max_queries: int
    batch: int
    export_batch: int | None
    signature: str | None
    loss: Loss
    loss_output: int | str | None
    loss_over: LossOver
    cuts: Sequence[str]
    nodes: Selection
    tail: TailChoice | None
    parameters: Parameters
    command_words: int | None
    multipliers: Mapping[str, npt.NDArray[np.int32]] | str | None
    replay: bool
    algorithm: str


@dataclasses.dataclass(frozen=True)
class InjectSettings:
    """Settings of the rewriter, which say how a model is to train. They are checked at construction.

    The defaults serve node perturbation, as those of ``tflm-zo inject`` do; ``training.inject_settings`` returns the
    settings for another algorithm, e.g. ``inject_settings(algorithms.weight())``.

    Attributes:
        trainable: filters of CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, SVDF and LSTM that become trainable, if they
            feed the loss: "all", `Last(n)` (the last n in execution order), "nodes" (layers that carry nodes, which
            saves the others' RAM), "none", or one or several names or glob patterns that are compared with layer
            names, filter tensor names, operator output names and block names.
        blocks: names or patterns of a block's layers, by the block's name. A command addresses one block or all of
            them. A layer that no block names is a block of its own; with None every layer is one.
        headroom: largest perturbation of a weight, LSB, 0 to 112. Weights stay within +-(127 - headroom).
        update_bits: 16 (each weight has a fraction byte, nothing is lost to rounding) or 8 (stochastic rounding, no
            extra memory).
        max_queries: seeds in one UPDATE or one step of a replay, 1 to 32.
        batch: samples per invoke, at least 1. The model's own batch size must be 1 or this.
        export_batch: samples per invoke of exported models, where the export asks for no other number; None: the ZO
            model's batch.
        signature: key of the signature, or name of the subgraph, that is to be trained; None: the model has one
            subgraph alone.
        loss: "auto" (from the model's tail), "cross_entropy", "floor_log2" (a cross-entropy in whole powers of two,
            ElasticZO's; see ops/core/papers/zo_floor_log2_loss.h), "binary_cross_entropy", "mse", "mae", "huber" (with
            a delta of 1), or "none" (no loss operator: for looking at segments). Or a sum of several losses with
            weights: "scores=binary_cross_entropy,boxes=huber*5", or a dictionary. A part is an output, by name or
            number, perhaps with a range of its last dimension: "grid[0]=binary_cross_entropy,grid[1:5]=mse".
        loss_output: index or tensor name of the output that the loss belongs to; None: the first output behind a
            SOFTMAX or LOGISTIC, else the first output.
        loss_over: loss of a sequence, of a model with states: "sum" of its steps with a label, "largest" (that of the
            step with the largest output, as wake words are detected), or "auto" ("largest" for one LOGISTIC, else
            "sum").
        cuts: names of the tensors between segments, in any order; see ``possible_cuts``. "layers" cuts before every
            trainable layer where a cut is possible.
        nodes: layers that carry nodes for node perturbation: "auto" (layers with fewer nodes than weights, and few for
            the cost of their queries), `Last(n)` (the last n that can), or names or glob patterns of trainable layers;
            () for no layer. The model is cut around them.
        tail: layers that are to be trained by their exact gradients: a number from 1 on of last layers,
            `ResidualBlocks(n)`, or "all" (as many last layers as errors reach); None: none. The layers of a tail carry
            no nodes, unless it is 1 and the last layer is dense.
        parameters: trainable parameters of the layers: "weights" (filters), "all" (filters and int32 biases) or
            "biases" (filters are constants in flash, and node perturbation keeps no inputs of layers). A bias that is
            shared or computed is not trained.
        command_words: capacity of ``zo_command`` in int32 words; None: enough for an UPDATE of ``max_queries`` seeds
            that restores a direction, and a PERTURB of one. A replay of n steps of Q queries takes 6 + 2 n Q words.
        multipliers: Q31 factors 0..2^31-1 of the update step per output channel (e.g. learning rates), int32 [channels]
            by filter tensor name; None: no such factors. A layer without an entry keeps a factor of 1 - 2^-31.
            "quantization-aware": (s_min / s)^2 from the channels' scales, so that steps have the same real size and not
            the same number of LSB; see ``quantization_aware_multipliers``.
        replay: True if SEED_REPLAY is part of the model.
        algorithm: name of the algorithm that the model is for, written to its metadata; "": none in particular.

    Raises:
        ConversionError: a value is outside its range.
    """

    trainable: Selection = NODES
    blocks: Mapping[str, str | Sequence[str]] | None = None
    headroom: int = 0
    update_bits: int = 16
    max_queries: int = 8
    batch: int = 1
    export_batch: int | None = None
    signature: str | None = None
    loss: Loss = "auto"
    loss_output: int | str | None = None
    loss_over: LossOver = "auto"
    cuts: Sequence[str] = ()
    nodes: Selection = "auto"
    tail: TailChoice | None = None
    parameters: Parameters = "weights"
    command_words: int | None = None
    multipliers: Mapping[str, npt.NDArray[np.int32]] | str | None = None
    replay: bool = False
    algorithm: str = "node"

    def __post_init__(self) -> None:
        """Checks every range."""
        self._check_layers()
        self._take("headroom", 0, 127)
        if 127 - self.headroom < SMALLEST_LIMIT:
            self._refuse("headroom", f"be at most {127 - SMALLEST_LIMIT}, to leave weights of 5 bits")
        if self.update_bits not in (8, 16):
            self._refuse("update_bits", "be 8 or 16")
        self._take("update_bits", 8, 16)
        self._take("max_queries", 1, MAX_QUERIES)
        self._take("batch", 1, MOST_SAMPLES)
        self._take("export_batch", 1, MOST_SAMPLES)
        if self.tail != ALL and not isinstance(self.tail, ResidualBlocks):
            self._take("tail", 1, 64)
        self._take("command_words", smallest_command(self.max_queries), 2**24)
        object.__setattr__(self, "loss", loss_text(self.loss))
        parts = parse_parts(str(self.loss))
        if not parts and self.loss not in LOSS_KINDS:
            self._refuse("loss", f"be one of {', '.join(LOSS_KINDS)}, or OUTPUT=KIND for each part of a sum")
        if parts and self.loss_output is not None:
            self._refuse("loss_output", "be None where the loss names its outputs")
        if self.loss_over not in LOSS_OVERS:
            self._refuse("loss_over", f"be one of {', '.join(LOSS_OVERS)}")
        if not isinstance(self.loss_output, str):
            self._take("loss_output", 0, 2**16)
        object.__setattr__(self, "cuts", _strings(self.cuts, "cuts"))
        self._check_weights()
        self._check_effects()

    def _check_layers(self) -> None:
        """Checks the choice of the layers that are trained, and their groups."""
        if not isinstance(self.trainable, str):
            object.__setattr__(self, "trainable", _selection(self.trainable, "trainable"))
        if self.trainable == "" or self.trainable == ():
            self._refuse("trainable", "name a layer, or be 'none' for a model without trainable layers")
        if self.trainable == "none" and self.nodes == "auto":
            object.__setattr__(self, "nodes", ())
        if self.algorithm == "node" and not self.nodes and self.tail is None:
            object.__setattr__(self, "algorithm", "")
        if self.nodes != "auto":
            object.__setattr__(self, "nodes", _selection(self.nodes, "nodes"))
        if self.trainable == NODES and not self.nodes and self.tail is None:
            self._refuse("nodes", "name a layer where only layers with nodes are trainable")
        if self.parameters not in PARAMETERS:
            self._refuse("parameters", f"be one of {', '.join(PARAMETERS)}")
        if self.blocks is not None:
            blocks = {name: _strings(patterns, f"block {name}") for name, patterns in self.blocks.items()}
            if not blocks or not all(blocks.values()) or any(not n or not isinstance(n, str) for n in blocks):
                self._refuse("blocks", "have a name and at least one layer each")
            object.__setattr__(self, "blocks", blocks)

    def _check_weights(self) -> None:
        """Checks the settings by which trainable weights differ from each other."""
        if isinstance(self.multipliers, str):
            if self.multipliers != QUANTIZATION_AWARE:
                self._refuse("multipliers", f"be {QUANTIZATION_AWARE!r}, or factors by filter tensor name")
        elif self.multipliers is not None:
            object.__setattr__(self, "multipliers", dict(self.multipliers))

    def _refuse(self, name: str, constraint: str) -> NoReturn:
        raise InjectError(name, constraint, getattr(self, name))

    def _take(self, name: str, low: int, high: int) -> None:
        if (value := getattr(self, name)) is not None:
            object.__setattr__(self, name, checked_integer(name, value, low, high))

    def _check_effects(self) -> None:
        """Raises ConversionError where a setting would change nothing."""
        for field in dataclasses.fields(self):
            if self.trainable == "none" and field.name in _OF_WEIGHTS and getattr(self, field.name) != field.default:
                self._refuse(field.name, "be left out where no weight is trainable")
        if self.trainable == "none" and LAYERS in self.cuts:
            self._refuse("cuts", f"not be {LAYERS!r} where no layer is trainable")
        if self.loss == "none" and self.loss_over != "auto":
            self._refuse("loss_over", "be `auto` without a loss")
        if self.loss == "none" and self.loss_output is not None:
            self._refuse("loss_output", "be None without a loss")

    @property
    def words(self) -> int:
        """Capacity of ``zo_command``, int32 words."""
        return smallest_command(self.max_queries) if self.command_words is None else self.command_words
