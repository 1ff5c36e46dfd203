# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures: a ZO model, its life, a step, segments, places of code, figures of docs/costs.md and
docs/alternatives.md.

python docs/draw_pictures.py

Each is an SVG by itself, for light and dark, as wide as a phone can show with its texts to be read.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
WIDTH = 480

#: Values of each colour in light and in dark mode.
COLOURS = {
    "paper": ("#ffffff", "#14181d"),
    "ink": ("#1b2027", "#e6eaee"),
    "soft": ("#55606c", "#a3adb8"),
    "line": ("#77818c", "#8b95a1"),
    "plain": ("#eef1f4", "#262d35"),
    "zo": ("#dcebfb", "#12365c"),
    "zo-line": ("#0b5cad", "#6cb2f5"),
    "kept": ("#fbe6cf", "#573a12"),
    "kept-line": ("#9a5300", "#f0a95a"),
}


def style() -> str:
    """Returns the style sheet: colours and shapes."""
    light, dark = ("".join(f"--{name}:{both[i]};" for name, both in COLOURS.items()) for i in range(2))
    return (
        f"svg{{{light}font:15px system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
        "text{fill:var(--ink)}.soft{fill:var(--soft);font-size:13px}.code{font:14px ui-monospace,monospace}"
        ".mid{text-anchor:middle}.end{text-anchor:end}.paper{fill:var(--paper)}"
        ".plain{fill:var(--plain);stroke:var(--line)}.zo{fill:var(--zo);stroke:var(--zo-line)}"
        ".kept{fill:var(--kept);stroke:var(--kept-line)}"
        ".arrow,.curve{fill:none;stroke:var(--line);stroke-width:1.5}.blue{stroke:var(--zo-line)}"
        ".orange{stroke:var(--kept-line)}.dashed{stroke-dasharray:5 4}"
        ".dot{fill:var(--zo-line)}.head{fill:var(--line)}.head.blue{fill:var(--zo-line);stroke:none}"
        ".head.orange{fill:var(--kept-line);stroke:none}"
    )


