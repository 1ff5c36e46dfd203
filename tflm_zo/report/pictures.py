"""The pictures of a report, each with its title, its description and its numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from .document import Curve, Evaluation, Landscape, Memory, ModelReport, RunReport, RunsReport, TensorChange
from .plots import Line, bar_chart, dumbbells, histogram, landscape, line_chart, matrix, percent, signed, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COST: Final = "forward equivalents"
_MOST_ROWS: Final = 40  # of a picture

# Limits for all runs of a page together, to keep it below 1 MB. Its JSON has all.
_HISTOGRAMS: Final = 32
_CELLS: Final = 2048
_CLASSES: Final = 112
_CURVE_ROWS: Final = 200

Cell = str | int


@dataclass(frozen=True)
class Picture:
    """A picture with its title, its description and its numbers as a table."""

    name: str  # name of the picture, unique in its page, a word
    title: str  # title, one line
    svg: str  # the picture, which contains its description in a sentence or two, for screen readers
    columns: tuple[str, ...]  # headings of the table
    rows: tuple[tuple[Cell, ...], ...]  # rows of the table; the first cell is the name


def _picture(name: str, title: str, description: str, drawn: Figure, rows: Sequence[Mapping[str, Cell]]) -> Picture:
    """Returns a drawn picture; its table has a row for each mapping from columns to cells."""
    columns, cells = tuple(rows[0]), tuple(tuple(row.values()) for row in rows)
    return Picture(name, title, svg(drawn, name, title, description), columns, cells)


# --- runs over their costs ------------------------------------------------------------------------------


def curve_pictures(report: RunsReport) -> list[Picture]:
    """Draws losses and accuracies of all runs over their forward equivalents."""
    return _training(report) + _measured(report)


def _training(report: RunsReport) -> list[Picture]:
    runs = [(i, run) for i, run in enumerate(report.runs) if run.curve.steps]
    if not runs:
        return []
    alone = len(report.runs) == 1
    lines, rows = [], []
    for i, run in runs:
        c = run.curve
        band = list(zip(c.equivalents, c.least, c.most, strict=True)) if alone else ()
        lines.append(Line(run.name, i, list(zip(c.equivalents, c.mean, strict=True)), band))
        rows += [
            {
                "run": run.name,
                "steps": f"{steps:,}",
                _COST: f"{cost:,.0f}",
                "mean loss": f"{mean:.4g}",
                "least": f"{least:.4g}",
                "most": f"{most:.4g}",
            }
            for steps, cost, mean, least, most in _some_ranges(c, _CURVE_ROWS // len(runs))
        ]
    ends = "; ".join(f"{run.name} from {run.curve.mean[0]:.4g} to {run.curve.mean[-1]:.4g}" for _, run in runs)
    area = ", and the smallest and largest of them as an area" if alone else ""
    description = f"Mean loss of consecutive steps over forward equivalents{area}: {ends}."
    drawn = line_chart(lines, _COST, f"loss, {_unit(report)}")
    return [_picture("training-loss", "Loss of the training steps", description, drawn, rows)]


def _some_ranges(curve: Curve, most: int) -> list[tuple[int, float, float, float, float]]:
    """Returns a number of evenly spaced ranges of a curve, including the last one."""
    every = list(zip(curve.steps, curve.equivalents, curve.mean, curve.least, curve.most, strict=True))
    return every[::-1][:: -(-len(every) // most)][::-1]


def _measured(report: RunsReport) -> list[Picture]:
    runs = [(i, run) for i, run in enumerate(report.runs) if run.measurements]
    rows = [
        {
            "run": run.name,
            "step": f"{m.step:,}",
            _COST: f"{m.equivalents:,.0f}",
            "loss": f"{m.loss:.4g}",
            "accuracy": "" if m.accuracy is None else percent(m.accuracy, 2),
            "samples": m.samples,
            "weights": "kept" if m.kept else "",
        }
        for _, run in runs
        for m in run.measurements
    ]
    labels = {"loss": f"loss on the measured samples, {_unit(report)}", "accuracy": "right of the measured samples"}
    pictures = []
    for quantity, label in labels.items():
        value, shares = attrgetter(quantity), quantity == "accuracy"
        lines, said = [], []
        for i, run in runs:
            points = [(m.equivalents, value(m)) for m in run.measurements if value(m) is not None]
            if not points:
                continue
            kept = next((k for k, m in enumerate(run.measurements) if m.kept), None)
            lines.append(Line(run.name, i, points, marked=True, ring=kept))
            shown = [percent(y, 1) if shares else f"{y:.4g}" for _, y in points]
            best = "" if kept is None else f", {shown[kept]} where its weights were kept"
            said.append(f"{run.name} from {shown[0]} to {shown[-1]}{best}")
        if lines:
            title, drawn = f"Measured {quantity}", line_chart(lines, _COST, label, share=shares)
            about = f"{title} of the weights over forward equivalents; a ring marks those that were kept"
            pictures.append(_picture(f"measured-{quantity}", title, f"{about}: {'; '.join(said)}.", drawn, rows))
    return pictures


def _unit(report: RunsReport) -> str:
    return " or ".join(dict.fromkeys(run.loss_unit for run in report.runs))


# --- a run's layers -------------------------------------------------------------------------------------


def moved_picture(run: RunReport, name: str) -> Picture:
    """Draws the share of changed weights of each layer as bars."""
    bars = [(_label(c), c.moved / c.size, percent(c.moved / c.size, 1)) for c in run.layers]
    said = "; ".join(f"{label} {share}" for label, _, share in bars[:_MOST_ROWS])
    rows = [
        {
            "layer": label,
            "trained by": c.trained_by or "not trained",
            "values": f"{c.size:,}",
            "moved": f"{c.moved:,}",
            "share moved": share,
            "mean move, LSB": f"{c.mean_move:.3g}",
            "largest move, LSB": f"{c.largest_move:,}",
            "at the limit before": "" if c.bound is None else percent(c.at_bound_before / c.size, 2),
            "at the limit after": "" if c.bound is None else percent(c.at_bound / c.size, 2),
        }
        for c, (label, _, share) in zip(run.layers, bars, strict=True)
    ]
    description = f"Share of each layer's values that differ from those before the first step: {said}."
    return _picture(name, "Values that moved, by layer", description, bar_chart(bars), rows)


def change_pictures(run: RunReport, name: str, runs: int) -> list[Picture]:
    """Draws a histogram of each layer's weight changes, of many layers only the largest; `runs` are on the page."""
    numbers = range(len(run.layers))
    furthest = sorted(numbers, key=lambda i: -run.layers[i].mean_move)[: _HISTOGRAMS // runs]
    pictures = []
    for i, change in enumerate(run.layers):
        h = change.histogram
        if h is None or i not in furthest:
            continue
        lows = [h.first + k * h.width for k in range(len(h.counts))]
        moves = [signed(x) if h.width == 1 else f"{x:+d} to {x + h.width - 1:+d}".replace("-", "−") for x in lows]
        pictures.append(
            _picture(
                f"{name}-{i}",
                f"{_label(change)}: {percent(change.moved / change.size, 1)} moved",
                f"Histogram of the moves of {change.size:,} values: {change.mean_move:.3g} LSB in the mean, "
                f"{change.largest_move:,} LSB at most.",
                histogram(h.first, h.width, h.counts),
                [{"move, LSB": m, "values": f"{count:,}"} for m, count in zip(moves, h.counts, strict=True)],
            )
        )
    return pictures


def _label(change: TensorChange) -> str:
    return change.layer if change.tensor == "weights" else f"{change.layer}, biases"


# --- a run on data --------------------------------------------------------------------------------------


def class_pictures(evaluation: Evaluation, name: str, runs: int) -> list[Picture]:
    """Draws correct samples by class and, of few classes, confusion matrices; `runs` are on the page."""
    if evaluation.classes is None:
        return []
    c = evaluation.classes
    every = [
        (number, samples, before / samples, after / samples)
        for number, samples, before, after in zip(c.numbers, c.samples, c.right_before, c.right, strict=True)
    ]
    shown = sorted(sorted(every, key=lambda row: -abs(row[3] - row[2]))[: min(_MOST_ROWS, _CLASSES // runs)])
    few = "" if len(shown) == len(every) else f", the {len(shown)} of {len(every)} that changed most"
    worst, _, _, least = min(every, key=lambda row: row[3])
    pictures = [
        _picture(
            f"{name}-classes",
            f"Right by class{few}",
            "Share of right samples of each class before and after. The class that is right least often "
            f"afterwards is {worst}, with {percent(least, 1)}.",
            dumbbells([(str(number), before, after) for number, _, before, after in shown]),
            [
                {
                    "class": number,
                    "samples": f"{samples:,}",
                    "right before": percent(before, 1),
                    "right after": percent(after, 1),
                }
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
                    [
                        {"true class": str(i)} | {f"taken for {j}": count for j, count in enumerate(row)}
                        for i, row in enumerate(counts)
                    ],
                )
            )
    return pictures


def landscape_picture(found: Landscape, name: str) -> Picture:
    """Draws the losses around the kept weights."""
    middle = len(found.offsets) // 2
    here, least = found.losses[middle][middle], min(loss for row in found.losses for loss in row)
    lowest = "which is the least" if here <= least else f"the least is {least:.4g}"
    heads = [f"first {signed(x)}" for x in found.offsets]
    return _picture(
        name,
        "Loss around the kept weights",
        f"Mean loss of {found.samples} samples where every trained weight is moved along two directions of "
        f"random signs, of seeds {found.seeds[0]} and {found.seeds[1]}. It is {here:.4g} in the middle, "
        f"at the kept weights; {lowest}.",
        landscape(found.offsets, found.losses),
        [
            {"second direction, LSB": signed(y)} | {x: f"{loss:.4g}" for x, loss in zip(heads, row, strict=True)}
            for y, row in zip(found.offsets, found.losses, strict=True)
        ],
    )


def memory_picture(found: Memory, name: str) -> Picture:
    """Draws the parts of a device's RAM as bars."""
    most = max(found.parts, key=lambda part: part.bytes)
    shares = [percent(part.bytes / found.ram_bytes, 1) for part in found.parts]
    return _picture(
        name,
        f"RAM on a device: {found.ram_bytes:,} bytes",
        f"Bytes of RAM by part; most are of {most.name}, {percent(most.bytes / found.ram_bytes, 1)}.",
        bar_chart([(part.name, part.bytes / most.bytes, f"{part.bytes:,} B") for part in found.parts]),
        [
            {"part": part.name, "bytes": f"{part.bytes:,}", "share": share, "what it is": part.about}
            for part, share in zip(found.parts, shares, strict=True)
        ],
    )


# --- a model --------------------------------------------------------------------------------------------


def model_pictures(report: ModelReport) -> list[Picture]:
    """Draws multiply-accumulates and weights of the operators."""
    pictures = []
    for unit, value in (("multiply-accumulates", attrgetter("macs")), ("weights", attrgetter("weights"))):
        found = [(op, value(op)) for op in report.operators if value(op)]
        if not found:
            continue
        total, (most, largest) = sum(v for _, v in found), max(found, key=lambda pair: pair[1])
        pictures.append(
            _picture(
                unit,
                f"{unit.capitalize()} by operator",
                f"{total:,} {unit} altogether; most are of {most.output}, {percent(largest / total, 1)}.",
                bar_chart([(op.output, v / largest, f"{v:,}") for op, v in found]),
                [
                    {"output": op.output, "operator": op.name, unit: f"{v:,}", "share": percent(v / total, 1)}
                    for op, v in found
                ],
            )
        )
    return pictures
