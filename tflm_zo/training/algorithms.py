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
from .node_settings import NodeSettings
from .settings import SettingsError, TrainSettings

__all__ = ["ALGORITHMS", "Algorithm", "algorithm", "algorithm_of"]


@dataclass(frozen=True)
class Algorithm:
    """A way of training.

    Attributes:
        name: what people write.
        summary: one line, with where it was published.
        settings: class of its settings, which says what is perturbed.
        defaults: where its defaults differ from the class's.
        injection: where what it needs of `inject` differs from the defaults of `InjectSettings`.
    """

    name: str
    summary: str
    settings: type[NodeSettings] | type[TrainSettings]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    injection: Mapping[str, Any] = field(default_factory=dict)

    @property
    def perturbs_nodes(self) -> bool:
        """Whether it needs a model that was injected with nodes."""
        return self.settings is NodeSettings

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

    def inject_settings(self, **given: Any) -> InjectSettings:
        """How `inject` prepares a model for it.

        Args:
            **given: settings that differ from what it asks for.

        Raises:
            ConversionError: a value is out of range.
            SettingsError: nodes are given, which it does not perturb.
        """
        if given.get("nodes") and not self.perturbs_nodes:
            raise SettingsError(f"nodes: algorithm {self.name} perturbs weights, not nodes")
        return InjectSettings(**{**self.injection, **given})


_ALL: Final = (
    Algorithm(
        "node",
        "perturbs layers' outputs, each sample's in a direction of its own (Poor Man's Training on MCUs, "
        "sec. 3.2)",
        NodeSettings,
        # Weights themselves are never perturbed and nothing is replayed: the exact outputs of the original,
        # no operator that would not run, no RAM for layers that stay as they are.
        injection=MappingProxyType({"trainable": "nodes", "nodes": "auto", "head_room": 0, "replay": False}),
    ),
    Algorithm(
        "weight",
        "perturbs all weights at once (SPSA, Spall 1992)",
        TrainSettings,
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
    """The algorithm that a ZO model was made for: node perturbation where it carries nodes."""
    return ALGORITHMS["node" if metadata.nodes else "weight"]
