"""``tflm-zo firmware``: its files, its output and its refusals."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo as zo
from helpers.commands import refused, run, wrong_usage
from helpers.examples import slow_but
from helpers.firmware_folders import zo_model
from helpers.models import MODELS
from helpers.models.streaming_networks import with_variables
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.firmware import PLATFORMS, generate_firmware
from tflm_zo.runtime import RUNTIMES, RuntimeUnavailableError
from tflm_zo.training import Constant, Exact, Nodes, Settings, Weights
from tflm_zo.training.length import usual_epochs

pytestmark = pytest.mark.usefixtures("nothing_is_measured")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.9, 1.9, (7, 8, 8, 1)).astype(np.float32)
Y = RNG.integers(0, 4, 7)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("node", "weight"):
        zo_model(name).save(f"{name}.zo.tflite")
    Path("plain.tflite").write_bytes(MODELS["small_cnn"]())
    np.savez("d.npz", x=X, y=Y)
    return tmp_path


def done(*arguments: Any) -> Any:
    return run("firmware", *arguments)


def as_json(*arguments: Any) -> dict[str, Any]:
    result = done(*arguments, "--json")
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def define(folder: Path, name: str) -> str:
    return re.findall(rf"^#define \w+_{name} (.*)$", next(folder.glob("*_zo_config.h")).read_text(), re.M)[0]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", slow_but(["node"], ["node", "weight"]))
def test_every_platform_is_written(platform: str, name: str, files: Path) -> None:
    found = as_json(f"{name}.zo.tflite", "-o", "out", "--platform", platform)
    written = sorted(p.relative_to("out").as_posix() for p in Path("out").rglob("*") if p.is_file())
    assert found["files"] == written and found["kept"] == []
    assert (found["output"], found["platform"], found["algorithm"]) == ("out", platform, name)
    # Defaults: 100 samples, as many epochs of 13 minibatches of 8 (2 of 64) as take 9,600 samples (300 steps).
    assert found["samples"] == 100 and found["steps"] == (93 * 13 if name == "node" else 300)
    assert found["arena_measured"] is False and found["arena_bytes"] > found["trainable_bytes"] > 0
    assert found["model_bytes"] > 0 and found["workspace_bytes"] > 0


def test_what_it_says(files: Path) -> None:
    result = done("weight.zo.tflite", "-o", "out")
    for said in ("weight", "out: ", "files, cmake", "an upper bound: pip install 'tflm_zo[tflm]'"):
        assert said in result.stdout
    Path("out/weight_zo_samples.cc").write_text("// mine\n")
    result = done("weight.zo.tflite", "-o", "out", "--force")
    assert "kept, yours: weight_zo_samples.cc" in result.stdout
    assert as_json("weight.zo.tflite", "-o", "out", "--force")["kept"] == ["weight_zo_samples.cc"]


def test_samples_are_those_of_the_data_as_the_model_reads_them(files: Path) -> None:
    found = as_json("weight.zo.tflite", "-o", "out", "--data", "d.npz", "--samples", 5, "--epochs", 3)
    assert (found["samples"], found["steps"]) == (5, 3)
    text = Path("out/weight_zo_samples.cc").read_text()
    tensor = zo_model("weight").subgraphs[0].inputs[0]
    scale, zero_point = np.float32(tensor.quantization.scale), tensor.quantization.zero_point
    expected = np.clip(np.round(X[:5] / scale) + zero_point, -128, 127).astype(np.int8)

    def array(name: str) -> list[list[int]]:
        values = re.search(rf"{name}\[kCount\]\[\d+\] = \{{(.*?)\}};", text, re.S)
        assert values is not None
        return [[int(v) for v in row.split(",")] for row in re.findall(r"\{([^{}]*)\}", values[1])]

    assert array("kInput0") == expected.reshape(5, -1).tolist()
    assert array("kLabels") == Y[:5, None].tolist()
    assert "5 samples of d.npz" in text
    assert define(Path("out"), "ZO_SAMPLES") == "5u"
    # Without a number: all of them.
    assert as_json("weight.zo.tflite", "-o", "all", "--data", "d.npz")["samples"] == 7


@pytest.mark.parametrize("samples, steps", [(1, 1200), (128, 1200), (700, 1232), (1000, 1250), (100_000, 125_000)])
def test_length_of_a_run_is_that_of_train(samples: int, steps: int, files: Path) -> None:
    """Trains ten epochs of minibatches of 8, or as many complete ones as take 1,200 steps."""
    found = as_json("node.zo.tflite", "-o", "out", "--samples", samples)
    assert found["steps"] == steps == usual_epochs(Settings(batch_size=8), samples) * -(-samples // 8)


@pytest.mark.slow
def test_it_says_which_number_of_samples_it_assumed(files: Path) -> None:
    assumed = "takes it that the device has 100 samples: --samples or --data says how many"
    assert assumed in done("node.zo.tflite", "-o", "a").stdout
    for given in (["--samples", 100], ["--data", "d.npz"]):
        assert "takes it" not in done("node.zo.tflite", "-o", "b", "--force", *given).stdout
        assert as_json("node.zo.tflite", "-o", "b", "--force", *given)["samples_assumed"] is False


def test_samples_are_read_without_a_runtime(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A model that TFLM runs and LiteRT does not is accepted here.
    told = "--data", "d.npz", "--set", "learning-rate=1"  # which is not measured then
    before = as_json("weight.zo.tflite", "-o", "before", *told)
    assert before["no_self_test"] == ""

    def refuse(*_: Any) -> None:
        raise RuntimeUnavailableError("none is installed")

    for kind in RUNTIMES.values():
        monkeypatch.setattr(kind, "import_module", refuse)
    found = as_json("weight.zo.tflite", "-o", "out", *told)
    assert found["files"] == before["files"] and found["no_self_test"] == "none is installed"
    assert Path("out/weight_zo_samples.cc").read_bytes() == Path("before/weight_zo_samples.cc").read_bytes()


@pytest.mark.parametrize(
    ("name", "given", "settings"),
    [
        (
            "node",
            ["queries=4", "batch-size=16", "seed=7", "snapshot_every=5", "learning-rate=0.5"],
            Settings(tasks=(Nodes(queries=4),), batch_size=16, seed=7, snapshot_every=5, learning_rate=0.5),
        ),
        (
            "node",
            ["batch-size=16", "exact.last=1", "snapshot_every=5"],
            Settings(tasks=(Nodes(), Exact()), batch_size=16, snapshot_every=5),
        ),
        (
            "weight",
            ["queries=2", "batch-size=16", "seed=7", "schedule=constant"],
            Settings(tasks=(Weights(queries=2),), batch_size=16, seed=7, schedule=Constant()),
        ),
    ],
)
def test_settings_are_those_of_training(name: str, given: list[str], settings: Any, files: Path) -> None:
    options = [part for text in given for part in ("--set", text)]
    done(f"{name}.zo.tflite", "-o", "out", "--steps", 9, "--samples", 20, *options)
    expected = generate_firmware(zo_model(name), settings, steps=9, samples=20, name=name).files

    def tables(text: str) -> str:
        return text.partition(f"namespace {name}_zo {{")[2]

    assert tables(Path(f"out/{name}_zo_model.cc").read_text()) == tables(expected[f"{name}_zo_model.cc"]) != ""


def test_the_command_is_recorded(files: Path) -> None:
    done(
        *(files / "node.zo.tflite", "-o", files / "out", "--data", files / "d.npz"),
        *("--set", "seed=3", "--set", "queries=4", "--steps", "9", "--json"),
    )
    line = "tflm-zo firmware node.zo.tflite -o out --data d.npz --steps 9 --set seed=3 --set queries=4"
    for path in ("node_zo_config.h", "node_zo_model.cc", "README.md", "CMakeLists.txt", "node_zo_ops.c"):
        text = (files / "out" / path).read_text()
        assert line in text and str(files) not in text, path
    # How it ran changes nothing: the same bytes, and the same again elsewhere.
    before = {p: p.read_bytes() for p in (files / "out").rglob("*") if p.is_file()}
    done(*line.split()[2:], "--force")
    assert {p: p.read_bytes() for p in (files / "out").rglob("*") if p.is_file()} == before


def test_a_path_outside_is_named_without_its_folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "elsewhere").mkdir()
    monkeypatch.chdir(files / "elsewhere")
    done(files / "node.zo.tflite", "-o", "a b")
    text = (files / "elsewhere/a b/node_zo_config.h").read_text()
    assert " *   tflm-zo firmware node.zo.tflite -o 'a b'\n" in text


@pytest.mark.parametrize(
    "given", slow_but([["--algorithm", "weight"]], [[], ["--algorithm", "weight"], ["--set", "update-bits=8"]])
)
def test_of_a_plain_model_the_zo_model_is_made_and_written(given: list[str], files: Path) -> None:
    """Writes the folder of the ZO model, which is there for the desktop."""
    found = as_json("plain.tflite", "-o", "out", "--name", "m", *given)
    assert found["zo_model"] == "out.zo.tflite"
    run = [] if "--set" in given else given
    again = as_json("out.zo.tflite", "-o", "again", "--name", "m", *run)
    assert again["zo_model"] is None and again["files"] == found["files"]
    for path in Path("out").rglob("*.cc"):
        text, other = path.read_text(), Path("again", path.relative_to("out")).read_text()
        assert text.partition("namespace")[2] == other.partition("namespace")[2]
    assert read_metadata(load_model("out.zo.tflite")).batch == 1


def test_a_zo_model_is_not_replaced_unasked(files: Path) -> None:
    Path("out.zo.tflite").write_bytes(b"mine")
    refused(files, "firmware", "plain.tflite", "-o", "out", said="out.zo.tflite exists")
    assert not Path("out").exists() and Path("out.zo.tflite").read_bytes() == b"mine"
    done("plain.tflite", "-o", "out", "--force")
    assert load_model("out.zo.tflite") is not None


def ram(*given: Any) -> dict[str, Any]:
    return as_json("plain.tflite", "-o", "out", "--force", *given)


def test_the_first_way_that_fits_is_taken(files: Path) -> None:
    made = zo.plan("plain.tflite", ram=1)
    for limit in sorted({cost.ram for cost in made.costs}, reverse=True):
        best = zo.plan("plain.tflite", ram=limit).best
        assert best is not None
        found = ram("--ram", limit, "--set", "learning-rate=0.5")
        assert (found["algorithm"], found["trains"]["layers"]) == (
            best.way.settings.algorithm,
            list(best.way.trained.layers),
        )
        assert read_metadata(load_model("out.zo.tflite")).update_bits == best.way.update_bits
        # The folder has the printed sizes.
        assert define(Path("out"), "ZO_WORKSPACE_BYTES") == str(found["workspace_bytes"])
    forward_only = ram("--forward-only", "--set", "learning-rate=0.5")
    assert forward_only["algorithm"] == "node"


def test_a_device_infers_for_each_sample_of_a_step(files: Path) -> None:
    """It keeps no activations of the layers that are not trained, as the desktop does."""
    for samples, steps in ((4, 2), (4, 200)):
        given = ("--set", "exact.last=1", "--set", "layers=last:1", "--set", "learning-rate=1")
        found = ram(*given, "--samples", samples, "--steps", steps)
        assert found["trains"]["layers"] == ["fc"] and found["step_forwards"] >= found["batch_size"] == 8


def test_settings_that_are_given_stay(files: Path) -> None:
    options = ["--algorithm", "poor-mans-training", "--set", "update-bits=16"]
    needs = ram(*options)["ram_bytes"]
    assert ram("--ram", needs, *options)["memory_saved_by"] == []
    least = int(
        refused(
            files,
            *("firmware", "plain.tflite", "-o", "out", "--force", "--ram", "1K", *options),
            said="bytes for the run",
        )
        .split("at least ")[1]
        .split()[0]
        .replace(",", "")
    )
    assert least <= needs


def test_names(files: Path) -> None:
    zo_model("weight").save("My Model-2.zo.tflite")
    done("My Model-2.zo.tflite", "-o", "out")
    assert (files / "out/my_model_2_zo_model.cc").is_file()
    done("My Model-2.zo.tflite", "-o", "own", "--name", "kws")
    assert (files / "own/kws_zo_model.cc").is_file()
    assert define(files / "own", "ZO_MODEL_NAME") == '"kws"'


def test_the_readme_says_how_sequences_are_read(files: Path) -> None:
    zo.inject(with_variables(), trainable="all", nodes=(), headroom=1).save("stream.zo.tflite")
    done("stream.zo.tflite", "-o", "out", "--sequence", "7")
    done("weight.zo.tflite", "-o", "plain")
    said = Path("out/README.md").read_text()
    for part in ("sequence of 7 steps, `STREAM_ZO_SEQUENCE`", "sample * STREAM_ZO_SEQUENCE + step", "`continues` true"):
        assert part in said
    assert "STREAM_ZO_ERROR_ORDER" in next(Path("out").rglob("stream_zo_ops.h")).read_text()
    assert "equence" not in Path("plain/README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("none.tflite", "none.tflite: No such file"),
        ("d.npz", "d.npz: not a .tflite model"),
        ("node.zo.tflite --algorithm weight", "Inject the original model with"),
        ("weight.zo.tflite --algorithm node", "`--algorithm` must fit"),
        ("node.zo.tflite --ram some", "`--ram` must be bytes like 262144, 256K or 1M"),
        ("plain.tflite --ram 4K", "`--ram` must be at least 13,840 bytes for biases. Received: 4096."),
        ("node.zo.tflite --forward-only", "`--forward-only` must be left out, since the model is a ZO model already"),
        ("weight.zo.tflite --set foo=1", "`foo` must be a setting of algorithm weight: batch-size, learning-rate,"),
        ("weight.zo.tflite --set masked=true", "`--set masked` must be a setting of algorithm weight: batch-size,"),
        ("weight.zo.tflite --set seed=x", "`--set seed` must be an integer. Received: 'x'"),
        ("weight.zo.tflite --set batch-size=0", "`--set batch-size` must be an integer in 1..1048576"),
        ("node.zo.tflite --set rule=foo", "`--set nodes.rule` must be one of rms, gradient. Received: 'foo'"),
        ("node.zo.tflite --set update-bits=8", "`--set update-bits` must be left out, since the model is a ZO model"),
        ("weight.zo.tflite --name 9-x", "`--name` must be up to 48 letters, digits and underscores, a letter first"),
        ("weight.zo.tflite --samples 0", "`--samples` must be at least 1. Received: 0"),
        ("weight.zo.tflite --data d.npz --samples 8", "--samples: d.npz has 7, got 8"),
        ("weight.zo.tflite --epochs 0", "`--epochs` must be at least 1. Received: 0"),
        ("weight.zo.tflite --steps 0", "`--steps` must be at least 1. Received: 0"),
        ("weight.zo.tflite --steps 5 --epochs 5", "`--epochs` must be the only length of the run. Remove `--steps`"),
        ("weight.zo.tflite --data none.npz", "none.npz: cannot be read: No such file"),
        ("weight.zo.tflite -o no/out", "no/out: the folder no does not exist"),
        ("weight.zo.tflite -o d.npz", "d.npz is a file; name a folder"),
    ],
)
def test_refusals(arguments: str, said: str, files: Path) -> None:
    output = [] if "-o" in arguments.split() else ["-o", "out"]
    refused(files, "firmware", *arguments.split(), *output, said=said)
    assert not any(p.is_dir() for p in files.iterdir())


def test_wrong_usage(files: Path) -> None:
    for option, said in (("--platform", "cmake, make, arduino, zephyr, esp-idf"), ("--algorithm", "node, weight")):
        wrong_usage(files, "firmware", "weight.zo.tflite", "-o", "out", option, "iar", said=f"must be one of {said}")


def test_what_a_zo_model_has_no_choice_in_is_not_given_up(files: Path) -> None:
    for name in ("weight", "node"):
        told = "firmware", f"{name}.zo.tflite", "-o", "next", "--ram", "1K"
        message = refused(files, *told, said="`--ram` must be at least ")
        assert "--set" not in message and "8-bit" not in message


def test_folders_that_are_there(files: Path) -> None:
    (files / "mine").mkdir()
    (files / "mine/notes.txt").write_text("mine")
    for more, said in (
        ([], "mine exists. Choose another name, or use `--force`."),
        (["--force"], "so it is no generated firmware"),
    ):
        refused(files, "firmware", "weight.zo.tflite", "-o", "mine", *more, said=said)
        assert [p.name for p in (files / "mine").iterdir()] == ["notes.txt"]