@dataclass
class Drawing:
    """A picture: its title, its description in words, its height, and its parts so far."""

    title: str
    description: str
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Adds words whose baseline begins at a point. kind "mid" centres them, "end" makes them end
        there.
        """
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{kind and f" class={kind!r}"}>{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, *lines: str) -> None:
        """Adds a box with centred lines of text. The first line is its name."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{kind}"/>')
        top = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for i, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * i, line, "mid soft" if i else "mid")

    def arrow(self, points: str, kind: str = "") -> None:
        """Draws a line through points "x,y x,y …", with a head at the last one."""
        pairs = [tuple(map(float, pair.split(","))) for pair in points.split()]
        (x0, y0), (x, y) = pairs[-2:]
        length = max(abs(x - x0), abs(y - y0))
        dx, dy = (x - x0) / length, (y - y0) / length
        head = [(x, y), (x - 8 * dx - 4 * dy, y - 8 * dy + 4 * dx), (x - 8 * dx + 4 * dy, y - 8 * dy - 4 * dx)]
        self.parts.append(f'<polyline points="{points}" class="{f"arrow {kind}".strip()}"/>')
        shape = " ".join(f"{a:g},{b:g}" for a, b in head)
        self.parts.append(f'<polygon points="{shape}" class="{f"head {kind}".strip()}"/>')

    def svg(self) -> str:
        """Returns the picture as a file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
            f'height="{self.height}" role="img" aria-labelledby="title description">\n'
            f'<title id="title">{escape(self.title)}</title>\n'
            f'<desc id="description">{escape(self.description)}</desc>\n<style>{style()}</style>\n'
            f'<rect width="{WIDTH}" height="{self.height}" rx="8" class="paper"/>\n'
            + "\n".join(self.parts).replace("class='", 'class="').replace("'>", '">')
            + "\n</svg>\n"
        )


def graph() -> Drawing:
    """Draws the operators that a ZO model adds to its model."""
    d = Drawing(
        "A ZO model",
        "The graph of a plain model, an input that goes through layers to an output, is left as it is. At "
        "its head, operators take a command, move the weights in place, and say in a status what they did. "
        "Weights are variables, which the layers read. At its tail, a loss takes logits and labels.",
        452,
    )
    d.text(16, 28, "added", "soft")
    d.text(464, 28, "the plain model", "soft end")
    d.box(16, 44, 190, 34, "zo", "zo_command")
    d.arrow("111,78 111,106", "blue")
    d.box(16, 106, 190, 92, "zo", "SEED_REPLAY", "UPDATE", "PERTURB")
    d.arrow("60,198 60,400", "blue")
    d.box(16, 400, 88, 34, "zo", "zo_status")
    d.arrow("150,198 150,232", "blue")
    d.text(160, 220, "in place", "soft")
    d.box(104, 232, 116, 52, "kept", "weights", "variables")
    d.box(274, 44, 190, 34, "plain", "input")
    d.arrow("369,78 369,106")
    d.box(274, 106, 190, 44, "plain", "CONV_2D")
    d.arrow("369,150 369,172")
    d.box(274, 172, 190, 44, "plain", "…")
    d.arrow("369,216 369,238")
    d.box(274, 238, 190, 44, "plain", "FULLY_CONNECTED")
    for y in (128, 194, 260):
        d.arrow(f"220,258 247,258 247,{y} 274,{y}" if y != 260 else "220,260 274,260", "orange")
    d.arrow("420,282 420,316")
    d.box(376, 316, 88, 44, "plain", "SOFTMAX")
    d.arrow("420,360 420,400")
    d.box(376, 400, 88, 34, "plain", "output")
    d.arrow("300,282 300,316", "blue")
    d.box(248, 316, 104, 44, "zo", "LOSS")
    d.box(120, 321, 100, 34, "zo", "zo_label")
    d.arrow("220,338 248,338", "blue")
    d.arrow("300,360 300,400", "blue")
    d.box(248, 400, 104, 34, "zo", "zo_loss")
    return d


def step() -> Drawing:
    """Draws a step of weight perturbation."""
    d = Drawing(
        "A training step",
        "The loss over the weights is a curve. Two forward passes measure it at w plus z and at w minus z. "
        "The loss at w minus z is smaller, so the step moves w that way. Below, the invokes of a step: the "
        "first moves the weights by plus z before its forward pass, the second by minus two z, and the first "
        "one of the next step carries the update, which also undoes the perturbation.",
        448,
    )
    curve = " ".join(f"{x},{220 - ((x - 150) / 240) ** 2 * 110:.1f}" for x in range(40, 441, 8))
    d.parts.append(f'<polyline points="{curve}" class="curve"/>')
    d.text(24, 186, "loss", "soft")
    d.arrow("24,240 456,240")
    d.text(456, 278, "weights", "soft end")
    for x, name in ((240, "w − z"), (320, "w"), (400, "w + z")):
        y = 220 - ((x - 150) / 240) ** 2 * 110
        d.parts.append(f'<circle cx="{x}" cy="{y:.1f}" r="5" class="dot"/>')
        d.parts.append(f'<polyline points="{x},{y + 8:.1f} {x},240" class="arrow dashed"/>')
        d.text(x, 258, name, "mid code")
    d.text(226, 192, "L(w − z)", "end soft")
    d.text(386, 98, "L(w + z)", "end soft")
    d.arrow("312,276 264,276", "orange")
    d.text(240, 296, "the step: along z, by the difference of the losses", "mid soft")
    for i, (name, does, gives) in enumerate(
        (
            ("invoke 1", "last update, + z", "L(w + z)"),
            ("invoke 2", "− 2 z", "L(w − z)"),
            ("invoke 3", "update, + z", "of the next step"),
        )
    ):
        x = 16 + 154 * i
        d.box(x, 320, 140, 112, "zo" if i < 2 else "plain", name, does, "forward pass", gives)
        if i:
            d.arrow(f"{x - 14},376 {x},376", "blue")
    return d


def segments() -> Drawing:
    """Draws the layers that a query of a residual network recomputes, and the values kept for it."""
    d = Drawing(
        "Segments of a residual network",
        "A network is cut where queries begin. The first segment, the stem and block 0, is run once for each "
        "sample; what it computes is kept. A query of the next layer runs the segments behind it again, with "
        "its nodes perturbed. A shortcut enters a later segment as a skip, from what was kept.",
        516,
    )
    d.box(120, 16, 240, 30, "plain", "input")
    d.arrow("240,46 240,66")
    d.box(120, 66, 240, 62, "plain", "segment 0", "stem, block 0: run once")
    d.arrow("240,128 240,154")
    d.box(150, 154, 180, 30, "kept", "boundary, kept")
    d.arrow("240,184 240,210")
    d.box(120, 210, 240, 62, "zo", "segment 1", "block 1, convolution: trained")
    d.arrow("240,272 240,298")
    d.box(150, 298, 180, 30, "kept", "nodes y, moved by ± z")
    d.arrow("240,328 240,354")
    d.box(120, 354, 240, 62, "plain", "segment 2", "second convolution, ADD")
    d.arrow("240,416 240,438")
    d.box(120, 438, 240, 62, "plain", "segment 3", "dense layer, loss")
    d.arrow("330,169 420,169 420,385 360,385", "orange")
    d.text(426, 262, "skip", "soft")
    d.arrow("60,313 60,500", "blue")
    d.parts.append('<polyline points="150,313 60,313" class="arrow blue"/>')
    d.text(16, 286, "a query runs", "soft")
    d.text(16, 303, "this part again", "soft")
    return d


def memory() -> Drawing:
    """Draws the RAM of inference and of training from the table of docs/costs.md."""
    page = (DOCS / "costs.md").read_text(encoding="utf-8")
    row = r"^\| ([^|]+) \| ([\d,]+) KB" + r" \| ([\d,]+) KB, [\d.]+" * 3 + r" \| ([\d,]+) KB \|"
    labels = ("inference", "by weights", "by nodes", "exact gradients", "backpropagation in float32")
    figures = {
        name: dict(zip(labels, (int(n.replace(",", "")) for n in numbers), strict=True))
        for name, *numbers in re.findall(row, page, re.MULTILINE)
    }
    said = "; ".join(
        f"{name}: " + ", ".join(f"{label} {size:,} KB" for label, size in found.items())
        for name, found in figures.items()
    )
    d = Drawing(
        "Memory while a device trains",
        f"RAM on a Cortex-M4: the arena of inference, and what each way to train adds to it. {said}.",
        64 + 140 * len(figures),
    )
    for x, kind, name in ((16, "plain", "arena of inference"), (170, "zo", "what training adds")):
        d.parts.append(f'<rect x="{x}" y="16" width="14" height="14" rx="3" class="{kind}"/>')
        d.text(x + 20, 28, name, "soft")
    *shown, last = labels
    scale = 150 / max(found[label] for found in figures.values() for label in shown)
    for i, (name, found) in enumerate(figures.items()):
        top = 58 + 140 * i
        d.text(16, top + 4, name)
        for j, label in enumerate(shown):
            y, x, size = top + 14 + 28 * j, 136.0, found[label]
            d.text(128, y + 15, label, "soft end")
            for width, kind in ((found["inference"] * scale, "plain"), ((size - found["inference"]) * scale, "zo")):
                if width >= 1:
                    d.parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="20" class="{kind}"/>')
                    x += width
            more = f" (float32: {found[last]:,} KB)" if label == shown[-1] else ""
            d.text(x + 8, y + 15, f"{size:,} KB{more}", "soft")
    return d


#: Labels of the methods in the pictures of alternatives, and the beginnings of their rows, the best of which is drawn.
#: Methods whose points lie upon others' are left out.
ALTERNATIVES = {
    "weights": ("**tflm_zo: weight perturbation**",),
    "last layer": ("**tflm_zo: last layer, exact**", "**tflm_zo: recalibration, last layer**"),
    "nodes": ("**tflm_zo: node perturbation**", "**tflm_zo: recalibration, node perturbation**"),
    "exact": ("**tflm_zo: exact gradients**", "**tflm_zo: recalibration, exact gradients**"),
    "float32": ("backpropagation in float32, plain C",),
    "AIfES": ("backpropagation in float32, AIfES",),
    "last, float32": ("last layer in float32, plain C", "recalibration, last layer in float32, plain C"),
    "neighbour": ("nearest neighbour", "recalibration, five nearest neighbours"),
}


@dataclass(frozen=True)
class Way:
    """A method's RAM in KB and its accuracy in percent."""

    label: str
    ram: float
    accuracy: float
    is_ours: bool

    @property
    def error(self) -> float:
        """Share of wrong answers in percent."""
        return max(100 - self.accuracy, 0.1)


