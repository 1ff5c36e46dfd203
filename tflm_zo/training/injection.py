"""The conversion of a plain int8 model to the ZO model that a run needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..converters import ConversionError, InjectSettings, Model, inject
from ..converters.constants import METADATA_NAME
from ..converters.settings import LAYERS, InjectChanges
from ..converters.states import is_streaming
from . import algorithms
from .checks import SettingsError
from .lowering import weight_command_words
from .rules import Bits
from .settings import Settings
from .tasks import Exact, Nodes, Weights

if TYPE_CHECKING:
    from typing_extensions import Unpack

BATCH: Final = 32  # samples per invoke of a plain model, at most


class TrainingWarning(UserWarning):
    """A run does not do what a user may expect; the message says how and why."""


def is_zo(model: Model) -> bool:
    """Returns whether a model is a ZO model."""
    return model.find_metadata(METADATA_NAME) is not None


def own_batch(model: Model) -> int:
    """Returns the batch size of a plain model; 1 if it has no inputs."""
    inputs = model.subgraphs[0].inputs if model.subgraphs else []
    return max(inputs[0].shape[0], 1) if inputs and inputs[0].shape else 1


def inject_settings(settings: Settings, **given: Unpack[InjectChanges]) -> InjectSettings:
    """Derives the settings of `inject` from those of a run.

    Args:
        settings: settings of the run.
        **given: settings of `inject` that override the derived ones.

    Raises:
        ConversionError: a value is out of range.
        SettingsError: `nodes` names layers, and no task perturbs nodes.
    """
    takes_nodes = settings.has(Nodes) or settings.has(Exact)
    if given.get("nodes") and not takes_nodes:
        raise SettingsError("nodes", f"be left out, since algorithm {settings.algorithm} perturbs weights")
    asked: dict[str, Any] = {"algorithm": settings.algorithm}
    if given.get("trainable") == "none":
        return InjectSettings(**asked, **given)
    if not settings.has(Nodes):
        asked["nodes"] = ()
    if settings.has(Exact):
        asked["tail"] = settings.exact.last
    own = {t.parameters for t in settings.tasks}
    # Errors come back through filters, which must be where a step reads them.
    one = len(own) == 1 and not (settings.has(Exact) and settings.exact.last != 1 and "biases" in own)
    asked["parameters"] = own.pop() if one else "all"
    if settings.has(Weights):
        asked |= {"trainable": "all", "headroom": max(settings.weights.headroom, settings.reach)}
        if settings.weights.scope == "layers":
            asked["cuts"] = (LAYERS,)
    if not settings.is_layerwise:
        asked["replay"] = True  # the log has seeds
        asked["max_queries"] = max(InjectSettings().max_queries, settings.weights.items)
        words = weight_command_words(settings)
        if words > InjectSettings(max_queries=asked["max_queries"]).words:
            asked["command_words"] = words
        if settings.layers is not None:
            asked["trainable"] = settings.layers
    if isinstance(settings.weights.rule, Bits) or isinstance(settings.exact.rule, Bits):
        asked["update_bits"] = 8
    return InjectSettings(**{**asked, **given})


def trainable_model(
    model: Model,
    settings: Settings | None,
    changed: Callable[[Settings], Settings] = lambda settings: settings,
    **given: Unpack[InjectChanges],
) -> tuple[Model, Settings]:
    """Injects a plain model for a run, and returns the ZO model and the settings of the run, which `changed` changes
    first. Without settings this is node perturbation; weight perturbation of a streaming model or, with a warning,
    where no layer can carry nodes. Other arguments and errors are those of `inject_for`.
    """
    usual = algorithms.weight() if is_streaming(model) else algorithms.node()
    wanted = changed(usual if settings is None else settings)
    try:
        return inject_for(model, wanted, **given), wanted
    except ConversionError as error:
        if settings is not None or given.get("nodes"):
            raise
        weights = changed(algorithms.weight())
        result = inject_for(model, weights, **given)
        message = f"training by weight perturbation, not by node perturbation: {error}"
        warnings.warn(message, TrainingWarning, stacklevel=3)
        return result, weights


def inject_for(model: Model, settings: Settings, **given: Unpack[InjectChanges]) -> Model:
    """Injects a plain model for a run, and returns the ZO model. Raises ConversionError if that is not possible.

    Args:
        model: a plain model; it is not changed.
        settings: settings of the run. The model's batch becomes the largest divisor of the minibatch up to 32, unless
            the model has a batch other than 1 or an operator that needs a batch of 1.
        **given: settings of `inject`, `batch` included, that override the derived ones.
    """
    largest = max(b for b in range(1, BATCH + 1) if settings.batch_size % b == 0)
    batch = given.get("batch", largest)
    return inject_plain(model, inject_settings(settings, **given), batch)


def inject_plain(model: Model, settings: InjectSettings, batch: int = BATCH) -> Model:
    """Injects a plain model, with a batch if the model's own is 1 and can be changed; raises ConversionError."""
    own = own_batch(model)
    if own == 1 and batch != 1:
        try:
            return inject(model, settings, batch=batch, export_batch=1)
        except ConversionError:
            pass  # an operator may tie the model to its batch; anything else is said again below
    return inject(model, settings, batch=own)
