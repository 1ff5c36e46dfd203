# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The alternatives: ways to adapt a network on a microcontroller without tflm_zo."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from learners import SOURCES, Sources
from networks import Array, FloatNetwork, embedding_model, floats, last_layer, network_data

from tflm_zo import exact_delegate, recalibrate
from tflm_zo.converters import load_model
from tflm_zo.converters.model import Model
from tflm_zo.data.levels import real_samples

sys.path.insert(0, str(Path(__file__).parents[1] / "learning"))
from old_statistics import with_old_statistics
from task import Labelled, Task
from tasks import TASKS

__all__ = ["ALTERNATIVES", "FAMILIES", "LONG", "Alternative", "Family", "Target"]


@dataclass(frozen=True)
class Family:
    """Tasks with the same network: settings are chosen on validation samples of some and measured on the targets."""

    label: str
    chosen_on: tuple[str, ...]
    targets: tuple[str, ...]


def _numbered(name: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in numbers)


FAMILIES = {
    "watch": Family("watch (Conv1D)", _numbered("watch", 4, 5, 6), _numbered("watch", 7, 8, 9)),
    "speech": Family("speech (DS-CNN)", _numbered("speech", 21, 22, 24, 26), _numbered("speech", 23, 25, 27)),
    "gas": Family("gas (dense)", _numbered("gas", 5), _numbered("gas", 4, 6, 8)),
    "mnist": Family("rotated MNIST (LeNet-5)", ("rotated",), ("rotated",)),
    "cifar": Family("CIFAR-10 in fog (ResNet-8)", ("cifar-fog",), ("cifar-fog",)),
    "vww": Family("animals or vehicles (VWW)", ("vww",), ("vww",)),
    "mobilenet": Family("CIFAR-10 in fog (MobileNetV2 x 0.35)", ("mobilenet-fog",), ("mobilenet-fog",)),
}
#: Families of larger networks. Their costs on a device are measured, but their accuracies only on request.
LONG = ("cifar", "vww", "mobilenet")


class Target:
    """A task with the first pre-training, as the alternatives see it.

    Args:
        name: of the task.
        folder: of pre-trained models.
        recalibrated: whether a desktop recalibrates the network with the task's samples first.
    """

    def __init__(self, name: str, folder: Path, recalibrated: bool = False) -> None:
        self.name, self.task = name, _task(name, folder)
        self.model: Model = load_model(self.task.model)
        if recalibrated:
            old = with_old_statistics(self.model, self.task.keras, self.task.calibration)
            self.model = recalibrate(old, self.task.adapt[0]).model

    @cached_property
    def network(self) -> FloatNetwork:
        """The network in float32, for samples that are divided by `level`: its first filter has that factor."""
        made = FloatNetwork.of(self.model)
        first = made.layers[0]
        if self.level != 1 and first.filter is not None:
            first.filter = first.filter * np.float32(self.level)
        return made

    @property
    def level(self) -> float:
        """255 for a network that takes pixels of 0 to 255, else 1. Without it, its first layer bears smaller rates."""
        is_picture = self.task.adapt[0].dtype == np.uint8
        return 255.0 if is_picture and float(self.units(np.array([255], np.uint8))[0]) == 255 else 1.0

    def units(self, x: Any) -> Any:
        """Returns samples in the units of the model's input."""
        quantization = self.model.only_graph.inputs[0].quantization
        assert quantization is not None
        return real_samples(x, quantization.scale, quantization.zero_point).astype(np.float32)

    @cached_property
    def last(self) -> FloatNetwork:
        return last_layer(self.model)

    @cached_property
    def embedding(self) -> tuple[Model, float, int]:
        return embedding_model(self.model)

    @property
    def stored(self) -> int:
        """Number of samples that the device adapts on."""
        return len(self.task.adapt[1])

    def inputs(self, x: Any) -> Any:
        """Quantizes samples as int8 input of the model."""
        quantization = self.model.only_graph.inputs[0].quantization
        assert quantization is not None
        levels = np.round(self.units(x) / np.float32(quantization.scale)) + quantization.zero_point
        return np.clip(levels, -128, 127).astype(np.int8).reshape(-1, *self.model.only_graph.inputs[0].shape[1:])

    def embeddings(self, part: Labelled) -> Labelled:
        """Computes int8 embeddings of labelled samples, as TFLM does."""
        interpreter = Interpreter(
            model_content=self.embedding[0].to_bytes(),
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_delegates=[exact_delegate()],
        )
        interpreter.allocate_tensors()
        into, out = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
        found = []
        for sample in self.inputs(part[0]):
            interpreter.set_tensor(into, sample[None])
            interpreter.invoke()
            found.append(interpreter.get_tensor(out).ravel())
        return np.array(found), part[1]

    def divided(self, part: Labelled) -> Labelled:
        """Returns samples as `network` takes them."""
        return self.units(part[0]) / np.float32(self.level), part[1]

    def real(self, part: Labelled) -> Labelled:
        """Returns embeddings as float32."""
        _, scale, zero_point = self.embedding
        return (part[0].astype(np.float32) - np.float32(zero_point)) * np.float32(scale), part[1]


def _task(name: str, folder: Path) -> Task:
    return TASKS[name](folder, 0)