def _ways(section: str) -> list[Way]:
    """Reads the methods of a section of docs/alternatives.md."""
    found = []
    for label, starts in ALTERNATIVES.items():
        begin = "|".join(map(re.escape, starts))
        rows = re.findall(rf"^\| (?:{begin})[^|]* \| ([\d,]+) B \|.* \| ([\d.]+) \|$", section, re.MULTILINE)
        if rows:
            ram, accuracy = max(rows, key=lambda row: float(row[1]))
            found.append(Way(label, int(ram.replace(",", "")) / 1000, float(accuracy), starts[0].startswith("**")))
    return found


def alternatives(larger: bool = False) -> Drawing:
    """Draws RAM against accuracy from the tables of docs/alternatives.md, with the front of the best ways; those of the
    `larger` networks have a picture of their own.
    """
    page = (DOCS / "alternatives.md").read_text(encoding="utf-8").split("## Larger networks\n")[larger]
    sections = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    figures = {title: ways for title, text in sections if (ways := _ways(text))}
    said = "; ".join(
        f"{title}: " + ", ".join(f"{way.label} {way.ram:.0f} KB {way.accuracy:.1f} %" for way in ways)
        for title, ways in figures.items()
    )
    d = Drawing(
        "RAM against accuracy",
        f"RAM of training on a Cortex-M4 and accuracy after it, of tflm_zo and of its alternatives. {said}.",
        44 + 262 * len(figures),
    )
    for x, kind, name in ((16, "zo", "tflm_zo"), (110, "kept", "alternatives")):
        d.parts.append(f'<circle cx="{x + 7}" cy="23" r="6" class="{kind}"/>')
        d.text(x + 20, 28, name, "soft")
    d.parts.append('<polyline points="240,23 270,23" class="arrow dashed"/>')
    d.text(278, 28, "no way is better in both", "soft")
    for i, (title, ways) in enumerate(figures.items()):
        _front(d, title, ways, 44 + 262 * i)
    return d


