"""Published algorithms, as functions that return the settings of a run.

To add one, write a function and list it in ``_ALL``. The command line takes its name and the first sentence
of its docstring from there, and docs/generate_algorithms.py makes a page in docs/algorithms of each.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypedDict

from ..converters import ZoMetadata
from ..converters.selections import Last
from ..converters.settings import parameters_of
from ..core import Coordinate, Distribution, Gaussian, Rademacher, SparseUniform
from .checks import SettingsError
from .rules import Bits, Gradient, PerError, Sign, Standardized
from .schedules import Constant, Cosine, Schedule
from .setting_texts import BESIDES, changed, parse_set, run_of
from .settings import Estimator, Settings
from .tasks import Exact, Nodes, Weights

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The site documents these names, and the functions of ALGORITHMS.
__all__ = ["ALGORITHMS", "DEFAULT", "algorithm", "algorithm_for", "algorithm_of", "summary", "usual_settings"]


class RunSettings(TypedDict, total=False):
    """Fields of `Settings` that every algorithm takes."""

    batch_size: int
    learning_rate: float | None
    schedule: Schedule
    estimator: Estimator
    step_clip: float
    stages: tuple[float, ...]
    layers: Last | str | tuple[str, ...] | None
    snapshot_every: int | None
    sync_every: float | None
    seed: int


_SIGNS: Final = Rademacher(1)


def _settings(name: str, *tasks: Nodes | Exact | Weights, run: RunSettings, **usual: Any) -> Settings:
    return Settings(tasks=tasks, algorithm=name, **{**usual, **run})


def node(
    *, queries: int | Mapping[str, int] | None = None, perturbation: int = 1, **run: Unpack[RunSettings]
) -> Settings:
    """Node perturbation: the outputs of each layer are perturbed, each sample's in a direction of its own
    (Poor Man's Training on MCUs, sec. 3.2).

        d = L(y + mu z) - L(y - mu z),    G = sum of d z a^T,    W <- W - rate G / rms(G)

    References:
        Y. Zhao, H. Li, I. Young, Z. Zhang: Poor Man's Training on MCUs, 2024. arXiv 2411.05873, sec. 3.2.1
    """
    return _settings("node", Nodes(queries=queries, perturbation=perturbation), run=run)


def weight(*, queries: int = 1, perturbation: Distribution = _SIGNS, **run: Unpack[RunSettings]) -> Settings:
    """Weight perturbation: all weights are perturbed at once (SPSA, Spall 1992).

        d = L(w + z) - L(w - z),    w <- w - rate d / rms(d) z

    References:
        J. C. Spall: Multivariate Stochastic Approximation Using a Simultaneous Perturbation Gradient
        Approximation, IEEE Transactions on Automatic Control 37 (3), 1992. doi 10.1109/9.119632
    """
    task = Weights(queries=queries, perturbation=perturbation)
    return _settings("weight", task, run=run, batch_size=64)


def layer(*, queries: int | Mapping[str, int] = 1, **run: Unpack[RunSettings]) -> Settings:
    """Layer-wise weight perturbation: the weights of one layer after the other are perturbed, each from its
    own inputs on.

        d = L(w + z) - L(w - z),    w <- w - rate d / rms(d) z,    z = 0 but for one layer

    References:
        Y. Zhao, H. Li, I. Young, Z. Zhang: Poor Man's Training on MCUs, 2024. arXiv 2411.05873, sec. 3.2.2
    """
    return _settings("layer", Weights(queries=queries, scope="layers"), run=run, batch_size=32)


def poor_mans_training(*, queries: int = 8, **run: Unpack[RunSettings]) -> Settings:
    """The nodes or the weights of each layer, whichever are fewer, are perturbed to one side, and rates are
    scaled by NQ/(NQ+d-1)/s² (Poor Man's Training on MCUs).

        d = L(x + mu z) - L(x),    W <- W - rate N Q / (N Q + d - 1) / s^2 G_mean    (eq. 8, 11)

    The paper has minibatches of 100 and 100 queries (sec. 4.1). Here a minibatch is whole invokes, of 32
    samples where a plain model is made trainable, and a step has 32 queries at most; with 8 of them a budget
    is good for four times as many steps, and a minibatch of nodes has 768 directions.

    References:
        Y. Zhao, H. Li, I. Young, Z. Zhang: Poor Man's Training on MCUs, 2024. arXiv 2411.05873
    """
    rule = Gradient(gradient_norm=True, quantization_aware=True)
    return _settings(
        "poor-mans-training",
        Nodes(queries=queries, perturbation=1, rule=rule),
        Weights(queries=queries, perturbation=Rademacher(1), rule=rule, scope="layers", headroom=1),
        run=run,
        batch_size=96,
        estimator="one-sided",
        learning_rate=0.04,
        schedule=Cosine(),
        step_clip=255.0,
    )


def qzo_ff(**run: Unpack[RunSettings]) -> Settings:
    """All weights, which have 16 bits, move by the signs of loss differences along 8-bit Gaussian directions
    (QZO-FF: sign-m-SPSA).

        w <- w - rate / Q sum of sign(L(w + z) - L(w - z)) z    (Alg. 1)

    References:
        C. Feng et al.: Stepping Forward on the Last Mile, NeurIPS 2024. arXiv 2411.04036
    """
    task = Weights(perturbation=Gaussian(1.0), rule=Sign(), headroom=4)
    return _settings("qzo-ff", task, run=run, batch_size=64)


def exact(**run: Unpack[RunSettings]) -> Settings:
    """All layers that errors reach have their exact gradients, by backpropagation in integers.

        W <- W - rate G / rms(G / E),    G = e a^T

    e are errors of a layer's outputs, a its inputs, E the root mean square of the error of the model's output, p - y.
    Steps of right answers are short, and those of wrong ones at most about the rate long. For the mean squared error,
    E is 1. Errors are 16-bit integers with an exponent for each sample and tensor. `layers` trains fewer layers.

    References:
        M. Wang et al.: NITI: Training Integer Neural Networks Using Integer-only Arithmetic, IEEE Transactions
        on Parallel and Distributed Systems 33 (11), 2022. arXiv 2009.13108
    """
    return _settings("exact", Exact(last="all", rule=PerError(), parameters="all"), run=run, batch_size=1)


def last_layer() -> Settings:
    """The last layer alone has its exact gradient; see `node` with ``Exact(last=1)``. It has no name of its own."""
    return dataclasses.replace(node(), tasks=(Nodes(), Exact(last=1)), layers=Last(1))


def elastic_zo(*, last: int = 1, **run: Unpack[RunSettings]) -> Settings:
    """The weights of the first layers are perturbed together, and the last layers have their exact gradients
    (ElasticZO).

        first: w <- w - rate d / rms(d) z,    last: W <- W - rate G / rms(G),    G = (softmax - one-hot) a^T

    The paper's rate is tuned for each model and falls by 0.8 every 10 of 100 epochs, its gradient is clipped
    (sec. 5.1.1). Here differences count relative to their running RMS, clipped at three times it, which takes
    one rate for all models, and the rate falls to 0 by the end of a run of any length.

    References:
        K. Sugiura, H. Matsutani: ElasticZO, 2025. arXiv 2501.04287, Alg. 1
    """
    return _settings("elastic-zo", Weights(perturbation=Gaussian(1.0)), Exact(last=last), run=run, batch_size=32)


def elastic_zo_int8(*, last: int = 1, **run: Unpack[RunSettings]) -> Settings:
    """The weights of the first layers move by signs along sparse uniform directions, and the last layers by
    exact gradients that are rounded to few bits (ElasticZO-INT8).

        first: w <- w - sign(d) round(z),    last: W <- W - round(G), to 5, 4 and 3 bits    (Alg. 2)

    References:
        K. Sugiura, H. Matsutani: ElasticZO, 2025. arXiv 2501.04287
    """
    weights = Weights(perturbation=SparseUniform(15, 0.33), rule=Bits(1), stage_p_zero=(0.5, 0.9))
    exact = Exact(last=last, rule=Bits((5, 4, 3)))
    return _settings("elastic-zo-int8", weights, exact, run=run, batch_size=256, stages=(0.2, 0.5))


def fqt(*, last: int = 2, **run: Unpack[RunSettings]) -> Settings:
    """The last layers alone are trained, by quantized backpropagation: gradients are standardized, and only
    the outputs with the largest errors are updated (On-Device Training of Fully Quantized DNNs).

        W <- W - rate (G - mean(G)) / std(G)

    The poster names no rate: 0.1 LSB is the standard deviation of a layer's first step.

    References:
        M. Deutel, F. Hannig, C. Mutschler, J. Teich: On-Device Training of Fully Quantized Deep Neural
        Networks on Cortex-M Microcontrollers, 2024. arXiv 2407.10734
    """
    task = Exact(last=last, rule=Standardized(), rows=(0.1, 1.0))
    return _settings("fqt", task, run=run, batch_size=32, learning_rate=0.1)


def mezo(*, queries: int = 1, gradient_norm: bool = False, **run: Unpack[RunSettings]) -> Settings:
    """All weights are perturbed at once along Gaussian directions, with plain gradient steps (MeZO).

        w <- w - rate (L(w + mu z) - L(w - mu z)) / (2 mu) z    (Alg. 1)

    References:
        S. Malladi et al.: Fine-Tuning Language Models with Just Forward Passes, NeurIPS 2023.
        arXiv 2305.17333
    """
    task = Weights(perturbation=Gaussian(1.0), queries=queries, rule=Gradient(gradient_norm=gradient_norm), headroom=4)
    return _settings("mezo", task, run=run, batch_size=64, learning_rate=100.0, schedule=Constant())


def deepzero(*, queries: int = 32, **run: Unpack[RunSettings]) -> Settings:
    """Some weights of every layer, drawn at random, are perturbed one by one, each from its layer on
    (DeepZero: coordinate-wise estimation).

        w_i <- w_i - rate d_i / rms(d),    d_i = L(w + mu e_i) - L(w - mu e_i)

    Finite differences of single weights differ between layers and along a run: over their running RMS one
    rate serves all layers, where plain steps, as DeepZero's, would need one for each.

    References:
        A. Chen et al.: DeepZero: Scaling Up Zeroth-Order Optimization for Deep Model Training, ICLR 2024.
        arXiv 2310.02025
    """
    task = Weights(perturbation=Coordinate(2), queries=queries, scope="layers")
    return _settings("deepzero", task, run=run, batch_size=32, learning_rate=128.0)


_ALL: Final[tuple[Callable[..., Settings], ...]] = (
    node,
    weight,
    layer,
    exact,
    poor_mans_training,
    qzo_ff,
    elastic_zo,
    elastic_zo_int8,
    fqt,
    mezo,
    deepzero,
)

#: Algorithms by name, the default first.
ALGORITHMS: Final[Mapping[str, Callable[..., Settings]]] = MappingProxyType(
    {function.__name__.replace("_", "-"): function for function in _ALL}
)
#: Name of the algorithm that is used where none is named.
DEFAULT: Final = next(iter(ALGORITHMS))


def algorithm(name: str) -> Settings:
    """Returns the settings of the algorithm of a name; raises SettingsError, which lists all names, for another."""
    if name not in ALGORITHMS:
        raise SettingsError("algorithm", f"be one of {', '.join(ALGORITHMS)}", name)
    return ALGORITHMS[name]()


def summary(name: str) -> str:
    """Returns the first sentence of an algorithm's docstring, on one line."""
    text = inspect.getdoc(ALGORITHMS[name]) or ""
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def algorithm_of(metadata: ZoMetadata) -> str:
    """Returns the name of a ZO model's algorithm; without a name, "node" if it carries nodes, else "weight"."""
    if metadata.algorithm in ALGORITHMS:
        return metadata.algorithm
    return "node" if metadata.nodes else "weight"


def algorithm_for(metadata: ZoMetadata, name: str | None = None) -> Settings:
    """Returns the settings of an algorithm for a ZO model: its tasks train the trainable parameters of the model's
    layers.

    Of the algorithm that the model was made for (`name` None), these are the settings of its run, if the model keeps
    them. Raises SettingsError, which lists the algorithms, for an unknown name.
    """
    settings = algorithm(algorithm_of(metadata) if name is None else name)
    of_weights, of_nodes = parameters_of(t.bias for t in metadata.trainable), metadata.parameters
    tasks = (
        dataclasses.replace(t, parameters=of_weights if isinstance(t, Weights) else of_nodes) for t in settings.tasks
    )
    settings = dataclasses.replace(settings, tasks=tuple(tasks))
    if name not in (None, algorithm_of(metadata)):
        return settings
    texts = {key.replace("-", "_"): text for key, text in run_of(metadata).items() if key not in BESIDES}
    return changed(settings, parse_set(settings, texts))


def usual_settings(metadata: ZoMetadata) -> Settings:
    """Returns the settings of the algorithm that a ZO model was made for, with a minibatch that fits it."""
    return with_fitting_minibatch(algorithm_for(metadata), metadata)


def with_fitting_minibatch(settings: Settings, metadata: ZoMetadata) -> Settings:
    """Returns settings whose minibatch is rounded down to a multiple of the model's batch, at least one."""
    return dataclasses.replace(settings, batch_size=max(settings.batch_size // metadata.batch, 1) * metadata.batch)
