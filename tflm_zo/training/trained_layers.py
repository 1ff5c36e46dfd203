"""A description of the part of a network that a run trains."""

from __future__ import annotations

from dataclasses import dataclass

from ..converters import Model, read_metadata
from ..converters.kernels import weights_of
from .plan import trained_tensors
from .setting_texts import written
from .settings import Settings
from .tasks import Exact, Nodes, Weights

_NAMED = 6  # layers that a sentence names

_WHERE_TO_READ_ON = " (inspect says why, of a plain model with --nodes; --algorithm weight trains all)"


@dataclass(frozen=True)
class TrainedLayers:
    """The layers of a network that a run trains."""

    layers: tuple[str, ...]  #: names of the layers that are trained, in execution order.
    of_layers: int  #: number of all layers that have weights.
    weights: int  #: number of the weights that are trained.
    of_weights: int  #: number of the weights of all layers.
    sentence: str  #: one sentence that names the trained layers and explains why others are not trained.
    biases: int = 0  #: number of the biases that are trained.


def trained_layers(model: Model, settings: Settings) -> TrainedLayers:
    """Returns the layers that a run trains. Raises SettingsError if it could not train one of `layers`."""
    metadata = read_metadata(model)
    chosen = trained_tensors(settings, metadata)
    operators = (op for graph in model.subgraphs for op in graph.operators)
    sizes = {t.name: t.size for op in operators for t in weights_of(op)}
    trained = [metadata.trainable[i] for i in chosen]
    layers = tuple(dict.fromkeys(t.layer for t in trained))
    weights = sum(t.size for t in trained if not t.bias)
    biases = sum(t.size for t in trained if t.bias)
    total, of_weights = len(sizes), sum(sizes.values())
    share = 100 * weights / of_weights if of_weights else 0.0
    many = f"{layers[0]} … {layers[-1]}" if len(layers) > _NAMED else ", ".join(layers)
    part = f"{_percent(share)} of the weights"
    if biases:
        part = f"{part} and {biases:,} biases" if weights else f"{biases:,} biases alone"
    sentence = f"trains {len(layers)} of {total} layers ({part})"
    if layers and len(layers) < total:
        sentence += f": {many}"
    sentence += _about_others(total - len(layers), settings, bool(metadata.nodes))
    return TrainedLayers(layers, total, weights, of_weights, sentence, biases)


def _about_others(others: int, settings: Settings, has_nodes: bool) -> str:
    if not others:
        return ""
    one = others == 1
    if settings.layers is not None:
        return "; the other is left out" if one else f"; the other {others} are left out"
    if settings.has(Exact) and not settings.has(Nodes) and not settings.has(Weights):
        lie = "lies" if one else "lie"
        return f"; {others} {lie} before the part that exact.last={written(settings.exact.last)} trains"
    if has_nodes and not settings.has(Weights):
        carry = "carries no nodes" if one else "carry no nodes"
        return f"; {others} {carry}, most often for too many outputs to tell apart{_WHERE_TO_READ_ON}"
    return "; the other stays as it is" if one else f"; the other {others} stay as they are"


def _percent(share: float) -> str:
    """Returns a percentage with two digits; 0 and 100 are exact."""
    if share in (0.0, 100.0):
        return f"{share:.0f} %"
    return f"{min(share, 99.9):.1f} %" if share < 1 or share > 99 else f"{share:.0f} %"