def _front(d: Drawing, title: str, ways: list[Way], top: float) -> None:
    """Draws one family of tasks below `top`: RAM and errors with logarithmic scales."""
    left, right, upper, lower = 60.0, 456.0, top + 34, top + 218
    few, many = min(w.ram for w in ways) / 2, max(w.ram for w in ways) * 1.6
    least, most = min(w.error for w in ways) / 1.3, max(w.error for w in ways) * 1.3

    def place(ram: float, error: float) -> tuple[float, float]:
        x = left + (right - left) * math.log(ram / few) / math.log(many / few)
        return x, upper + (lower - upper) * math.log(error / least) / math.log(most / least)

    d.text(16, top + 18, title)
    d.parts.append(f'<polyline points="{left:g},{upper:g} {left:g},{lower:g} {right:g},{lower:g}" class="arrow"/>')
    # Where errors differ little, there is room for more of them.
    for accuracy in (25, 30, 35, 40, 50, 60, 70, 80) if most < 4 * least else (40, 60, 80, 90, 95, 98, 99, 99.5):
        if least < 100 - accuracy < most:
            d.text(left - 6, place(few, 100 - accuracy)[1] + 5, f"{accuracy:g} %", "soft end")
    for ram in (5, 10, 20, 50, 100, 200, 500, 1000, 2000):
        if few < ram < many:
            d.text(place(ram, most)[0], lower + 18, f"{ram} KB", "soft mid")
    ordered = sorted(ways, key=lambda w: (w.ram, w.error))
    front = [w for j, w in enumerate(ordered) if all(w.error < other.error for other in ordered[:j])]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(w.ram, w.error) for w in front))
    d.parts.append(f'<polyline points="{line}" class="arrow dashed"/>')
    points = [place(w.ram, w.error) for w in ordered]
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y in points]
    for way, (x, y) in zip(ordered, points, strict=True):
        d.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" class="{"zo" if way.is_ours else "kept"}"/>')
        width = 6.8 * len(way.label)
        for dx, dy in (
            (10, 4),
            (-14 - width, 4),
            (-width / 2, -11),
            (-width / 2, 20),
            (8, -9),
            (8, 18),
            (-8 - width, 18),
            (-8 - width, -9),
            (10, 34),
            (-8 - width, 34),
            (-width / 2, 34),
            (10, 18),
        ):
            box = x + dx, y + dy - 11, x + dx + width, y + dy + 3
            if left < box[0] and box[2] < 470 and all(_apart(box, other) for other in taken):
                break
        taken.append(box)
        d.text(round(x + dx, 1), round(y + dy, 1), way.label, "soft")


