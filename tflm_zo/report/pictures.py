"""The pictures of a report, each with its title, its description and its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from .document import Curve, Evaluation, Landscape, Measured, Memory, ModelReport, RunReport, RunsReport, TensorChange
from .plots import Bar, Line, bar_chart, dumbbells, histogram, landscape, line_chart, matrix
from .svg import HEIGHT, Cell, Picture, drawing, percent

_COST: Final = "forward equivalents"
_MOST_ROWS: Final = 40

# Limits for all runs of a page together, to keep it below 1 MB. Its JSON has all.
_HISTOGRAMS: Final = 32
_CELLS: Final = 2048
_CURVE_ROWS: Final = 200


def _picture(
    name: str,
    title: str,
    description: str,
    drawn: tuple[Sequence[Element], float],
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
) -> Picture:
    parts, height = drawn
    svg = drawing(name, title, description, height, parts)
    return Picture(name, title, description, svg, tuple(columns), tuple(tuple(row) for row in rows))


# --- runs over their costs ------------------------------------------------------------------------------


def curve_pictures(report: RunsReport) -> list[Picture]:
    """Draws losses and accuracies of all runs over their forward equivalents."""
    return [picture for picture in (_training(report), *_measured(report)) if picture is not None]


def _training(report: RunsReport) -> Picture | None:
    runs = [(i, run) for i, run in enumerate(report.runs) if run.curve.steps]
    if not runs:
        return None
    alone = len(report.runs) == 1
    lines = [
        Line(
            run.name,
            i,
            list(zip(run.curve.equivalents, run.curve.mean, strict=True)),
            list(zip(run.curve.equivalents, run.curve.least, run.curve.most, strict=True)) if alone else (),
        )
        for i, run in runs
    ]
    ends = "; ".join(f"{run.name} from {run.curve.mean[0]:.4g} to {run.curve.mean[-1]:.4g}" for _, run in runs)
    band = ", and the smallest and largest of them as an area" if alone else ""
    rows = [
        (run.name, f"{steps:,}", f"{cost:,.0f}", f"{mean:.4g}", f"{least:.4g}", f"{most:.4g}")
        for _, run in runs
        for steps, cost, mean, least, most in _some_ranges(run.curve, _CURVE_ROWS // len(runs))
    ]
    return _picture(
        "training-loss",
        "Loss of the training steps",
        f"Mean loss of consecutive steps over forward equivalents{band}: {ends}.",
        (line_chart(lines, _COST, f"loss, {_unit(report)}"), HEIGHT),
        ("run", "steps", _COST, "mean loss", "least", "most"),
        rows,
    )


def _some_ranges(curve: Curve, most: int) -> list[tuple[int, float, float, float, float]]:
    """Returns a number of evenly spaced ranges of a curve, including the last one."""
    every = list(zip(curve.steps, curve.equivalents, curve.mean, curve.least, curve.most, strict=True))
    return every[::-1][:: -(-len(every) // most)][::-1]


def _measured(report: RunsReport) -> list[Picture]:
    runs = [(i, run) for i, run in enumerate(report.runs) if run.measurements]
    if not runs:
        return []
    rows = [
        (
            run.name,
            f"{m.step:,}",
            f"{m.equivalents:,.0f}",
            f"{m.loss:.4g}",
            "" if m.accuracy is None else percent(m.accuracy, 2),
            m.samples,
            "kept" if m.kept else "",
        )
        for _, run in runs
        for m in run.measurements
    ]
    columns = ("run", "step", _COST, "loss", "accuracy", "samples", "weights")

    def picture(
        name: str, title: str, label: str, value: Callable[[Measured], float | None], shares: bool
    ) -> Picture | None:
        lines, said = [], []
        for i, run in runs:
            values = [value(m) for m in run.measurements]
            points = [(m.equivalents, v) for m, v in zip(run.measurements, values, strict=True) if v is not None]
            if not points:
                continue
            kept = next((k for k, m in enumerate(run.measurements) if m.kept), None)
            lines.append(Line(run.name, i, points, marked=True, ring=kept))
            shown = [percent(y, 1) if shares else f"{y:.4g}" for _, y in points]
            best = "" if kept is None else f", {shown[kept]} where its weights were kept"
            said.append(f"{run.name} from {shown[0]} to {shown[-1]}{best}")
        if not lines:
            return None
        return _picture(
            name,
            title,
            f"{title} of the weights over forward equivalents; a ring marks those that were kept: {'; '.join(said)}.",
            (line_chart(lines, _COST, label, share=shares), HEIGHT),
            columns,
            rows,
        )

    pictures = [
        picture(
            "measured-loss", "Measured loss", f"loss on the measured samples, {_unit(report)}", lambda m: m.loss, False
        ),
        picture("measured-accuracy", "Measured accuracy", "right of the measured samples", lambda m: m.accuracy, True),
    ]
    return [found for found in pictures if found is not None]


def _unit(report: RunsReport) -> str:
    return " or ".join(dict.fromkeys(run.loss_unit for run in report.runs))


# --- a run's layers -------------------------------------------------------------------------------------


def moved_picture(run: RunReport, name: str) -> Picture:
    """Draws the share of changed weights of each layer as bars."""
    bars = [Bar(_label(c), c.moved / c.size, percent(c.moved / c.size, 1)) for c in run.layers]
    said = "; ".join(f"{_label(c)} {percent(c.moved / c.size, 1)}" for c in run.layers[:_MOST_ROWS])
    rows = [
        (
            _label(c),
            c.trained_by or "not trained",
            f"{c.size:,}",
            f"{c.moved:,}",
            percent(c.moved / c.size, 1),
            f"{c.mean_move:.3g}",
            f"{c.largest_move:,}",
            "" if c.bound is None else percent(c.at_bound_before / c.size, 2),
            "" if c.bound is None else percent(c.at_bound / c.size, 2),
        )
        for c in run.layers
    ]
    return _picture(
        name,
        "Values that moved, by layer",
        f"Share of each layer's values that differ from those before the first step: {said}.",
        bar_chart(bars),
        (
            "layer",
            "trained by",
            "values",
            "moved",
            "share moved",
            "mean move, LSB",
            "largest move, LSB",
            "at the limit before",
            "at the limit after",
        ),
        rows,
    )


def change_pictures(run: RunReport, name: str, runs: int) -> list[Picture]:
    """Draws a histogram of the weight changes of each changed layer; of many layers, only those with the
    largest mean change.

    Args:
        run: the run.
        name: name of the pictures.
        runs: number of runs of the page.
    """
    numbers = range(len(run.layers))
    furthest = sorted(numbers, key=lambda i: -run.layers[i].mean_move)[: _HISTOGRAMS // runs]
    pictures = []
    for i, change in enumerate(run.layers):
        h = change.histogram
        if h is None or i not in furthest:
            continue
        rows = []
        for k, count in enumerate(h.counts):
            low = h.first + k * h.width
            moves = f"{low:+d}" if h.width == 1 else f"{low:+d} to {low + h.width - 1:+d}"
            rows.append((moves.replace("-", "−") if low or h.width > 1 else "0", f"{count:,}"))
        pictures.append(
            _picture(
                f"{name}-{i}",
                f"{_label(change)}: {percent(change.moved / change.size, 1)} moved",
                f"Histogram of the moves of {change.size:,} values: {change.mean_move:.3g} LSB in the mean, "
                f"{change.largest_move:,} LSB at most.",
                histogram(h.first, h.width, h.counts),
                ("move, LSB", "values"),
                rows,
            )
        )
    return pictures


def _label(change: TensorChange) -> str:
    return change.layer if change.tensor == "weights" else f"{change.layer}, biases"


# --- a run on data --------------------------------------------------------------------------------------


def class_pictures(evaluation: Evaluation, name: str, runs: int) -> list[Picture]:
    """Draws correct samples by class before and after, and the confusion matrices unless there are too many
    classes.

    Args:
        evaluation: the model before and after the run.
        name: name of the pictures.
        runs: number of runs of the page.
    """
    if evaluation.classes is None:
        return []
    c = evaluation.classes
    every = [
        (number, samples, before / samples, after / samples)
        for number, samples, before, after in zip(c.numbers, c.samples, c.right_before, c.right, strict=True)
    ]
    shown = sorted(sorted(every, key=lambda row: -abs(row[3] - row[2]))[:_MOST_ROWS])
    few = "" if len(shown) == len(every) else f", the {len(shown)} of {len(every)} that changed most"
    worst, _, _, least = min(every, key=lambda row: row[3])
    pictures = [
        _picture(
            f"{name}-classes",
            f"Right by class{few}",
            "Share of right samples of each class before and after. The class that is right least often "
            f"afterwards is {worst}, with {percent(least, 1)}.",
            dumbbells([(str(number), before, after) for number, _, before, after in shown]),
            ("class", "samples", "right before", "right after"),
            [
                (number, f"{samples:,}", percent(before, 1), percent(after, 1))
                for number, samples, before, after in shown
            ],
        )
    ]
    if len(evaluation.confusion) ** 2 > _CELLS // runs:
        return pictures
    for when, counts in (("before", evaluation.confusion_before), ("after", evaluation.confusion)):
        if counts:
            right = sum(counts[i][i] for i in range(len(counts)))
            pictures.append(
                _picture(
                    f"{name}-confusion-{when}",
                    f"True and predicted classes {when}",
                    f"Confusion matrix: {right:,} of {evaluation.samples:,} samples lie on the diagonal, "
                    "where the prediction is right.",
                    matrix(counts),
                    ("true class", *(f"taken for {j}" for j in range(len(counts)))),
                    [(str(i), *row) for i, row in enumerate(counts)],
                )
            )
    return pictures


def landscape_picture(found: Landscape, name: str) -> Picture:
    """Draws the losses around the kept weights."""
    middle = len(found.offsets) // 2
    here, least = found.losses[middle][middle], min(loss for row in found.losses for loss in row)
    lowest = "which is the least" if here <= least else f"the least is {least:.4g}"
    return _picture(
        name,
        "Loss around the kept weights",
        f"Mean loss of {found.samples} samples where every trained weight is moved along two directions of "
        f"random signs, of seeds {found.seeds[0]} and {found.seeds[1]}. It is {here:.4g} in the middle, "
        f"at the kept weights; {lowest}.",
        landscape(found.offsets, found.losses),
        ("second direction, LSB", *(f"first {_signed(x)}" for x in found.offsets)),
        [(_signed(y), *(f"{loss:.4g}" for loss in row)) for y, row in zip(found.offsets, found.losses, strict=True)],
    )


def memory_picture(found: Memory, name: str) -> Picture:
    """Draws the parts of a device's RAM as bars."""
    most = max(found.parts, key=lambda part: part.bytes)
    bars = [Bar(part.name, part.bytes / most.bytes, f"{part.bytes:,} B") for part in found.parts]
    return _picture(
        name,
        f"RAM on a device: {found.ram_bytes:,} bytes",
        f"Bytes of RAM by part; most are of {most.name}, {percent(most.bytes / found.ram_bytes, 1)}.",
        bar_chart(bars),
        ("part", "bytes", "share", "what it is"),
        [(part.name, f"{part.bytes:,}", percent(part.bytes / found.ram_bytes, 1), part.about) for part in found.parts],
    )


def _signed(value: int) -> str:
    return f"{value:+d}".replace("-", "−") if value else "0"


# --- a model --------------------------------------------------------------------------------------------


def model_pictures(report: ModelReport) -> list[Picture]:
    """Draws multiply-accumulates and weights of the operators."""
    values = {
        "multiply-accumulates": [(op, op.macs) for op in report.operators],
        "weights": [(op, op.weights) for op in report.operators],
    }
    pictures = []
    for unit, every in values.items():
        found = [(op, value) for op, value in every if value]
        total = sum(v for _, v in found)
        if not found:
            continue
        most, largest = max(found, key=lambda pair: pair[1])
        bars = [Bar(op.output, v / largest, f"{v:,}") for op, v in found]
        pictures.append(
            _picture(
                unit,
                f"{unit.capitalize()} by operator",
                f"{total:,} {unit} altogether; most are of {most.output}, {percent(largest / total, 1)}.",
                bar_chart(bars),
                ("output", "operator", unit, "share"),
                [(op.output, op.name, f"{v:,}", percent(v / total, 1)) for op, v in found],
            )
        )
    return pictures
