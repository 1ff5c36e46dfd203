"""Charts of a report, drawn by Matplotlib as SVG. The page's style sheet has their fonts and their colours."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

#: Of a picture, in its own units: pixels where the page has room for two side by side.
WIDTH: Final = 480
HEIGHT: Final = 300

_LEVELS: Final = 7  # steps of the scale of colours
_RUNS: Final = 8

# Variables of the style sheet. Matplotlib draws with a colour of no meaning for each; the page has the variable there.
_NAMES: Final = (
    *("quiet", "rule", "page", "bar", "before", "after"),
    *(f"s{i}" for i in range(_RUNS)),
    *(f"h{i}{of}" for i in range(_LEVELS) for of in ("", "-text")),
)
_COLOURS: Final = {name: f"#0a0b{i:02x}" for i, name in enumerate(_NAMES)}
_VARIABLES: Final = {colour: f"var(--{name})" for name, colour in _COLOURS.items()}

_STYLE: Any = {
    "axes.edgecolor": _COLOURS["quiet"],
    "axes.facecolor": "none",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "font.size": 13,
    "grid.color": _COLOURS["rule"],
    "legend.frameon": False,
    "lines.scale_dashes": False,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "xtick.color": _COLOURS["quiet"],
    "xtick.labelcolor": "black",
    "ytick.left": False,
}

# Parts of Matplotlib's SVG that the page or another part replaces, that nothing refers to, or that have no effect.
_LEFT_OUT: Final = re.compile(
    r' id="[\w.]+_\d+"|<defs>\s*<style.*?</defs>|font-size: [^;]+; font-family: [^;]+; |<!--.*?-->|xmlns[^ >]+ ?'
    r'| transform="rotate\(-?0 [^"]*"|</?g\b[^>]*>| style="text-anchor: start"|<path d="[^"]*" style="fill: none"/>'
    r"|\n *",
    re.DOTALL,
)
_REPEATED: Final = re.compile(r'(<use [^>]*?); stroke[^"]*')  # the marker that is used has the style of its stroke
_DIGITS: Final = re.compile(r"(\.\d)\d+| (?=[LCMz])|(?<=[LCM]) ")

# Of each run: lines that colours do not tell apart differ by these.
_DASHES: Final = ("-", *((0, on) for on in ((7, 3), (2, 3), (9, 3, 2, 3), (12, 4), (4, 2), (2, 5), (9, 3, 2, 3, 2, 3))))
_MARKERS: Final = "os^DvPHd"

_LARGE_RATIO: Final = 10.0
_LARGEST_RATIO: Final = 1e5


def require_matplotlib() -> None:
    """Raises an ImportError if Matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"a report needs Matplotlib, which does not import ({error}); install it with: "
            "pip install 'tflm_zo[report]'"
        ) from error


@contextmanager
def _axes(height: float, *, left: float, right: float, top: float, bottom: float) -> Iterator[tuple[Figure, Axes]]:
    """Makes axes in the middle of a picture. The numbers are heights and widths of the picture and its margins."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure((WIDTH / 72, height / 72), dpi=72, frameon=False)
        across, up = WIDTH - left - right, height - top - bottom
        yield figure, figure.add_axes((left / WIDTH, bottom / height, across / WIDTH, up / height))


def svg(figure: Figure, name: str, title: str, description: str) -> str:
    """Returns a picture as SVG, with a name that is unique in its page."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        # The browser's fonts have the letters that Matplotlib's own lacks.
        warnings.simplefilter("ignore")
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = _REPEATED.sub(r"\1", _LEFT_OUT.sub("", out.getvalue().partition("<svg ")[2]))
    drawn = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], drawn)
    drawn = re.sub(r' [dxy]="[^"]*"', lambda found: _DIGITS.sub(r"\1", found[0]), drawn)
    start, _, parts = drawn.partition(">")
    words = "".join(
        f'<{k} id="{name}-{k}">{html.escape(v)}</{k}>' for k, v in (("title", title), ("desc", description))
    )
    return f'<svg role="img" aria-labelledby="{name}-title {name}-desc" {start}>{words}{parts}'


def shortened(words: str, most: int) -> str:
    """Shortens words to a number of characters; keeps the beginning and the end."""
    if len(words) <= most:
        return words
    end = (most - 1) // 2
    return f"{words[: most - 1 - end]}…{words[len(words) - end :]}"