@dataclass(frozen=True)
class Alternative:
    """One way.

    Attributes:
        summary: one line.
        sources: makes its sources for a target.
        whole: whether it trains the whole network, not a classifier of embeddings.
        neighbours: of nearest neighbours, their number; 0: it learns with a rate.
        families: that it can train; None: all.
        checkout: environment variable of a checkout that it needs.
        recalibrated: whether it begins with a recalibrated network.
    """

    summary: str
    sources: Callable[[Target], Sources]
    whole: bool = False
    neighbours: int = 0
    families: tuple[str, ...] | None = None
    checkout: str = ""
    recalibrated: bool = False

    def why_not(self) -> str | None:
        """Returns the reason why it cannot be built, or None."""
        if not self.checkout or os.environ.get(self.checkout):
            return None
        return f"{self.checkout} IS NOT SET, THE FOLDER OF A CHECKOUT: LEFT OUT"


def _backpropagation(network: FloatNetwork) -> Sources:
    files = SOURCES / "backpropagation.c", SOURCES / "network.c"
    return Sources(files, {"network_data.h": '#include "network.h"\n' + network_data(network)})


def _head_data(target: Target, **more: int) -> str:
    inputs, classes = target.last.sizes
    sizes = {"INPUTS": inputs, "CLASSES": classes, "SAMPLES": target.stored, **more}
    return "".join(f"#define LEARNER_{name} {value}\n" for name, value in sizes.items())


def _nearest(neighbours: int) -> Callable[[Target], Sources]:
    def sources(target: Target) -> Sources:
        data = _head_data(target, NEIGHBOURS=neighbours)
        return Sources((SOURCES / "nearest_neighbours.c",), {"learner_data.h": data}, value=np.int8)

    return sources


_DSP_FUNCTIONS = (
    *("BasicMathFunctions/arm_add_f32", "BasicMathFunctions/arm_offset_f32", "BasicMathFunctions/arm_scale_f32"),
    *("BasicMathFunctions/arm_sub_f32", "FastMathFunctions/arm_vexp_f32", "MatrixFunctions/arm_mat_init_f32"),
    *("MatrixFunctions/arm_mat_vec_mult_f32", "StatisticsFunctions/arm_accumulate_f32"),
    "StatisticsFunctions/arm_max_f32",
)


def _cmsis_dsp(target: Target) -> Sources:
    checkout = Path(os.environ["CMSIS_DSP_DIR"])
    (layer,) = target.last.layers
    assert layer.filter is not None and layer.bias is not None
    data = (
        _head_data(target)
        + f"static const float kFilter[] = {{{floats(layer.filter)}}};\n"
        + f"static const float kBias[] = {{{floats(layer.bias)}}};\n"
    )
    files = (SOURCES / "cmsis_dsp_head.c", *(checkout / "Source" / f"{name}.c" for name in _DSP_FUNCTIONS))
    # This definition makes its headers do without those of a core; the functions here have no other code for it.
    flags = (f"-I{checkout / 'Include'}", f"-I{checkout / 'PrivateInclude'}", "-D__GNUC_PYTHON__")
    return Sources(files, {"learner_data.h": data}, flags, own_warnings=False)


def _aifes(network: FloatNetwork, target: Target) -> Sources:
    checkout = Path(os.environ["AIFES_DIR"]) / "src"
    weights = list[Array]()
    for layer in network.layers:
        assert layer.filter is not None and layer.bias is not None
        weights += [layer.filter.T.ravel(), layer.bias]
    widths = network.sizes[1:]
    data = (
        f"#define LEARNER_INPUTS {network.sizes[0]}\n#define LEARNER_CLASSES {widths[-1]}\n"
        f"#define LEARNER_LAYERS {len(widths)}\n"
        f"static const uint32_t kWidths[] = {{{', '.join(map(str, widths))}}};\n"
        f"static const float kWeights[] = {{{floats(np.concatenate(weights))}}};\n"
    )
    own = sorted(path for folder in ("base", "default") for path in (checkout / "basic" / folder).rglob("*.c"))
    return Sources((SOURCES / "aifes_dense.c", *own), {"learner_data.h": data}, (f"-I{checkout}",), own_warnings=False)


ALTERNATIVES: dict[str, Alternative] = {
    "backpropagation": Alternative(
        "backpropagation in float32, plain C",
        lambda target: _backpropagation(target.network),
        whole=True,
    ),
    "aifes": Alternative(
        "backpropagation in float32, AIfES",
        lambda target: _aifes(target.network, target),
        whole=True,
        families=("gas",),
        checkout="AIFES_DIR",
    ),
    "head": Alternative("last layer in float32, plain C", lambda target: _backpropagation(target.last)),
    "head-aifes": Alternative(
        "last layer in float32, AIfES", lambda target: _aifes(target.last, target), checkout="AIFES_DIR"
    ),
    "head-cmsis-dsp": Alternative("last layer in float32, CMSIS-DSP", _cmsis_dsp, checkout="CMSIS_DSP_DIR"),
    "nearest-1": Alternative("nearest neighbour of int8 embeddings", _nearest(1), neighbours=1),
    "nearest-5": Alternative("five nearest neighbours of int8 embeddings", _nearest(5), neighbours=5),
}
ALTERNATIVES |= {
    f"recalibrated-{name}": dataclasses.replace(
        ALTERNATIVES[name], summary=f"recalibration, {ALTERNATIVES[name].summary}", families=LONG, recalibrated=True
    )
    for name in ("backpropagation", "head", "nearest-5")
}
"""By name: the alternatives, in the order of the tables."""
