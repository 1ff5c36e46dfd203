"""Pages as they are written: structure, names, tables, colours, and the JSON that they are drawn from."""

import dataclasses
import re
import sys
import warnings
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from helpers.html_pages import Node, colours, contrast, data_of, parsed_page
from tflm_zo.report import as_data, page, read_run, report_runs, write_report
from tflm_zo.report.plots import Line, line_chart, svg
from tflm_zo.report.run_report import curve_of

PAGES = ("one", "several", "eight", "long", "model")
SERIES = [f"s{i}" for i in range(8)]
LEVELS = [f"h{i}" for i in range(7)]


@pytest.fixture(params=PAGES)
def found(request: pytest.FixtureRequest, pages: dict[str, str]) -> Node:
    return parsed_page(pages[request.param])


def test_a_page_is_a_document(found: Node) -> None:
    (html,) = found.all("html")
    assert html.get("lang") == "en"
    (title,) = [node for node in found.all("head")[0].all("title")]
    assert title.text.strip() == found.all("h1")[0].text.strip() != ""
    levels = [int(node.tag[1]) for node in found.every if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert len(found.all("main")) == 1
    ids = [node.get("id") for node in found.every if node.get("id")]
    assert len(set(ids)) == len(ids)


def test_nothing_is_fetched_or_run(found: Node) -> None:
    policy = next(n for n in found.all("meta") if n.get("http-equiv") == "Content-Security-Policy")
    assert policy.get("content").startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not {"img", "iframe", "object", "audio", "video", "form"} & {n.tag for n in found.every}
    for node in found.every:
        assert not node.get("src") and node.get("href") in ("", "data:,")
        assert not any(name.startswith("on") for name in node.attributes)
    (style,) = found.all("style")
    assert "url(" not in style.text and "@import" not in style.text
    data_of(found)  # the only script, which is data


def test_every_picture_has_its_words_and_its_table(found: Node) -> None:
    figures = found.all("figure")
    assert len(figures) > 1
    for figure in figures:
        (caption,), (svg,) = figure.all("figcaption"), figure.all("svg")
        assert svg.get("role") == "img"
        named = [n for name in svg.get("aria-labelledby").split() for n in found.every if n.get("id") == name]
        assert [n.tag for n in named] == ["title", "desc"] and named[0].text == caption.text
        assert len(named[1].text) > 30
        (table,) = figure.all("details")[0].all("table")
        assert len(table.all("tbody")[0].all("tr")) >= 1
    for table in found.all("table"):
        heads = [n for n in table.all("th") if n.get("scope")]
        assert len(heads) == len(table.all("th")) > 0
        widths = {len([c for c in row.children]) for row in table.all("tr")}
        assert len(widths) == 1
    # Pictures of no figure are ornaments.
    others = [n for n in found.all("svg") if n.get("role") != "img"]
    assert all(n.get("aria-hidden") == "true" for n in others)
    scrolled = [n for n in found.every if n.get("class").startswith("scroll")]
    assert all(n.get("tabindex") == "0" and n.get("aria-label") for n in scrolled)


def test_the_json_is_the_report(runs: Path, pages: dict[str, str]) -> None:
    report = report_runs([read_run(runs / "weight.zolog", []), read_run(runs / "node.zolog", [])])
    found = data_of(parsed_page(page(report)))
    assert found == as_data_as_json(as_data(report))
    assert (found["version"], found["kind"], len(found["runs"])) == (1, "runs", 2)
    assert data_of(parsed_page(pages["model"]))["kind"] == "model"


def as_data_as_json(value: object) -> object:
    """Converts tuples to lists, as JSON does."""
    if isinstance(value, dict):
        return {name: as_data_as_json(v) for name, v in value.items()}
    return [as_data_as_json(v) for v in value] if isinstance(value, list | tuple) else value


def test_names_are_no_markup(runs: Path) -> None:
    """Names come from files that others have made."""
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
    report = report_runs([read_run(runs / "weight.zolog", [])])
    (run,) = report.runs
    layers = tuple(dataclasses.replace(c, layer=evil) for c in run.layers)
    report = dataclasses.replace(report, runs=(dataclasses.replace(run, name=evil, log=evil, layers=layers),) * 2)
    text = page(report)
    found = parsed_page(text)
    assert "<script>alert" not in text and "<img" not in text
    assert data_of(found)["runs"][0]["name"] == evil
    assert evil in found.text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str) -> None:
    """Checks WCAG AA: 4.5 for text, 3 for the essential parts of a picture."""
    css = files("tflm_zo.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    own = colours(css)[scheme]
    texts = [(name, ground) for name in ("text", "quiet", "link") for ground in ("page", "raised")]
    texts += [("notice-text", "notice"), *((name, "page") for name in SERIES)]
    texts += [(f"{level}-text", level) for level in LEVELS]
    for name, ground in texts:
        assert contrast(own[name], own[ground]) >= 4.5, (name, ground)
    for name in ("bar", "before", "after", *SERIES):
        assert contrast(own[name], own["page"]) >= 3, name
    # The ends of the scale of colours are far apart, and each step goes the same way.
    ramp = [contrast(own[level], own["page"]) for level in LEVELS]
    assert ramp == sorted(ramp) and ramp[-1] > 10


def test_every_variable_has_a_colour(pages: dict[str, str]) -> None:
    css = files("tflm_zo.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    schemes = colours(css)
    used = {name for text in (css, *pages.values()) for name in re.findall(r"var\(--([\w-]+)\)", text)}
    plain = {name for name in used if not name.endswith("-")}
    assert plain <= set(schemes["light"]) and set(schemes["light"]) >= {*SERIES, *LEVELS}
    dark = css.partition("@media screen and (prefers-color-scheme: dark)")[2].partition("* {")[0]
    assert set(re.findall(r"--([\w-]+):", dark)) == set(schemes["light"])


def styles(node: Node) -> dict[str, str]:
    """Returns the declarations of an element's style."""
    return dict(part.split(": ") for part in node.get("style").split("; ") if part)


def test_lines_differ_by_more_than_their_colours(pages: dict[str, str]) -> None:
    """Gives each run a dash and a marker of its own, and the dash of its card."""
    found = parsed_page(pages["eight"])
    (figure,) = [f for f in found.all("figure") if f.get("id") == "measured-loss"]
    dashes, marks = {}, {}
    for line in (styles(n) for n in figure.all("path")):
        if line.get("stroke-width") == "2" and line.get("stroke", "").startswith("var(--s"):
            dashes[line["stroke"]] = line.get("stroke-dasharray", "")
    shapes = {f"#{n.get('id')}": n.get("d") for defs in figure.all("defs") for n in defs.all("path")}
    for mark in figure.all("use"):
        colour = styles(mark).get("fill", "")  # rings have none
        if colour.startswith("var(--s"):
            marks[colour] = shapes[mark.get("xlink:href")]
    assert set(dashes) == set(marks) == {f"var(--s{i})" for i in range(8)}
    assert len(set(dashes.values())) == len(set(marks.values())) == 8
    (style,) = found.all("style")
    of_cards = dict(re.findall(r"\.d(\d) \{ stroke-dasharray: ([\d ]+); \}", style.text))
    assert {name: dash.replace(",", " ") for name, dash in dashes.items()} == {
        f"var(--s{i})": of_cards.get(str(i), "") for i in range(8)
    }


def test_a_line_is_drawn_where_its_numbers_are(pages: dict[str, str]) -> None:
    """Converts the picture's points back through its ticks to the measurements of the JSON."""
    found = parsed_page(pages["one"])
    (figure,) = [f for f in found.all("figure") if f.get("id") == "measured-accuracy"]
    (line,) = [n for n in figure.all("path") if styles(n).get("stroke-width") == "2" and n.get("d").count("L") > 2]
    points = [tuple(map(float, p.split())) for p in re.split("[ML]", line.get("d"))[1:]]
    # The text of a tick comes after its mark at the horizontal axis, or after its line of the grid.
    xs, ys = {}, {}
    for mark, text in pairwise(node for node in figure.all("svg")[0].every if node.tag in ("path", "use", "text")):
        if text.tag == "text" and mark.tag == "use":
            xs[text.text] = float(mark.get("x"))
        elif text.tag == "text" and mark.tag == "path":
            ys[text.text] = float(mark.get("d").split()[1].split("L")[0])
    measured = data_of(found)["runs"][0]["measurements"]
    assert len(points) == len(measured)
    for (_, y), m in zip(points, measured, strict=True):
        assert (ys["0 %"] - y) / (ys["0 %"] - ys["100 %"]) == pytest.approx(m["accuracy"], abs=0.002)
    ends = {float(label.replace("k", "e3")): x for label, x in xs.items() if label[0].isdigit()}
    low, high = min(ends), max(ends)
    expected = ends[low] + (measured[-1]["equivalents"] - low) / (high - low) * (ends[high] - ends[low])
    assert points[-1][0] == pytest.approx(expected, abs=0.2)


def test_the_same_picture_every_time(runs: Path, pages: dict[str, str]) -> None:
    run = read_run(runs / "long.zolog", [])
    assert page(report_runs([run])) == pages["long"]


def test_ranges_of_a_long_curve() -> None:
    """Every step is in one range, and each range has its own extremes and mean."""
    import numpy as np

    losses = np.random.default_rng(0).random(100_003)
    found = curve_of(losses, lambda steps: 3.0 * steps)
    assert len(found.steps) == 200 and found.steps[-1] == 100_003
    begin = 0
    for end, cost, mean, least, most in zip(*dataclasses.astuple(found), strict=True):
        assert end - begin in (500, 501) and cost == pytest.approx(3.0 * end, rel=1e-5)
        own = losses[begin:end]
        assert (mean, least, most) == pytest.approx((own.mean(), own.min(), own.max()), rel=1e-5)
        begin = end
    few = curve_of(losses[:3], float)
    assert few.steps == (1, 2, 3) and few.mean == pytest.approx(losses[:3], rel=1e-5)
    assert curve_of(losses[:0], float).steps == ()


@pytest.mark.parametrize(("falls_to", "logarithmic"), [(0.21, True), (1.9, False), (0.0, False)])
def test_losses_that_fall_far_have_a_logarithmic_axis(falls_to: float, logarithmic: bool) -> None:
    figure = line_chart([Line("run", 0, [(0.0, 11.2), (10.0, falls_to)])], "", "loss")
    (axes,) = figure.axes
    assert (axes.get_yscale() == "log") == logarithmic
    assert ("loss, logarithmic" in svg(figure, "run", "", "")) == logarithmic
    low, high = axes.get_ylim()
    assert low <= max(falls_to, 11.2e-5) and high >= 11.2 and (logarithmic or low == 0)
    assert len([tick for tick in axes.get_yticks() if low <= tick <= high]) >= 3


def test_names_in_pictures_are_text() -> None:
    """Names with signs of markup and of formulas, and in scripts that Matplotlib's font lacks."""
    name = "<b>$x^2$ 層&"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = svg(line_chart([Line(name, i, [(0.0, 1.0)]) for i in range(2)], "", ""), "run", name, name)
    texts = [node.text for node in parsed_page(drawn).every if node.tag in ("text", "title", "desc")]
    assert texts.count(name) == 4


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'tflm_zo\[report\]'"):
        write_report(tmp_path / "page.html", tmp_path / "run.zolog")
