"""Reduces a run until it fits a device's RAM, in the order of the smallest loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator

from ..converters import InjectSettings, Model, read_metadata
from ..training.checks import SettingsError
from ..training.costs import SampleCosts
from ..training.injection import inject_settings
from ..training.lowering import LoweredRun
from ..training.settings import Settings
from ..training.trained_layers import trained_layers
from .boundaries import Boundaries
from .device_model import device_model
from .planning import plan_run
from .platforms import PLATFORMS
from .sizes import Ram, ram_within


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A run that fits."""

    model: Model  #: ZO model of the run.
    settings: Settings  #: settings of the run.
    run: LoweredRun  #: one step of the run.
    ram: Ram  #: RAM of the run.
    given_up: tuple[str, ...] = ()  #: description of the reductions.
    again: float = 0.0  #: forward passes of a step that compute activations again to save memory.


@dataclasses.dataclass(frozen=True)
class _Choice:
    """A choice: bits of an update, samples of a minibatch, the last layers; None: all layers."""

    bits: int
    minibatch: int
    layers: tuple[str, ...] | None


def fit(
    make: Callable[[Settings, int | None], Model],
    settings: Settings,
    ram: int,
    *,
    fixed: Collection[str] = (),
    platform: str = "cmake",
) -> Fitted:
    """Returns a run that fits a number of bytes of RAM.

    If the run does not fit, it is reduced in this order: errors in the arena, and inputs of layers that are
    computed again (exact gradients with one sample), which changes no result; 8-bit updates, which learn as
    well (docs/results.md); smaller minibatches, down to one sample, which learn as well, too; fewer layers.
    Earlier reductions are reverted if the final run has space for them.

    Args:
        make: function that returns the ZO model for settings and bits of an update (None: the run's own).
        settings: settings of the run.
        ram: bytes of RAM for a program that only trains.
        fixed: names of settings that stay as they are: "update_bits", "batch_size", "layers".
        platform: name of the build system.

    Raises:
        SettingsError: the run does not fit; the message has the smallest possible size.
        ConversionError: the model cannot be injected for the run.
    """
    return _Search(make, settings, ram, fixed, PLATFORMS[platform].static_memory).run()


@dataclasses.dataclass
class _Search:
    """The search of `fit`, with its arguments."""

    _make: Callable[[Settings, int | None], Model]
    _settings: Settings
    _ram: int
    _fixed: Collection[str]
    _static_memory: bool
    _sized: dict[_Choice, Fitted] = dataclasses.field(default_factory=dict)
    _models: dict[tuple[int | None, InjectSettings], Model] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        model, settings = self._model(self._settings, None), self._settings
        metadata = read_metadata(model)
        self._batch, self._names = metadata.batch, trained_layers(model, settings).layers
        self._whole = _Choice(metadata.update_bits, settings.batch_size, None)

    def run(self) -> Fitted:
        least = self._whole
        for choice in self._without_layers(self._whole):
            if self._fits(choice):
                return self._found(choice)
            least = choice
        for choice in self._fewer_layers(least):
            if self._fits(choice):
                return self._found(self._taken_back(choice))
            least = choice
        needs = self._size(least).ram.bytes
        what = "the run" if least == self._whole else _in_words(least, self._names)
        raise SettingsError(
            "ram",
            f"be at least {needs:,} bytes for {what}",
            self._ram,
            "Train fewer layers" if "layers" in self._fixed else "No run of this algorithm needs less",
        )

    def _without_layers(self, choice: _Choice) -> Iterator[_Choice]:
        """Yields the choices that train all layers, the best first."""
        yield choice
        if choice.bits == 16 and "update_bits" not in self._fixed:
            choice = dataclasses.replace(choice, bits=8)
            yield choice
        # Weight perturbation keeps nothing of a minibatch.
        while self._size(self._whole).run.tasks and "batch_size" not in self._fixed:
            choice = dataclasses.replace(choice, minibatch=choice.minibatch // 2)
            if choice.minibatch < 1 or choice.minibatch % self._batch:
                break
            yield choice

    def _fewer_layers(self, choice: _Choice) -> Iterator[_Choice]:
        if "layers" not in self._fixed:
            for count in range(len(self._names) - 1, 0, -1):
                yield dataclasses.replace(choice, layers=self._names[-count:])

    def _taken_back(self, choice: _Choice) -> _Choice:
        """Returns the choice with the largest minibatch that fits, and with 16 bits if they fit as well."""
        largest = dataclasses.replace(choice, minibatch=self._whole.minibatch)
        while not self._fits(largest):
            largest = dataclasses.replace(largest, minibatch=largest.minibatch // 2)
        whole = dataclasses.replace(largest, bits=self._whole.bits)
        return whole if self._fits(whole) else largest

    def _fits(self, choice: _Choice) -> bool:
        return self._size(choice).ram.bytes <= self._ram

    def _size(self, choice: _Choice) -> Fitted:
        if choice not in self._sized:
            self._sized[choice] = self._sizing(choice)
        return self._sized[choice]

    def _sizing(self, choice: _Choice) -> Fitted:
        settings = dataclasses.replace(self._settings, batch_size=choice.minibatch)
        if choice.layers is not None:
            settings = dataclasses.replace(settings, layers=choice.layers)
        model = self._model(settings, choice.bits)
        metadata = read_metadata(model)
        device = device_model(model, plan_run(model, settings, steps=1, samples=1))
        ram, own = ram_within(model, metadata, device, self._ram, static_memory=self._static_memory)
        again = Boundaries(model, metadata, own).rerun_macs / SampleCosts(model, metadata).forward
        return Fitted(model, settings, own.plan, ram, again=again)

    def _model(self, settings: Settings, bits: int | None) -> Model:
        key = bits, inject_settings(settings)  # a layer-wise run leaves layers out that its model has
        if key not in self._models:
            self._models[key] = self._make(settings, bits)
        return self._models[key]

    def _found(self, choice: _Choice) -> Fitted:
        given_up, whole, memory = list[str](), self._whole, self._size(choice).run.memory
        if memory.shares_arena:
            given_up.append("inference during a step, whose errors take the memory of activations")
        if memory.recomputed:
            given_up.append(f"the kept inputs of {len(memory.recomputed)} segments (computed again)")
        if choice.bits != whole.bits:
            given_up.append("16-bit updates (8 bits, rounded at random)")
        if choice.minibatch != whole.minibatch:
            given_up.append(f"minibatches of {whole.minibatch} ({choice.minibatch})")
        if choice.layers is not None:
            left_out = len(self._names) - len(choice.layers)
            given_up.append(f"the first {left_out} of {len(self._names)} layers ({', '.join(choice.layers)})")
        return dataclasses.replace(self._size(choice), given_up=tuple(given_up))


def _in_words(choice: _Choice, names: tuple[str, ...]) -> str:
    layers = names if choice.layers is None else choice.layers
    return f"{', '.join(layers)} with {choice.bits}-bit updates and minibatches of {choice.minibatch}"
