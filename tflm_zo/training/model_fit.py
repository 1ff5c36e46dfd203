"""Checks of a ZO model against the settings of a run."""

from __future__ import annotations

from typing import Final

from ..converters import ZoMetadata, ZoNodes
from ..converters.settings import parameters_of
from .checks import SettingsError, needs_injection
from .lowering import weight_command_words
from .plan import credited, exact_tail, plan_tasks, trained_tensors
from .rules import Bits
from .settings import Settings
from .tasks import Exact, Weights

# Sums of products with an input are of 32 bits (D of zo_node_update.h).
_SUM_MAX: Final = 2**31 - 1


def check_model(settings: Settings, metadata: ZoMetadata) -> None:
    """Checks a model before a run; raises SettingsError, which names the options of `inject` that help."""
    if settings.batch_size % metadata.batch:
        raise SettingsError("batch_size", f"be a multiple of the model's batch {metadata.batch}", settings.batch_size)
    tail = () if metadata.tail is None else metadata.tail.layers
    carrying = [*metadata.nodes, *(n for n in tail if n not in metadata.nodes)]
    layers = [metadata.trainable[n.trainable].layer for n in carrying]
    if not (carrying if settings.has(Exact) else metadata.nodes) and not settings.has(Weights):
        raise SettingsError(
            "model",
            "carry nodes",
            fix="Train it by weight perturbation, or inject the original model with",
            inject={"nodes": ...},
        )
    _check_headroom(settings, metadata)
    _check_parameters(settings, metadata, carrying)
    if settings.has(Exact):
        _check_exact(settings, metadata, layers)
    if not plan_tasks(settings, metadata, lambda _: 1.0):  # also checks `layers`
        _check_capacity(settings, metadata)
        return
    _check_bits(settings, metadata)
    _check_node_layers(settings, metadata, carrying)
    for name, task, known in (
        ("nodes.queries", settings.nodes, layers),
        ("weights.queries", settings.weights, list(dict.fromkeys(t.layer for t in metadata.trainable))),
    ):
        if unknown := [layer for layer in task.queries_by_layer if layer not in known]:
            raise SettingsError(name, f"name layers that are trained so ({', '.join(known)})", unknown[0])


def _check_headroom(settings: Settings, metadata: ZoMetadata) -> None:
    reach, task = settings.reach, settings.weights
    if reach > metadata.headroom:
        problem = f"move weights by at most the headroom {metadata.headroom} LSB, not by {reach} LSB"
        raise needs_injection("weights.perturbation", problem, task.perturbation, headroom=reach)


def _check_capacity(settings: Settings, metadata: ZoMetadata) -> None:
    """Raises SettingsError if the commands of weight perturbation do not fit the model."""
    task = settings.weights
    if task.items > metadata.max_queries:
        problem = f"fit the {metadata.max_queries} seeds of the model's commands"
        raise needs_injection("weights.queries", problem, task.queries_of(()), max_queries=task.items)
    left_out = set(range(len(metadata.trainable))) - set(trained_tensors(settings, metadata))
    if left_out:
        tensors = [metadata.trainable[i] for i in sorted(left_out)]
        names = ", ".join(f"the bias of {t.layer}" if t.bias else t.layer for t in tensors)
        problem = f"include {names}, because weight perturbation alone moves all trainable tensors of a model"
        raise SettingsError("layers", problem, settings.layers, "Inject the original model for this run")
    words = weight_command_words(settings)
    if words > metadata.command_words:
        problem = f"hold commands of {words} words, which this run needs, but holds {metadata.command_words}"
        raise needs_injection("model", problem, command_words=words)


def _check_bits(settings: Settings, metadata: ZoMetadata) -> None:
    """Raises SettingsError if a rule of bits cannot update the model's weights."""
    bits = settings.has(Weights) and isinstance(settings.weights.rule, Bits)
    exact = settings.has(Exact) and isinstance(settings.exact.rule, Bits)
    if (bits or exact) and metadata.update_bits != 8:
        problem = "have updates of 8 bits, because rule bits moves weights by whole LSB"
        raise needs_injection("model", problem, metadata.update_bits, update_bits=8)


def _check_parameters(settings: Settings, metadata: ZoMetadata, carrying: list[ZoNodes]) -> None:
    """Raises SettingsError if a task trains parameters that are not trainable in the model."""
    of_nodes = metadata.parameters if carrying else "all"
    for name, task, own in (
        ("nodes", settings.nodes, of_nodes),
        ("exact", settings.exact, of_nodes),
        ("weights", settings.weights, parameters_of(t.bias for t in metadata.trainable)),
    ):
        if settings.has(type(task)) and own not in ("all", task.parameters):
            problem = f"be {own!r}, the trainable parameters of the model"
            raise needs_injection(f"{name}.parameters", problem, task.parameters, parameters=task.parameters)


def _check_node_layers(settings: Settings, metadata: ZoMetadata, carrying: list[ZoNodes]) -> None:
    for nodes in carrying:
        layer = metadata.trainable[nodes.trainable].layer
        most = _SUM_MAX // (255 * credited(nodes)) // metadata.batch * metadata.batch
        if settings.batch_size > most:
            problem = f"be at most {most}, as sums over {credited(nodes)} positions of layer {layer} have 32 bits"
            raise SettingsError("batch_size", problem, settings.batch_size)


def _check_exact(settings: Settings, metadata: ZoMetadata, layers: list[str]) -> None:
    """Raises SettingsError if the last layers have no exact gradients."""
    tail = exact_tail(settings, metadata)
    if not tail:
        raise SettingsError(
            "model",
            "have a last FULLY_CONNECTED layer with nodes, whose outputs the loss reads, for exact gradients "
            f"(layers with nodes: {', '.join(layers)})",
        )
    last = settings.exact.last
    if isinstance(last, int) and len(tail) < last:
        names = ", ".join(metadata.trainable[n.trainable].layer for n in reversed(tail))
        of = (
            "the last layer of a model that was injected without a tail"
            if metadata.tail is None
            else "the layers of the tail that the model was injected with"
        )
        raise needs_injection("last", f"be at most {len(tail)}, {of} ({names})", last, tail=last)
