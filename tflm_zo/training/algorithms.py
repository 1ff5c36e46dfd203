# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Algorithms by name: what each needs of a model, and how it trains by default.

To add one, add an entry to ``ALGORITHMS``: the command line lists it, and takes its defaults from here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ..converters import InjectSettings, ZoMetadata
from ..converters.settings import NODES
from ..core import Distribution
from .node_settings import NodeSettings
from .settings import SettingsError, TrainSettings

__all__ = ["ALGORITHMS", "TAIL", "Algorithm", "algorithm", "algorithm_of"]

#: Of ``injection``: ``nodes`` of as many last layers as have their exact gradients.
TAIL: Final = "tail"


@dataclass(frozen=True)
class Algorithm:
    """A way of training.

    Attributes:
        name: what people write.
        summary: one line, with where it was published.
        settings: class of its settings: `NodeSettings` for layer-wise runs, `TrainSettings` for weight
            perturbation with nothing but forward passes of the whole network.
        defaults: where its defaults differ from the class's.
        injection: where what it needs of `inject` differs from the defaults of `InjectSettings`.
    """

    name: str
    summary: str
    settings: type[NodeSettings] | type[TrainSettings]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    injection: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_layerwise(self) -> bool:
        """Whether its runs are layer-wise: they keep a snapshot log, and need the data to be resumed."""
        return self.settings is NodeSettings

    @property
    def takes_nodes(self) -> bool:
        """Whether it perturbs or credits nodes of the layers that `inject` is told."""
        return bool(self.injection.get("nodes"))

    @property
    def options(self) -> dict[str, Any]:
        """Its settings and their defaults."""
        own = self.settings()
        return {f.name: getattr(own, f.name) for f in dataclasses.fields(own)} | dict(self.defaults)

    def make(self, **given: Any) -> NodeSettings | TrainSettings:
        """Its settings.

        Args:
            **given: those that differ from its defaults.

        Raises:
            SettingsError: it has no such setting (the message lists them), or a value is out of range.
        """
        unknown = [name for name in given if name not in self.options]
        if unknown:
            raise SettingsError(
                f"{unknown[0]}: algorithm {self.name} has no such setting; it has {', '.join(self.options)}"
            )
        return self.settings(**{**self.defaults, **given})

    def inject_settings(self, chosen: Mapping[str, Any] | None = None, **given: Any) -> InjectSettings:
        """How `inject` prepares a model for it.

        Args:
            chosen: settings of the run to come that differ from its defaults, as for `make`: a larger
                perturbation needs more head-room, more layers with exact gradients more that carry nodes.
            **given: settings of the injection that differ from what it asks for.

        Raises:
            ConversionError: a value is out of range.
            SettingsError: nodes are given, which it does not perturb.
        """
        if given.get("nodes") and not self.takes_nodes:
            raise SettingsError(f"nodes: algorithm {self.name} perturbs weights, not nodes")
        asked = {"algorithm": self.name} | dict(self.injection)
        run, usual = self.make(**(chosen or {})), InjectSettings()
        if asked.get("nodes") == TAIL:
            asked["nodes"] = _tail_nodes(run)
        if asked.get("trainable", "all") != NODES:
            asked["head_room"] = max(asked.get("head_room", usual.head_room), run.head_room)
        if isinstance(run, TrainSettings):
            asked["max_queries"] = max(usual.max_queries, run.items)
            words = InjectSettings(max_queries=asked["max_queries"]).words
            if run.command_words > words:
                asked["command_words"] = run.command_words
        return InjectSettings(**{**asked, **given})


def _tail_nodes(settings: NodeSettings | TrainSettings) -> str | tuple[()]:
    """Layers that carry nodes where the last ones have their exact gradients and no other carries any."""
    assert isinstance(settings, NodeSettings)
    return f"last:{settings.tail}" if settings.head == "exact" else ()


def _frozen(**values: Any) -> Mapping[str, Any]:
    return MappingProxyType(values)


_LAYERWISE: Final = _frozen(trainable="all", nodes=(), cuts=("layers",), replay=False)
_HYBRID: Final = _frozen(trainable="all", nodes=TAIL, replay=False)

