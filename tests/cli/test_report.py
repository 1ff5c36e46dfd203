"""``tflm-zo report`` and ``tflm-zo inspect --report``: their inputs and their refusals."""

import hashlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from helpers import commands
from helpers.commands import invoke, result_of, run
from helpers.html_pages import data_of, parsed_page
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.core import MEASUREMENT_BYTES

OPTIONS = ("--steps", 12, "--batch-size", 8, "--held-out", 0)


@pytest.fixture
def trained(folder: Path) -> Path:
    """Makes a run of each kind: node.tflite, weight.tflite, their models and logs."""
    for name in ("node", "weight"):
        run("train", "p.tflite", "d.npz", "-o", f"{name}.tflite", "--algorithm", name, *OPTIONS)
    return folder


def page_of(path: str) -> Any:
    return parsed_page(Path(path).read_text(encoding="utf-8"))


def refused(*arguments: Any) -> str:
    return commands.refused(Path(), "report", *arguments, said="").removeprefix("error: ")


@pytest.mark.parametrize("name", ["node", "weight"])
def test_a_run(name: str, trained: Path) -> None:
    done = run("report", f"{name}.zolog", "-o", "r.html", "--data", "d.npz")
    assert done.stdout.startswith(f"r.html: report of {name}, ") and done.stderr == ""
    page = page_of("r.html")
    (found,) = data_of(page)["runs"]
    assert (found["log"], found["model"]) == (f"{name}.zolog", f"{name}.zo.tflite")
    assert found["fingerprint"] == hashlib.sha256(Path(f"{name}.zo.tflite").read_bytes()).hexdigest()[:32]
    assert found["replay"]["command"] in page.text
    _, *command = shlex.split(found["replay"]["command"])
    run(*command)
    written = Path(command[-1]).read_bytes()
    assert found["replay"]["sha256"] == hashlib.sha256(written).hexdigest()
    assert written == Path(f"{name}.tflite").read_bytes()
    # Accuracies equal those of evaluate.
    after = result_of("evaluate", f"{name}.tflite", "d.npz")
    assert found["evaluation"]["after"] == {"loss": after["loss"], "accuracy": after["accuracy"]}
    run("export", f"{name}.zo.tflite", "-o", "before.tflite")
    before = result_of("evaluate", "before.tflite", "d.npz")
    assert found["evaluation"]["before"] == {"loss": before["loss"], "accuracy": before["accuracy"]}
    assert found["landscape"] is None and found["memory"]["ram_bytes"] > 0


def test_several_runs(trained: Path) -> None:
    result = result_of("report", "node.zolog", "weight.zolog", "-o", "r.html")
    page = page_of("r.html")
    assert result["output"] == "r.html" and result["bytes"] == Path("r.html").stat().st_size
    assert [r["name"] for r in result["runs"]] == ["node", "weight"]
    assert data_of(page) == {k: v for k, v in result.items() if k not in ("output", "bytes")}
    (losses,) = [f for f in page.all("figure") if f.get("id") == "training-loss"]
    colours = [re.findall(r"stroke: var\(--(s\d)\); stroke-width: 2", n.get("style")) for n in losses.all("path")]
    assert [colour for own in colours for colour in own] == ["s0", "s1"] * 2  # lines, and the legend
    assert {"node", "weight"} <= {text.text for text in losses.all("text")}


def test_a_landscape(trained: Path) -> None:
    assert refused("weight.zolog", "-o", "r.html", "--landscape").startswith("--landscape: ")
    result = result_of("report", "weight.zolog", "-o", "r.html", "--data", "d.npz", "--landscape")
    (found,) = result["runs"]
    middle = found["landscape"]["losses"][6][6]
    assert middle == pytest.approx(found["evaluation"]["after"]["loss"], rel=1e-5)
    assert "Loss landscape" in page_of("r.html").text


def test_a_log_without_its_model(trained: Path) -> None:
    Path("weight.zo.tflite").rename("other.zo.tflite")
    said = refused("weight.zolog", "-o", "r.html")
    assert said == "weight.zolog: its ZO model is not beside it (weight.zo.tflite); name it with --model"
    run("report", "weight.zolog", "-o", "r.html", "--model", "other.zo.tflite")
    both = ("--model", "node.zo.tflite", "--model", "other.zo.tflite")
    run("report", "weight.zolog", "node.zolog", "-o", "both.html", *both)


def test_a_log_of_another_model(trained: Path) -> None:
    Path("weight.zo.tflite").unlink()
    inject_all(MODELS["small_cnn"](), batch=4).save("weight.zo.tflite")
    said = refused("weight.zolog", "-o", "r.html")
    assert said.startswith("weight.zolog is of another model: it names the fingerprint ")
    assert said.endswith(", not that of weight.zo.tflite")
    assert "another model" in refused("node.zolog", "-o", "r.html", "--model", "weight.zo.tflite")
    plain = refused("node.zolog", "-o", "r.html", "--model", "p.tflite")
    assert plain.startswith("p.tflite is a plain model; ")


