"""A report as one HTML page without scripts or other files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from ..data import Labels, Samples
from ..io.files import write_output
from ..training import Trainer
from .document import Evaluated, Measured, ModelReport, RunReport, RunsReport, as_json
from .pictures import (
    Cell,
    change_pictures,
    class_pictures,
    curve_pictures,
    landscape_picture,
    memory_picture,
    model_pictures,
    moved_picture,
)
from .plots import percent, require_matplotlib
from .recorded_run import ZoFile, read_run
from .run_report import TestData, report_runs

# Characters that end a script element, or begin a comment in one, and their JSON escapes.
_ESCAPES: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def page(report: RunsReport | ModelReport) -> str:
    """Returns the page of a report. ImportError: Matplotlib, which draws the pictures, is missing."""
    require_matplotlib()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tflm_zo.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # Matplotlib escapes the text of pictures.
    environment.filters |= {"svg": Markup, "percent": percent, "sides": _sides}
    if isinstance(report, ModelReport):
        found = {"title": f"Model {report.name}", "pictures": model_pictures(report)}
    else:
        found = _of_runs(report)
    return environment.get_template(f"{report.kind}.html").render(
        report=report, data=Markup(as_json(report).translate(_ESCAPES)), **found
    )


def _sides(rows: Sequence[Sequence[Cell]]) -> list[Markup]:
    """Returns the alignment attribute of each column: text at the left, numbers at the right."""
    words = Markup(' class="words"')
    return [
        words if any(str(cell)[:1].isalpha() for cell in column) else Markup("") for column in zip(*rows, strict=True)
    ]


def _of_runs(report: RunsReport) -> dict[str, Any]:
    names = [run.name for run in report.runs]
    facts = list(dict.fromkeys(fact.name for run in report.runs for fact in run.facts))
    values = [{fact.name: fact.value for fact in run.facts} for run in report.runs]
    return {
        "title": f"Training run {names[0]}" if len(names) == 1 else f"{len(names)} training runs",
        "curves": curve_pictures(report),
        "facts": [(name, [own.get(name, "") for own in values]) for name in facts],
        "runs": [_run(run, f"run{i}", len(names)) for i, run in enumerate(report.runs)],
    }


def _run(run: RunReport, name: str, runs: int) -> dict[str, Any]:
    evaluation, landscape = run.evaluation, run.landscape
    return {
        "report": run,
        "tiles": _tiles(run),
        "moved": moved_picture(run, f"{name}-moved"),
        "changes": change_pictures(run, f"{name}-moves", runs),
        "classes": [] if evaluation is None else class_pictures(evaluation, name, runs),
        "memory": None if run.memory is None else memory_picture(run.memory, f"{name}-memory"),
        "landscape": None if landscape is None else landscape_picture(landscape, f"{name}-landscape"),
    }


def _tiles(run: RunReport) -> list[tuple[str, str, str]]:
    """Returns tiles with the result of a run: a heading, a value and a remark each."""
    trained = [change for change in run.layers if change.trained_by]
    size, moved = (sum(getattr(change, name) for change in trained) for name in ("size", "moved"))
    return [
        *_result(run),
        ("steps", f"{run.steps:,}", f"{run.equivalents:,.0f} forward equivalents"),
        ("moved", percent(moved / size, 1) if size else "nothing", f"of {size:,} trained values"),
    ]


def _result(run: RunReport) -> list[tuple[str, str, str]]:
    """Returns loss or accuracy before and after, measured on the given data, else by the run, else from its steps."""
    if (found := run.evaluation) is not None:
        return [_values(found.before, found.after, f"on {found.data}")]
    kept = next((m for m in run.measurements if m.kept), None)
    if kept is not None:
        return [_values(run.measurements[0], kept, f"on the {kept.samples:,} samples that the run measured")]
    if run.curve.mean:
        first, last = (Evaluated(loss, None) for loss in (run.curve.mean[0], run.curve.mean[-1]))
        return [_values(first, last, "on its training steps")]
    return []


def _values(before: Evaluated | Measured, after: Evaluated | Measured, on: str) -> tuple[str, str, str]:
    if before.accuracy is None or after.accuracy is None:
        return "loss", f"{before.loss:.4g} → {after.loss:.4g}", on
    return "accuracy", f"{percent(before.accuracy, 1)} → {percent(after.accuracy, 1)}", on


def write_report(
    path: str | os.PathLike[str],
    run: Trainer | str | os.PathLike[str],
    x: Samples | None = None,
    y: Labels | None = None,
    *,
    landscape: bool = False,
    force: bool = False,
) -> None:
    """Writes an HTML page about a run, as ``tflm-zo report`` does.

    Args:
        path: path of the page.
        run: trainer, for its last run; or path of a log, with the ZO model in the same folder.
        x: samples, as for `Trainer.fit`, to evaluate the model before and after the run, or None.
        y: labels, as for `Trainer.fit`.
        landscape: True to add the loss around the trained weights, measured on the samples.
        force: True to replace an existing file.

    Raises:
        ImportError: Matplotlib is missing, of the extra ``tflm_zo[report]``.
        ValueError: the run has no log, or a landscape has no samples.
        LogError: the file is no log, or its ZO model is missing.
        DataError: the samples do not fit the model.
        FileExistsError: the file exists and ``force`` is not set.
        OSError: the log cannot be read, or the page cannot be written.
    """
    require_matplotlib()
    if isinstance(run, Trainer):
        if run.log is None:
            raise ValueError("run: a page is made from the run's log; give fit a log")
        log, runtime = run.log, run.runtime.name
        models = [ZoFile(log.with_suffix(".zo.tflite"), run.model)]
    else:
        log, runtime, models = Path(run), "litert", []
    if x is None and landscape:
        raise ValueError("landscape: losses are measured on samples; give x, too")
    on = None if x is None else TestData(x, y, runtime=runtime, landscape=landscape)
    html = page(report_runs([read_run(log, models)], on))
    write_output(Path(path), html.encode(), force=force)