_ALL: Final = (
    Algorithm(
        "node",
        "perturbs layers' outputs, each sample's in a direction of its own (Poor Man's Training on MCUs, "
        "sec. 3.2)",
        NodeSettings,
        # Weights themselves are never perturbed and nothing is replayed: the exact outputs of the original,
        # no operator that would not run, no RAM for layers that stay as they are.
        injection=_frozen(trainable="nodes", nodes="auto", head_room=0, replay=False),
    ),
    Algorithm(
        "weight",
        "perturbs all weights at once (SPSA, Spall 1992)",
        TrainSettings,
    ),
    Algorithm(
        "layer",
        "perturbs the weights of one layer after the other, each from its own inputs on",
        NodeSettings,
        _frozen(others="layers", rate=2.0),
        _LAYERWISE,
    ),
    Algorithm(
        "poor-mans-training",
        "one-sided estimates layer by layer, of nodes or weights, whichever are fewer; rates scaled by "
        "NQ/(NQ+d-1)/s² (Poor Man's Training on MCUs)",
        NodeSettings,
        # The paper has minibatches of 100 and 100 queries (sec. 4.1). Here a minibatch is whole invokes, of
        # 32 samples where a command injects the model, and a step has 32 queries at most; with 8 of them a
        # budget is good for four times as many steps, and a minibatch of nodes has 768 directions.
        _frozen(
            batch_size=96,
            estimator="one-sided",
            rule="gradient",
            weight_rule="gradient",
            rate=0.04,
            schedule="cosine",
            clip=255.0,
            weight_clip=0.0,
            mu=1,
            queries=8,
            others="layers",
            distribution=Distribution.rademacher(1),
        ),
        _frozen(trainable="all", nodes="auto", cuts=("layers",), head_room=1, replay=False),
    ),
    Algorithm(
        "qzo-ff",
        "signs of loss differences along 8-bit Gaussian directions, 16-bit weights (QZO-FF: sign-m-SPSA)",
        TrainSettings,
        _frozen(rule="sign", distribution=Distribution.gaussian(1.0)),
        _frozen(update_bits=16, head_room=4),
    ),
    Algorithm(
        "elastic-zo",
        "perturbs the weights of the first layers together, backpropagation for the last ones (ElasticZO)",
        NodeSettings,
        # The paper's rate is tuned for each model and falls by 0.8 every 10 of 100 epochs, its gradient is
        # clipped (sec. 5.1.1). Here differences count relative to their running RMS, clipped at three times
        # it, which takes one rate for all models, and the rate falls to 0 by the end of a run of any length.
        _frozen(
            head="exact",
            others="together",
            distribution=Distribution.gaussian(1.0),
        ),
        _HYBRID,
    ),
    Algorithm(
        "elastic-zo-int8",
        "the same in 8 bits: sparse uniform directions, signs, updates rounded to few bits (ElasticZO-INT8)",
        NodeSettings,
        _frozen(
            batch_size=256,
            head="exact",
            exact_rule="bits",
            others="together",
            weight_rule="bits",
            distribution=Distribution.sparse_uniform(15, 0.33),
            stages=(0.2, 0.5),
            stage_p_zero=(0.5, 0.9),
        ),
        MappingProxyType({**_HYBRID, "update_bits": 8}),
    ),
    Algorithm(
        "fqt",
        "quantized backpropagation of the last layers alone: standardized gradients of the outputs with the "
        "largest errors (On-Device Training of Fully Quantized DNNs)",
        NodeSettings,
        # The poster names no rate: 0.1 LSB is the standard deviation of a layer's first step.
        _frozen(head="exact", tail=2, exact_rule="standardized", sparse_rows=(0.1, 1.0), rate=0.1),
        _frozen(trainable="nodes", nodes=TAIL, head_room=0, replay=False),
    ),
    Algorithm(
        "mezo",
        "perturbs all weights at once along Gaussian directions, plain gradient steps (MeZO)",
        TrainSettings,
        _frozen(
            rule="gradient",
            distribution=Distribution.gaussian(1.0),
            rate=100.0,
            schedule="constant",
            clip=0.0,
        ),
        _frozen(head_room=4),
    ),
    Algorithm(
        "deepzero",
        "finite differences weight by weight, some of every layer a step, each from its layer on (DeepZero: "
        "coordinate-wise estimation; weights drawn at random)",
        NodeSettings,
        # Finite differences of single weights differ between layers and along a run: over their running RMS
        # one rate serves all layers, where plain steps, as DeepZero's, would need one for each.
        _frozen(
            others="layers",
            weight_rule="normalized",
            rate=128.0,
            queries=32,
            distribution=Distribution.coordinate(2),
        ),
        _LAYERWISE,
    ),
    Algorithm(
        "qzo-ff-probe",
        "signs along Gaussian directions smaller than an LSB, for the last layer, weights of 16 bits in the "
        "forward pass (QZO-FF: linear probing with 16w8a)",
        TrainSettings,
        _frozen(rule="sign", distribution=Distribution.gaussian(0.5)),
        _frozen(trainable="last:1", wide="last", update_bits=16),
    ),
)

#: By name, the default first.
ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType({a.name: a for a in _ALL})


def algorithm(name: str) -> Algorithm:
    """The algorithm of a name.

    Raises:
        SettingsError: there is none; the message lists them.
    """
    if name not in ALGORITHMS:
        raise SettingsError(f"algorithm: no {name!r}; there are {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def algorithm_of(metadata: ZoMetadata) -> Algorithm:
    """The algorithm that a ZO model was made for; where it does not say, node perturbation where it carries
    nodes, else weight perturbation.
    """
    return ALGORITHMS.get(metadata.algorithm) or ALGORITHMS["node" if metadata.nodes else "weight"]