def test_logs_that_are_cut_off(trained: Path) -> None:
    """Names the last step of the log on the page, and in a warning."""
    log = Path("weight.zolog").read_bytes()
    Path("weight.zolog").write_bytes(log[:-70])
    done = run("report", "weight.zolog", "-o", "r.html")
    found = data_of(page_of("r.html"))["runs"][0]
    assert found["steps"] < found["planned_steps"] == 12
    assert f"its last complete step, {found['steps']} of 12" in found["notes"][0]
    assert found["notes"][0] in page_of("r.html").text
    assert done.stderr.startswith("warning: weight.zolog: the log ends within a record")
    assert done.stderr.count("\n") == 1
    # A whole number of records: it may have been interrupted between two steps, or be going on.
    header, record, measured = 132, 24, MEASUREMENT_BYTES
    Path("weight.zolog").write_bytes(log[: header + measured + 2 * record])
    assert "the log ends after step 2 of 12" in run("report", "weight.zolog", "-o", "r.html", "--force").stderr
    Path("weight.zolog").write_bytes(log[:header])
    run("report", "weight.zolog", "-o", "r.html", "--force")
    found = data_of(page_of("r.html"))["runs"][0]
    assert (found["steps"], found["curve"]["mean"]) == (0, [])
    assert "There is no step in the log." in page_of("r.html").text
    Path("weight.zolog").write_bytes(log[: header - 1])
    assert "ends within its header" in refused("weight.zolog", "-o", "new.html")


def test_snapshot_logs_that_are_cut_off(folder: Path) -> None:
    """Shows losses behind the last snapshot, but no weights."""
    options = (*OPTIONS[:4], "--keep", "last", "--set", "snapshot-every=5")
    run("train", "p.tflite", "d.npz", "-o", "node.tflite", *options)
    log = Path("node.zolog").read_bytes()
    Path("node.zolog").write_bytes(log[:-12])  # the snapshot after step 12 counts no more
    done = run("report", "node.zolog", "-o", "r.html")
    found = data_of(page_of("r.html"))["runs"][0]
    assert (found["steps"], found["kept_step"]) == (11, 10)
    assert "but not their weights" in " ".join(found["notes"]) and done.stderr.count("\n") == 2


def test_what_is_no_log(trained: Path) -> None:
    assert refused("absent.zolog", "-o", "r.html") == "absent.zolog: No such file or directory"
    assert "no seed log" in refused("d.npz", "-o", "r.html")
    assert "no seed log" in refused("p.tflite", "-o", "r.html")
    assert "does not exist" in refused("node.zolog", "-o", "absent/r.html")
    assert "are the same file" in refused("node.zolog", "-o", "node.zolog", "--force")
    assert "room for 1 to 8 runs" in refused(*["node.zolog"] * 9, "-o", "r.html")
    assert invoke("report", "-o", "r.html").exit_code == invoke("report", "node.zolog").exit_code == 2


def test_data_that_do_not_fit(trained: Path) -> None:
    assert "No such file" in refused("node.zolog", "-o", "r.html", "--data", "absent.npz")
    Path("text.npz").write_text("no data")
    refused("node.zolog", "-o", "r.html", "--data", "text.npz")


def test_a_page_is_replaced_only_if_asked(trained: Path) -> None:
    Path("r.html").write_text("precious")
    assert "r.html exists" in refused("node.zolog", "-o", "r.html")
    assert Path("r.html").read_text() == "precious"
    run("report", "node.zolog", "-o", "r.html", "--force")
    first = Path("r.html").read_bytes()
    run("report", "node.zolog", "-o", "r.html", "--force")
    assert Path("r.html").read_bytes() == first


@pytest.mark.parametrize("model", ["p.tflite", "node.zo.tflite"])
def test_a_page_of_a_model(model: str, trained: Path) -> None:
    result = result_of("inspect", model, "--report", "m.html", "-o", "m.json")
    assert json.loads(Path("m.json").read_text()) == result
    page = page_of("m.html")
    found = data_of(page)
    assert found["kind"] == "model" and found["name"] == model
    assert sum(op["macs"] for op in found["operators"]) == result["macs"]
    assert [op["name"] for op in found["operators"]] == [op["operator"] for op in result["operators"]]
    assert len(found["layers"]) == (0 if model == "p.tflite" else 2)
    assert ("What trains" in page.text) == (model != "p.tflite")
    done = invoke("inspect", model, "--report", "m.html")
    assert done.exit_code == 1 and "m.html exists" in done.stderr
    assert invoke("inspect", model, "--report", model, "--force").exit_code == 1
