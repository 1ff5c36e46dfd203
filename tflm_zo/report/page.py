# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page, which needs no network, no script and no other file."""

from __future__ import annotations

from typing import Any, Final

import jinja2
from markupsafe import Markup

from .document import ModelReport, RunReport, RunsReport, as_json
from .pictures import (
    change_pictures,
    class_pictures,
    curve_pictures,
    landscape_picture,
    model_pictures,
    moved_picture,
)

__all__ = ["page"]

# What ends a script element, or begins a comment in one, in characters that JSON may write otherwise.
_ESCAPES: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def page(report: RunsReport | ModelReport) -> str:
    """Returns the page of a report."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tflm_zo.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["svg"] = Markup  # drawn here, from escaped text
    found = _of_model(report) if isinstance(report, ModelReport) else _of_runs(report)
    return environment.get_template(f"{report.kind}.html").render(
        report=report, data=Markup(as_json(report).translate(_ESCAPES)), **found
    )


def _of_model(report: ModelReport) -> dict[str, Any]:
    return {"title": f"Model {report.name}", "pictures": model_pictures(report)}


def _of_runs(report: RunsReport) -> dict[str, Any]:
    names = [run.name for run in report.runs]
    facts = list(dict.fromkeys(fact.name for run in report.runs for fact in run.facts))
    values = [{fact.name: fact.value for fact in run.facts} for run in report.runs]
    return {
        "title": f"Training run {names[0]}" if len(names) == 1 else f"{len(names)} training runs",
        "curves": curve_pictures(report),
        "facts": [(name, [own.get(name, "") for own in values]) for name in facts],
        "runs": [_run(run, f"run{i}") for i, run in enumerate(report.runs)],
    }


def _run(run: RunReport, name: str) -> dict[str, Any]:
    evaluation, landscape = run.evaluation, run.landscape
    return {
        "report": run,
        "result": _result(run),
        "moved": moved_picture(run, f"{name}-moved"),
        "changes": change_pictures(run, f"{name}-moves"),
        "classes": [] if evaluation is None else class_pictures(evaluation, name),
        "landscape": None if landscape is None else landscape_picture(landscape, f"{name}-landscape"),
    }


def _result(run: RunReport) -> dict[str, str]:
    """What a run has come to, as few words: what was measured, before, after, and on what."""
    if (found := run.evaluation) is not None:
        return _values(
            found.before.accuracy, found.after.accuracy, found.before.loss, found.after.loss, found.data
        )
    kept = next((m for m in run.measurements if m.kept), None)
    if kept is not None:
        first, on = run.measurements[0], f"the {kept.samples:,} samples that the run measured"
        return _values(first.accuracy, kept.accuracy, first.loss, kept.loss, on)
    if run.curve.mean:
        return _values(None, None, run.curve.mean[0], run.curve.mean[-1], "its training steps")
    return {}


def _values(
    before: float | None, after: float | None, loss_before: float, loss_after: float, on: str
) -> dict[str, str]:
    if before is None or after is None:
        return {"what": "loss", "before": f"{loss_before:.4g}", "after": f"{loss_after:.4g}", "on": on}
    return {"what": "accuracy", "before": f"{before:.1%}", "after": f"{after:.1%}", "on": on}