def _apart(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    """Returns True if two boxes, by (left, top, right, bottom), do not overlap."""
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def life() -> Drawing:
    """Draws the files between a plain model and a trained one, and their commands."""
    d = Drawing(
        "The life of a model",
        "inject turns a plain int8 model into a ZO model. train runs the ZO model on samples and writes a "
        "log. replay and export make a trained plain model from the ZO model and the log. firmware writes "
        "the ZO model and the run as C and C++. The device trains on its own samples and writes a log, too. "
        "collect brings it to the desktop; deploy sends runs to the device.",
        500,
    )
    d.text(16, 28, "desktop", "soft")
    d.text(464, 28, "device", "soft end")
    d.box(16, 44, 190, 52, "plain", "plain model", "int8 .tflite")
    d.arrow("111,96 111,140", "blue")
    d.text(120, 123, "inject", "code")
    d.box(16, 140, 190, 52, "zo", "ZO model", "infers and trains")
    d.arrow("111,192 111,236", "blue")
    d.text(120, 219, "train", "code")
    d.box(16, 236, 190, 52, "kept", "log", "seeds, or snapshots")
    d.arrow("111,288 111,332", "blue")
    d.text(120, 315, "replay", "code")
    d.box(16, 332, 190, 52, "zo", "trained ZO model", "resumes, or trains again")
    d.arrow("111,384 111,428", "blue")
    d.text(120, 411, "export", "code")
    d.box(16, 428, 190, 52, "plain", "trained plain model", "int8 .tflite")
    d.arrow("206,166 304,166", "blue")
    d.text(255, 158, "firmware", "mid code")
    d.box(304, 140, 160, 52, "zo", "firmware", "C and C++, tables")
    d.arrow("384,192 384,236", "blue")
    d.text(393, 219, "trains", "soft")
    d.box(304, 236, 160, 52, "kept", "log in its store", "of the same kind")
    d.arrow("304,262 206,262", "orange")
    d.text(255, 254, "collect", "mid code")
    d.arrow("206,358 384,358 384,288", "orange")
    d.text(255, 350, "deploy", "mid code")
    return d


def places() -> Drawing:
    """Draws the layers of code on a desktop and on a device. The C core is the same on both."""
    d = Drawing(
        "Where code runs",
        "On a desktop, the command line and Python call the trainer, which calls a runtime. The runtime runs "
        "the graph and calls the operators of a delegate. On a device, the application calls the generated "
        "trainer, which calls TFLM; TFLM calls the operators of the op pack. The trainers of both ask the "
        "control unit of the C core for each invoke, and the operators of both call its arithmetic.",
        416,
    )
    d.text(16, 28, "desktop", "soft")
    d.text(464, 28, "device", "soft end")
    for x, kind, rows in (
        (
            16,
            "plain",
            (
                ("tflm-zo, import tflm_zo", "settings, data, reports"),
                ("tflm_zo/training", "executes requests"),
                ("tflm_zo/runtime", "LiteRT, tflite-runtime, TFLM"),
            ),
        ),
        (
            264,
            "plain",
            (
                ("your application", "samples, store, serial line"),
                ("ops/device, tables", "executes requests"),
                ("TFLM", "MicroInterpreter"),
            ),
        ),
    ):
        for i, lines in enumerate(rows):
            y = 44 + 78 * i
            d.box(x, y, 200, 52, kind, *lines)
            if i:
                d.arrow(f"{x + 100},{y - 26} {x + 100},{y}")
    d.box(16, 278, 200, 40, "zo", "ops/tflite, ops/tflm")
    d.box(264, 278, 200, 40, "zo", "ops/tflm")
    d.box(16, 344, 448, 56, "kept", "ops/core", "control units, arithmetic, logs, link: the same C")
    for x in (116, 364):
        d.arrow(f"{x},252 {x},278", "blue")
        d.arrow(f"{x},318 {x},344", "blue")
    d.arrow("216,148 232,148 232,344", "orange")
    d.arrow("264,148 248,148 248,344", "orange")
    return d


PICTURES = {
    "graph": graph,
    "step": step,
    "segments": segments,
    "memory": memory,
    "alternatives": alternatives,
    "alternatives-images": partial(alternatives, larger=True),
    "life": life,
    "places": places,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
