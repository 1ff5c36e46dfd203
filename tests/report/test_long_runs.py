"""Reports of long runs: the page stays small, and a step costs next to nothing."""

import dataclasses
from functools import partial
from pathlib import Path

import pytest

from helpers.commands import run
from helpers.long_runs import calls_of, seed_log
from tflm_zo.converters import load_model
from tflm_zo.report import RunsReport, page, read_run, report_runs
from tflm_zo.report.document import Classes, Evaluated, Evaluation, Measured, Mistake


@pytest.mark.slow
def test_a_hundred_thousand_steps(runs: Path, tmp_path: Path) -> None:
    """Reports a run of LeNet-5, 61,470 weights."""
    output = tmp_path / "long.html"
    run("report", runs / "long.zolog", "-o", output)
    assert "100,000" in output.read_text(encoding="utf-8")
    assert output.stat().st_size < 1_000_000


def test_what_a_step_costs(runs: Path, tmp_path: Path) -> None:
    """Records are read one by one, by a few calls each, and nothing else grows with the run."""
    model = load_model(runs / "long.zo.tflite")
    model.save(tmp_path / "run.zo.tflite")
    calls, drawn, steps = [], [], (1000, 5000)
    page(report_runs([read_run(runs / "long.zolog", [])]))  # imports Matplotlib and its fonts
    for count in steps:
        (tmp_path / "run.zolog").write_bytes(seed_log(model, count)[0])
        calls.append(calls_of(lambda: report_runs([read_run(tmp_path / "run.zolog", [])])))
        drawn.append(calls_of(partial(page, report_runs([read_run(tmp_path / "run.zolog", [])]))))
    print(calls, drawn)
    assert (calls[1] - calls[0]) / (steps[1] - steps[0]) < 25
    assert calls[0] < 300_000
    assert drawn[1] / drawn[0] < 1.1 and drawn[0] < 700_000


@pytest.mark.slow
def test_the_largest_pages(runs: Path) -> None:
    """Reports the maximum of runs, of a network with 60 layers and 1,000 classes."""
    (found,) = report_runs([read_run(runs / "long.zolog", [])]).runs
    change = next(c for c in found.layers if c.histogram is not None and len(c.histogram.counts) > 35)
    layers = tuple(dataclasses.replace(change, layer=f"block_{i}/depthwise") for i in range(60))
    counts = tuple(range(1, 1001))
    data = Evaluation(
        data="test.npz",
        samples=sum(counts),
        before=Evaluated(6.0, 0.1),
        after=Evaluated(3.0, 0.4),
        classes=Classes(tuple(range(1000)), counts, tuple(c // 9 for c in counts), tuple(c // 3 for c in counts)),
        confusion_before=(),
        confusion=(),
        mistakes=tuple(Mistake(i, i + 1, 7, 99 - i) for i in range(30)),
    )
    measured = tuple(Measured(i * 5000, i * 1e5, 6.0 / (i + 1), 0.3, 10_000, i == 7) for i in range(21))
    whole = dataclasses.replace(found, layers=layers, evaluation=data, measurements=measured)
    text = page(RunsReport((whole,) * 8, "test"))
    assert 300_000 < len(text.encode()) < 1_000_000
    # 32 classes, the most that have a matrix.
    matrix = tuple(tuple(range(i, i + 32)) for i in range(32))
    classes = Classes(*(column[:32] for column in dataclasses.astuple(data.classes)))
    few = dataclasses.replace(data, classes=classes, confusion_before=matrix, confusion=matrix)
    text = page(RunsReport((dataclasses.replace(whole, evaluation=few),), "test"))
    assert text.count("fill: var(--h") > 2000 and len(text.encode()) < 1_000_000
    text = page(RunsReport((dataclasses.replace(whole, evaluation=few),) * 8, "test"))
    assert "confusion-after" not in text and len(text.encode()) < 1_000_000


def test_pages_are_small(pages: dict[str, str]) -> None:
    assert all(len(text.encode()) < 1_000_000 for text in pages.values())
    assert len(pages["long"].encode()) < 100_000
