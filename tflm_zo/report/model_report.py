"""The report of a model, from the result of ``tflm-zo inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..converters.passes.layer_names import shown_name
from .document import Fact, ModelPort, ModelReport, Operator, TrainableLayer


def report_model(summary: Mapping[str, Any]) -> ModelReport:
    """Returns the report of a model, of the result of ``tflm-zo inspect --json``: `converters.summary.summarize` with
    "model", the path, and "untrained", the untrained layers of a ZO model.
    """
    zo = summary["zo"]
    facts = [
        Fact("Kind", "ZO model, which infers and trains" if zo else "plain model"),
        Fact("File", f"{summary['bytes']:,} bytes"),
        Fact("Weights", f"{summary['weights']:,}"),
        Fact("Multiply-accumulates", f"{summary['macs']:,} in an invoke"),
    ]
    if zo is not None:
        loss = zo["loss"]
        facts += [
            Fact("Batch", f"{zo['batch']:,} in an invoke"),
            Fact("Loss", "none" if loss is None else f"{loss['kind']} over {loss['elements']} outputs"),
            Fact("Update", f"{zo['update_bits']} bits, headroom {zo['head_room']} LSB"),
            Fact("Trainable", f"{sum(t['size'] for t in zo['trainable']):,} weights and biases"),
        ]
    if (kept := summary["statistics"]) is not None:
        facts.append(
            Fact("Statistics", f"of {kept['channels']:,} channels, of {kept['samples']:,} samples; see recalibrate")
        )
    return ModelReport(
        str(summary["model"]),
        tuple(facts),
        tuple(
            ModelPort(side, shown_name(p["name"]), p["type"], tuple(p["shape"]), p["scale"], p["zero_point"])
            for side in ("input", "output")
            for p in summary[f"{side}s"]
        ),
        tuple(_operator(op) for op in summary["operators"]),
        tuple(_layers(summary)),
    )


def _operator(op: Mapping[str, Any]) -> Operator:
    return Operator(
        op["segment"], op["operator"], op["name"], tuple(op["shape"] or ()), op["weights"], op["trainable"], op["macs"]
    )


def _layers(summary: Mapping[str, Any]) -> list[TrainableLayer]:
    if summary["zo"] is None:
        return []
    trained = [
        TrainableLayer(t["layer"], t["operator"], t["size"], "biases" if t.get("bias") else "weights", way, "")
        for t, way in zip(summary["zo"]["trainable"], summary["trained_by"], strict=True)
    ]
    return trained + [
        TrainableLayer(u["layer"], u["operator"], u["weights"], "weights", "", u["reason"])
        for u in summary["untrained"] or ()
    ]
