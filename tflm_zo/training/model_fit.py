# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Checks that a ZO model can be trained as the settings of a run say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..converters import ZoMetadata, ZoNodes
from ..converters.settings import parameters_of
from ..core import Distribution, Gaussian
from .checks import SettingsError
from .lowering import weight_command_words
from .plan import credited, exact_tail, trained_tensors
from .settings import Settings
from .tasks import Exact, Weights

__all__ = ["check_model"]

# Sums of products with an input are of 32 bits (D of zo_node_update.h).
_SUM_MAX: Final = 2**31 - 1


def check_model(settings: Settings, metadata: ZoMetadata) -> None:
    """Checks a model before a run.

    Raises:
        SettingsError: the model does not fit the settings; the message says what to inject it with.
    """
    if settings.batch_size % metadata.batch:
        raise SettingsError(
            f"batch_size: expected a multiple of the model's batch {metadata.batch}, "
            f"got {settings.batch_size}"
        )
    tail = () if metadata.tail is None else metadata.tail.layers
    carrying = [*metadata.nodes, *(n for n in tail if n not in metadata.nodes)]
    layers = [metadata.trainable[n.trainable].layer for n in carrying]
    if settings.is_layerwise and not layers and not settings.has(Weights):
        raise SettingsError(
            "the model carries no nodes: inject it with nodes, or train it by weight perturbation"
        )
    _check_headroom(settings, metadata)
    _check_parameters(settings, metadata, carrying)
    if not settings.is_layerwise:
        _check_capacity(settings, metadata)
        return
    _check_bits(settings, metadata)
    _check_node_layers(settings, metadata, carrying)
    for name, task, known in (
        ("nodes.queries", settings.nodes, layers),
        ("weights.queries", settings.weights, list(dict.fromkeys(t.layer for t in metadata.trainable))),
    ):
        named = task.queries if isinstance(task.queries, Mapping) else ()
        if unknown := [layer for layer in named if layer not in known]:
            raise SettingsError(
                f"{name}: no layer {unknown[0]!r} is trained so; there are {', '.join(known)}"
            )
    if settings.has(Exact):
        _check_exact(settings, metadata, layers)


def _check_headroom(settings: Settings, metadata: ZoMetadata) -> None:
    reach, task = settings.reach, settings.weights
    if task.sharpness and any(t.int16 for t in metadata.trainable):
        reach = max(reach, _two_fine_reaches(task.perturbation))
    if reach > metadata.headroom:
        twice = " (sharpness: twice)" if task.sharpness else ""
        raise SettingsError(
            f"weights.perturbation: moves a weight by up to {reach} LSB{twice}, the model's headroom is "
            f"{metadata.headroom}; inject with headroom={reach}"
        )


def _two_fine_reaches(distribution: Distribution) -> int:
    """LSB, rounded up, by which two Gaussian perturbations in force move a weight of 16 bits, which does not
    round each to whole LSB.
    """
    if not isinstance(distribution, Gaussian):
        return 2 * distribution.reach
    return -(-2 * distribution.z_max * distribution.mu // 4096)


def _check_capacity(settings: Settings, metadata: ZoMetadata) -> None:
    """Raises SettingsError where the commands of weight perturbation do not fit the model."""
    task = settings.weights
    if task.items > metadata.max_queries:
        terms = f", times momentum_terms={task.momentum_terms}" if task.momentum > 0 else ""
        raise SettingsError(
            f"weights.queries: the model was injected with max_queries={metadata.max_queries}, "
            f"got {task.queries_of(())}{terms}; inject with max_queries={task.items}"
        )
    left_out = set(range(len(metadata.trainable))) - set(trained_tensors(settings, metadata))
    if left_out:
        tensors = [metadata.trainable[i] for i in sorted(left_out)]
        names = ", ".join(f"the bias of {t.layer}" if t.bias else t.layer for t in tensors)
        raise SettingsError(
            f"layers: the model trains {names}, too, and weight perturbation alone perturbs all that a "
            "model trains; make the run's model of the original one"
        )
    words = weight_command_words(settings)
    if words > metadata.command_words:
        raise SettingsError(
            f"this run needs commands of {words} words, the model was injected with command_words="
            f"{metadata.command_words}; inject with command_words={words}"
        )


def _check_bits(settings: Settings, metadata: ZoMetadata) -> None:
    """Raises SettingsError where a rule of bits cannot move the model's weights."""
    bits = settings.has(Weights) and settings.weights.rule == "bits"
    exact = settings.has(Exact) and settings.exact.rule == "bits"
    if (bits or exact) and metadata.update_bits != 8:
        raise SettingsError("a rule of bits moves weights by whole LSB: inject with update_bits=8")
    if bits and any(t.updated is not None for t in metadata.trainable):
        raise SettingsError("weights.rule: bits moves all weights of a layer: inject without sparse")


def _check_parameters(settings: Settings, metadata: ZoMetadata, carrying: list[ZoNodes]) -> None:
    """Raises SettingsError where a task trains what is not trainable in the model."""
    of_nodes = metadata.parameters if carrying else "all"
    for name, task, own in (
        ("nodes", settings.nodes, of_nodes),
        ("exact", settings.exact, of_nodes),
        ("weights", settings.weights, parameters_of(t.bias for t in metadata.trainable)),
    ):
        if settings.has(type(task)) and own not in ("all", task.parameters):
            raise SettingsError(
                f"{name}.parameters: the model's layers have {own!r} trainable, not "
                f"{task.parameters!r}; inject it with parameters={task.parameters!r}"
            )


def _check_node_layers(settings: Settings, metadata: ZoMetadata, carrying: list[ZoNodes]) -> None:
    for nodes in carrying:
        layer = metadata.trainable[nodes.trainable].layer
        if metadata.trainable[nodes.trainable].updated is not None:
            raise SettingsError(f"layer {layer} carries nodes, which move all weights: inject without sparse")
        most = _SUM_MAX // (255 * credited(nodes)) // metadata.batch * metadata.batch
        if settings.batch_size > most:
            raise SettingsError(
                f"batch_size: expected at most {most}, the samples that sums over the "
                f"{credited(nodes)} positions of layer {layer} hold, got {settings.batch_size}"
            )


def _check_exact(settings: Settings, metadata: ZoMetadata, layers: list[str]) -> None:
    """Raises SettingsError where the last layers have no exact gradients."""
    tail = exact_tail(settings, metadata)
    if not tail:
        raise SettingsError(
            "exact: needs a last FULLY_CONNECTED layer that carries nodes and whose outputs the loss reads; "
            f"the layers with nodes are {', '.join(layers)}"
        )
    last = settings.exact.last
    if isinstance(last, int) and len(tail) < last:
        names = ", ".join(metadata.trainable[n.trainable].layer for n in reversed(tail))
        of = (
            "the FULLY_CONNECTED layers with nodes at the end that feed each other"
            if metadata.tail is None
            else "the layers of the tail that the model was injected with"
        )
        raise SettingsError(
            f"last: expected at most {len(tail)}, {of} ({names}), got {last}; inject the original model with "
            f"tail={last}"
        )
    for nodes in tail[:-1]:
        filter_ = metadata.trainable[nodes.trainable]
        if filter_.bias:
            raise SettingsError(
                f"last: errors come back through the filter of layer {filter_.layer}, which the model has "
                'as a constant: inject it with parameters="all"'
            )