def percent(share: float, digits: int = 0) -> str:
    """Formats a share in percent, e.g. "63 %"."""
    return f"{100 * share:.{digits}f} %"


def signed(value: int) -> str:
    """Formats a distance: +4, −4 or 0."""
    return f"{value:+d}".replace("-", "−") if value else "0"


def bar_chart(bars: Sequence[tuple[str, float, str]]) -> Figure:
    """Draws a bar for each label, length as a share of the longest possible one, and formatted value."""
    labels, shares, values = zip(*bars, strict=True)
    with _axes(len(bars) * 24 + 2, left=150, right=92, top=0, bottom=2) as (figure, axes):
        for i, value in enumerate(values):
            axes.text(1.03, i, value, va="center")
        # One path for all: an element for each would be a third of a page of many layers.
        edges = [edge for i in range(len(bars)) for edge in (i - 0.33, i + 0.33)]
        steps = [length for share in shares for length in (share, 0.0)][:-1]
        axes.stairs(steps, edges, fill=True, orientation="horizontal", color=_COLOURS["bar"])
        axes.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5), xticks=[])
        axes.set_yticks(range(len(bars)), [shortened(label, 19) for label in labels])
        axes.spines[:].set_visible(False)
    return figure


def histogram(first: int, width: int, counts: Sequence[int]) -> Figure:
    """Draws a histogram of weight changes, LSB, with bins of `width` from `first`; at least one count is not 0."""
    most, middle, last = max(counts), len(counts) // 2, len(counts) - 1
    # Even a small value is visible.
    heights = [max(count, most / 110) if count else 0 for count in counts]
    with _axes(170, left=24, right=24, top=26, bottom=34) as (figure, axes):
        axes.stairs(heights, np.arange(len(counts) + 1) - 0.5, fill=True, color=_COLOURS["bar"])
        axes.set(xlim=(-0.5, last + 0.5), ylim=(0, most), yticks=[])
        shown = [signed(first + i * width + width // 2) for i in (0, last)]
        axes.set_xticks([0, middle, last], [shown[0], "0 LSB", shown[1]])
        axes.set_title(f"{percent(most / sum(counts))} in the tallest bar", loc="right")
    return figure


def dumbbells(rows: Sequence[tuple[str, float, float]]) -> Figure:
    """Draws a hollow mark before and a filled one after for each row, of a label and two shares, 0..1."""
    labels, before, after = zip(*rows, strict=True)
    places = range(len(rows))
    with _axes(len(rows) * 22 + 60, left=60, right=24, top=34, bottom=26) as (figure, axes):
        axes.hlines(places, before, after, _COLOURS["before"], lw=2, zorder=2, clip_on=False)
        for name, shares, inside in (("before", before, "page"), ("after", after, "after")):
            colours: Any = {"mec": _COLOURS[name], "mfc": _COLOURS[inside]}
            axes.plot(shares, places, "o", ms=10, mew=2, clip_on=False, label=name, **colours)
        axes.legend(loc="lower left", ncols=2, bbox_to_anchor=(-0.14, 1), columnspacing=1.5, handletextpad=0.2)
        axes.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(places, labels)
        axes.grid(axis="x")
        axes.xaxis.set_major_formatter(lambda share, _: percent(share))
        axes.spines[:].set_visible(False)
    return figure


_MOST_WITH_NUMBERS: Final = 16


def matrix(counts: Sequence[Sequence[int]]) -> Figure:
    """Draws a confusion matrix, samples [true][predicted]. A square's colour is its share of the true class."""
    cells, classes = np.array(counts), len(counts)
    levels = np.ceil(cells / np.maximum(1, cells.sum(axis=1, keepdims=True)) * (_LEVELS - 1)).astype(int)
    with _axes(WIDTH, left=46, right=4, top=46, bottom=4) as (figure, axes):
        _squares(axes, range(classes), levels)
        if classes <= _MOST_WITH_NUMBERS:
            for i, j in np.argwhere(cells):
                axes.text(j, i, str(cells[i, j]), color=_COLOURS[f"h{levels[i, j]}-text"], ha="center", va="center")
        ticks = range(0, classes, -(-classes // _MOST_WITH_NUMBERS))
        axes.set(ylim=(classes - 0.5, -0.5), xticks=ticks, yticks=ticks, ylabel="true")
        axes.xaxis.tick_top()
        axes.set_title("predicted →", loc="left")
    return figure


def landscape(offsets: Sequence[int], losses: Sequence[Sequence[float]]) -> Figure:
    """Draws losses as squares around the kept weights, with a key. The ranges of colours are logarithmic."""
    least, most = np.min(losses), np.max(losses)
    ends = (np.geomspace if least > 0 else np.linspace)(least, most, _LEVELS + 1)
    with _axes(384, left=46, right=130, top=34, bottom=46) as (figure, axes):
        _squares(axes, offsets, np.searchsorted(ends[1:-1], losses))
        axes.plot(0, 0, "s", ms=304 / len(offsets), mew=3, mfc="none", mec=_COLOURS["s1"])
        for level in reversed(range(_LEVELS)):
            key = f"{ends[level]:.2g} to {ends[level + 1]:.2g}"
            axes.plot([], [], "s", ms=14, color=_COLOURS[f"h{level}"], label=key)
        axes.legend(loc="upper left", title="loss", alignment="left", bbox_to_anchor=(1, 1), handletextpad=0.2)
        axes.set(xticks=offsets[::3], yticks=offsets[::3])
        axes.set_title("second direction, LSB", loc="left")
        axes.set_xlabel("first direction, LSB", loc="right")
    return figure


def _squares(axes: Axes, places: Sequence[int], levels: NDArray[np.int64]) -> None:
    """Draws squares around places, [y][x], of colours 0 to 6."""
    from matplotlib.colors import ListedColormap

    colours = ListedColormap([_COLOURS[f"h{level}"] for level in range(_LEVELS)])
    style: Any = {"cmap": colours, "vmin": 0, "vmax": _LEVELS - 1, "edgecolors": _COLOURS["page"], "lw": 1}
    axes.pcolormesh(places, places, levels, shading="nearest", clip_on=False, **style)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


@dataclass(frozen=True)
class Line:
    """A line of a run."""

    name: str  # name of the run
    number: int  # number of the run, 0..7, which selects colour, dash and marker
    points: Sequence[tuple[float, float]]  # (x, y) of its points
    band: Sequence[tuple[float, float, float]] = ()  # (x, least, most) of an area around the line; empty: none
    marked: bool = False  # True to mark each point
    ring: int | None = None  # number of the point that a ring marks, or None


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, *, share: bool = False) -> Figure:
    """Draws lines, at least one with a point, and labelled axes. Several lines have a legend. `share` is True for a
    vertical axis of shares, 0..1.
    """
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

    several = len(lines) > 1
    with _axes(HEIGHT, left=62, right=158 if several else 18, top=34, bottom=46) as (figure, axes):
        for line in lines:
            colour, marker = _COLOURS[f"s{line.number}"], _MARKERS[line.number]
            if line.band:
                xs, lows, highs = zip(*line.band, strict=True)
                axes.fill_between(xs, lows, highs, color=colour, alpha=0.22, lw=0)
            shown: Any = {"color": colour, "marker": marker if line.marked or len(line.points) == 1 else ""}
            label = shortened(line.name, 12)
            axes.plot(*zip(*line.points, strict=True), ls=_DASHES[line.number], lw=2, ms=8, label=label, **shown)
            if line.ring is not None:
                axes.plot(*line.points[line.ring], "o", ms=16, mew=2, mfc="none", mec=colour)
        values = [y for line in lines for _, y in line.points]
        edges = [y for line in lines for _, *both in line.band for y in both]
        least, lowest, most = min(values), min([*values, *edges]), max([*values, *edges])
        if share:
            axes.set_ylim(0, 1)
            axes.yaxis.set_major_formatter(lambda share, _: percent(share))
        elif 0 < least < most / _LARGE_RATIO:
            # Edges of areas may end at 0.
            axes.set_yscale("log", nonpositive="clip", subs=[])
            axes.set_ylim(bottom=max(least, most / _LARGEST_RATIO))
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < least * 1000 else (1,)))
            axes.yaxis.set_major_formatter("{x:g}")
            y_label += ", logarithmic"
        elif 0 <= lowest < most / 2:
            axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel(x_label, loc="right")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_title(y_label, loc="left")
        axes.grid(axis="y")
        if several:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), handlelength=1.8, labelcolor="linecolor")
    return figure
