# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The samples of a run: those that it is trained on, and those that it is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..data import Data, Labels, Samples, prepare
from ..runtime import Runtime
from .held_out import held_out_samples, hold_out, usual_held_out_samples
from .missing_classes import covered

__all__ = ["Given", "RunData", "Split"]

Given = Samples | tuple[Samples, Labels | None]
"""Samples that have their labels, or a tuple of samples and labels."""

Split = float | Literal["auto"]
"""Share of the samples that is held out, 0..1; "auto": a fifth, or none where that leaves a class without
samples on one side."""


@dataclass(frozen=True)
class RunData:
    """The samples of a run.

    Attributes:
        train: samples that are trained on, those of the rehearsal last.
        validation: samples that the run is judged by, or None: it is judged by `train`.
        samples: number of trained samples that are not of the rehearsal.
        held_out: number of samples that were held out of the given ones.
        too_few: True if "auto" held none out, since some class had too few samples.
        missing: names of the classes without a trained sample.
        constant: True if one constant answer is right for all samples that the run is judged by, so that
            accuracy says nothing.
    """

    train: Data
    validation: Data | None
    samples: int
    held_out: int
    too_few: bool
    missing: tuple[str, ...]
    constant: bool

    @classmethod
    def of(
        cls,
        runtime: Runtime,
        x: Samples,
        y: Labels | None = None,
        *,
        validation_data: Given | None = None,
        validation_split: Split = 0.0,
        rehearsal: Given | None = None,
        seed: int = 0,
    ) -> RunData:
        """Returns the samples of a run.

        Args:
            runtime: runtime with the loaded model, which has a loss.
            x: samples, as `Trainer.fit` takes them.
            y: labels, as `Trainer.fit` takes them.
            validation_data: samples that the run is judged by, or None.
            validation_split: share that is held out in every class alike, chosen by the seed.
            rehearsal: samples that the model knows, which are trained on, too, and held out alike.
            seed: seed of the choice.

        Raises:
            DataError: the data do not fit the model.
            SettingsError: the share leaves one side without a labelled sample.
            ValueError: both `validation_data` and `validation_split` are given.
        """
        if validation_data is not None and validation_split not in (0.0, "auto"):
            raise ValueError("validation_data, validation_split: give one of them")
        own, loss = prepare(runtime, x, y), runtime.metadata.loss
        assert loss is not None  # a trainer has refused such a model
        validation = None if validation_data is None else prepare(runtime, *_pair(validation_data))
        data = own if rehearsal is None else own + prepare(runtime, *_pair(rehearsal))
        judged: Any = None
        if validation is None and validation_split == "auto":
            judged = usual_held_out_samples(data.labels, loss, seed)
        elif validation is None and validation_split != 0.0:
            assert not isinstance(validation_split, str)
            judged = held_out_samples(data.labels, loss, validation_split, seed)
        too_few = validation is None and validation_split == "auto" and judged is None
        samples, held_out = len(own), 0
        if judged is not None:
            samples, held_out = samples - int((judged < len(own)).sum()), len(judged)
            data, validation = hold_out(data, judged)
        return cls(
            data,
            validation,
            samples,
            held_out,
            too_few,
            covered(data, loss).missing,
            covered(validation or data, loss).constant,
        )


def _pair(given: Given) -> tuple[Samples, Labels | None]:
    return given if isinstance(given, tuple) else (given, None)
