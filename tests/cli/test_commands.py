"""The output of each command, as text and as JSON."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import tflm_zo
from helpers.commands import parsed, wrong_usage
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import run_plain
from helpers.models import MODELS
from tflm_zo.converters import ConversionError, export_model, load_model, read_metadata

INJECT = ("inject", "--algorithm", "weight")


# --- inject -------------------------------------------------------------------------------------------------


def test_inject(cli: Any, model_file: Any, tmp_path: Path) -> None:
    model, output = model_file("lenet5"), tmp_path / "out.zo.tflite"
    result = cli(*INJECT, model, "-o", output)
    assert result.exit_code == 0
    for said in ("conv1", "48,000", "61,470 weights, 5 block(s), 1 segment(s), batch 1", str(output)):
        assert said in result.stdout
    assert output.read_bytes() == inject_all(model, algorithm="weight").to_bytes()


def test_inject_with_every_option(cli: Any, model_file: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.zo.tflite"
    options = [
        *("--trainable", "conv*", "--trainable", "fc3", "--block", "body=conv1,conv2", "--headroom", 4),
        *("--update-bits", 8, "--max-queries", 3, "--batch", 2, "--loss", "cross_entropy"),
        *("--loss-output", "softmax", "--cut", "pool1", "--cut", "fc1", "--command-words", 99, "--no-replay"),
    ]
    result = parsed(cli(*INJECT, model_file("lenet5"), "-o", output, *options, "--json"))
    metadata = read_metadata(load_model(output))
    assert metadata.blocks == ("body", "fc3") == tuple(result["blocks"])
    assert (metadata.headroom, metadata.update_bits, metadata.max_queries) == (4, 8, 3)
    assert (metadata.batch, metadata.command_words, metadata.replay) == (2, 99, False)
    assert len(metadata.segments) == 3 == result["segments"]
    assert [t["layer"] for t in result["trainable"]] == ["conv1", "conv2", "fc3"]
    assert result["trainable_weights"] == 150 + 2400 + 840
    assert result["bytes"] == output.stat().st_size
    assert result["loss"]["kind"] == "cross_entropy"


def test_inject_int16_layers(cli: Any, model_file: Any, tmp_path: Path) -> None:
    model, output = model_file("lenet5"), tmp_path / "out.zo.tflite"
    for given, expected in ((["fc1,fc3"], ["fc1", "fc3"]), (["last"], ["fc3"]), (["fc2", "fc3"], ["fc2", "fc3"])):
        options = [part for item in given for part in ("--int16", item)]
        result = parsed(cli(*INJECT, model, "-o", output, *options, "--force", "--json"))
        assert [t["layer"] for t in result["trainable"] if t["int16"]] == expected
    shown = cli(*INJECT, model, "-o", output, "--int16", "last", "--force").stdout
    assert shown.count("FULLY_CONNECTED, 16 bit") == 1
    result = parsed(cli("inject", model, "-o", output, "--algorithm", "qzo-ff-probe", "--force", "--json"))
    assert [(t["layer"], t["int16"]) for t in result["trainable"]] == [("fc3", True)]
    for given, said in (
        (["--int16", "last,fc1"], "`--int16` must have last or last:N alone. Received: 'last,fc1'"),
        (["--int16", "fc1,"], "`--int16` must be names of layers. Received: 'fc1,'"),
        (["--int16", "conv1"], "`--int16` must not include layer `conv1`, which is a CONV_2D"),
        (["--int16", "last", "--update-bits", 8], "`--update-bits` must be 16 where layers read weights of 16 bits"),
    ):
        failed = cli(*INJECT, model, "-o", output, *given, "--force")
        assert failed.exit_code == 1 and said in failed.stderr


@pytest.mark.parametrize("spelled", ["floor_log2", "floor-log2"])
def test_inject_with_the_floor_log2_loss(cli: Any, model_file: Any, tmp_path: Path, spelled: str) -> None:
    output = tmp_path / "out.zo.tflite"
    result = cli(*INJECT, model_file("lenet5"), "-o", output, "--loss", spelled)
    assert "floor_log2 over 10" in result.stdout
    assert output.read_bytes() == inject_all(model_file("lenet5"), loss="floor_log2", algorithm="weight").to_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trainable", "nowhere"], "nowhere"),
        (["--trainable", "all", "--trainable", "fc"], "alone. Received: 'all,fc'"),
        (["--block", "body"], "NAME=PATTERN"),
        (["--block", "b=conv", "--block", "b=fc"], "given twice"),
        (["--cut", "nowhere"], "nowhere"),
        (["--headroom", "113"], "`--headroom` must be at most 112, to leave weights of 5 bits"),
        (["--loss-output", "7"], "`--loss-output` must be one of 0 `fc`"),
        (["--batch", "0"], "`--batch` must be an integer in 1..1048576"),
    ],
)
def test_inject_refuses(cli: Any, model_file: Any, tmp_path: Path, options: list[str], said: str) -> None:
    result = cli(*INJECT, model_file(), "-o", tmp_path / "o", *options)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_inject_takes_the_losses_that_there_are(model_file: Any, tmp_path: Path) -> None:
    command = (*INJECT, model_file(), "-o", tmp_path / "o", "--loss", "hinge")
    wrong_usage(tmp_path, *command, said="must be one of auto, cross-entropy, floor-log2")


def test_inject_that_fails_at_its_end_leaves_no_file(
    cli: Any, model_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise ConversionError("what is shown cannot be said")

    monkeypatch.setattr("tflm_zo.cli.commands.inject.trained_layers", fail)
    result = cli(*INJECT, model_file(), "-o", tmp_path / "o")
    assert (result.exit_code, result.stderr) == (1, "error: what is shown cannot be said\n")
    assert not (tmp_path / "o").exists()


# --- inspect ------------------------------------------------------------------------------------------------


def test_inspect_plain(cli: Any, model_file: Any) -> None:
    model = model_file("lenet5")
    result = cli("inspect", model, "--cuts")
    assert result.exit_code == 0
    for said in ("plain model", "61,470 weights", "416,520 MACs", "CONV_2D", "pool2", "Possible cuts"):
        assert said in result.stdout
    content = parsed(cli("inspect", model, "--cuts", "--json"))
    assert content["kind"] == "plain"
    assert content["inputs"][0]["shape"] == [1, 28, 28, 1]
    assert (content["inputs"][0]["scale"], content["inputs"][0]["zero_point"]) == (1 / 64, 3)
    assert "pool1" in content["cuts"]
    costs = {op["output"]: (op["weights"], op["macs"]) for op in content["operators"]}
    assert costs["conv2"] == (2400, 10 * 10 * 16 * 150)
    assert costs["pool1"] == (0, 0)


@pytest.mark.parametrize("name", slow_but(("small_cnn", "residual", "two_inputs", "float_edges"), list(MODELS)))
def test_inspect_any_model(cli: Any, model_file: Any, tmp_path: Path, name: str) -> None:
    plain = parsed(cli("inspect", model_file(name), "--json"))
    assert cli(*INJECT, model_file(name), "-o", "out.zo.tflite", "--batch", 3).exit_code == 0
    zo = parsed(cli("inspect", "out.zo.tflite", "--json"))
    assert cli("inspect", "out.zo.tflite").exit_code == 0
    assert zo["macs"] == 3 * plain["macs"] > 0
    assert zo["weights"] == plain["weights"] > 0
    assert not any(op["trainable"] for op in plain["operators"])
    trainable = sum(t["size"] for t in zo["zo"]["trainable"])
    assert sum(op["weights"] for op in zo["operators"] if op["trainable"]) == trainable > 0
    assert zo["zo"]["batch"] == 3


def test_inspect_depthwise_macs(cli: Any, model_file: Any) -> None:
    content = parsed(cli("inspect", model_file("depth_multiplier"), "--json"))
    (op,) = [op for op in content["operators"] if op["operator"] == "DEPTHWISE_CONV_2D"]
    assert op["macs"] == 4 * 4 * 6 * 9  # 9 x 9 x 2, valid, stride 2, multiplier 3


def test_inspect_writes_the_json(cli: Any, model_file: Any, tmp_path: Path) -> None:
    result = cli("inspect", model_file(), "-o", tmp_path / "report.json", "--json")
    assert json.loads((tmp_path / "report.json").read_text()) == parsed(result)


def test_inspect_cuts_of_a_zo_model(cli: Any, model_file: Any) -> None:
    assert cli(*INJECT, model_file(), "-o", "out.zo.tflite").exit_code == 0
    result = cli("inspect", "out.zo.tflite", "--cuts")
    assert result.exit_code == 1
    assert "--cuts takes a plain model" in result.stderr


# --- export -------------------------------------------------------------------------------------------------


def test_export(cli: Any, model_file: Any, tmp_path: Path) -> None:
    assert cli(*INJECT, model_file(), "-o", "o.zo.tflite", "--batch", 4, "--headroom", 0).exit_code == 0
    result = cli("export", "o.zo.tflite", "-o", "plain.tflite", "--batch", 1)
    assert result.exit_code == 0
    assert "plain.tflite: " in result.stdout
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    (before,) = run_plain(MODELS["small_cnn"](), "litert", [x])
    (after,) = run_plain(Path("plain.tflite").read_bytes(), "litert", [x])
    np.testing.assert_array_equal(before, after)

    weights = {name: w // 2 for name, w in tflm_zo.converters.initial_weights(load_model("o.zo.tflite")).items()}
    np.savez("weights.npz", **weights)
    content = parsed(
        cli("export", "o.zo.tflite", "-o", "half.tflite", "--weights", "weights.npz", "--batch", 1, "--json")
    )
    assert content["weights"] == sorted(weights)
    assert content["bytes"] == Path("half.tflite").stat().st_size
    constants = {t.name: t for t in load_model("half.tflite").subgraphs[0].tensors if t.is_constant}
    for name, value in weights.items():
        np.testing.assert_array_equal(constants[name].numpy(), value)


def test_export_with_the_range_of_the_weights(cli: Any, model_file: Any, tmp_path: Path) -> None:
    assert cli(*INJECT, model_file(), "-o", "o.zo.tflite").exit_code == 0
    initial = tflm_zo.converters.initial_weights(load_model("o.zo.tflite"))
    weights = {name: w // 2 for name, w in initial.items()}
    fractions = {name: np.full_like(w, 100) for name, w in initial.items()}
    np.savez("weights.npz", **weights)
    np.savez("fractions.npz", **fractions)
    arguments = ["export", "o.zo.tflite", "-o", "plain.tflite", "--weights", "weights.npz", "--re-range"]
    result = cli(*arguments, "--fractions", "fractions.npz")
    assert result.exit_code == 0
    assert "scales from the range of the weights" in result.stdout
    expected = export_model(load_model("o.zo.tflite"), weights, fractions=fractions, re_range=True)
    assert Path("plain.tflite").read_bytes() == expected.to_bytes()
    assert parsed(cli(*arguments, "--force", "--json"))["re_range"] is True
    assert (
        Path("plain.tflite").read_bytes() == export_model(load_model("o.zo.tflite"), weights, re_range=True).to_bytes()
    )


def test_export_refuses(cli: Any, model_file: Any, data_file: Any, tmp_path: Path) -> None:
    assert cli(*INJECT, model_file(), "-o", "o.zo.tflite").exit_code == 0
    (tmp_path / "text.npz").write_text("no archive")
    np.save("one.npy", np.zeros(3))
    for arguments, said in [
        (["o.zo.tflite", "--weights", "absent.npz"], "absent.npz: cannot be read: No such file"),
        (["o.zo.tflite", "--weights", "text.npz"], "damaged"),
        (["o.zo.tflite", "--weights", "one.npy"], "`--weights` must name trainable filter tensors"),
        (["o.zo.tflite", "--weights", data_file("w.npz", nowhere=np.zeros(3, np.int8))], "nowhere"),
        (["o.zo.tflite", "--batch", "0"], "`--batch` must be an integer in 1..1048576"),
        (["o.zo.tflite", "--fractions", "one.npy"], "`--fractions` must name trainable filter tensors"),
        ([model_file()], "no ZO model"),
    ]:
        result = cli("export", *arguments, "-o", "plain.tflite")
        assert result.exit_code == 1
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
        assert not Path("plain.tflite").exists()


# --- convert ------------------------------------------------------------------------------------------------


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replaces TensorFlow's converter. The dictionary has its arguments."""
    from tflm_zo.conversion import ConversionReport, ConversionResult
    from tflm_zo.conversion import keras as module
    from tflm_zo.conversion.int8 import Port

    given: dict[str, Any] = {}

    def convert(model: Any, representative: Any, **options: Any) -> ConversionResult:
        given.update(options, model=model, representative=representative)
        port = SimpleNamespace(name="image", shape=(1, 8, 8, 1), scale=0.5, zero_point=3)
        ports = (Port(**vars(port)),)
        report = ConversionReport(ports, ports, ("CONV_2D",), 0.75, 0.5, ("few samples",))
        return ConversionResult(load_model(MODELS["small_cnn"]()), report)

    monkeypatch.setattr(module, "convert", convert)
    return given


def test_convert(cli: Any, converter: dict[str, Any], tmp_path: Path) -> None:
    Path("model.keras").touch()
    Path("train.npz").touch()
    options = ["--batch", 2, "--no-per-channel-dense", "--activation-headroom", 0.25, "--classes", 9]
    result = cli("convert", "model.keras", "train.npz", "-o", "model.tflite", *options, "--json")
    content = parsed(result)
    assert converter == {
        "model": "model.keras",
        "representative": "train.npz",
        "batch": 2,
        "per_channel_dense": False,
        "activation_headroom": 0.25,
        "classes": 9,
    }
    assert load_model("model.tflite").subgraphs
    assert (content["float_accuracy"], content["int8_accuracy"]) == (0.75, 0.5)
    assert content["warnings"] == ["few samples"]
    assert result.stderr == "warning: few samples\n"
    text = cli("convert", "model.keras", "train.npz", "-o", "model.tflite", "--force")
    assert "float 75.00%, int8 50.00%" in text.stdout


def test_convert_refuses(cli: Any, converter: dict[str, Any], tmp_path: Path) -> None:
    result = cli("convert", "absent.keras", "train.npz", "-o", "model.tflite")
    assert (result.exit_code, result.stderr) == (1, "error: absent.keras: no such file\n")
    Path("model.tflite").touch()
    result = cli("convert", "absent.keras", "train.npz", "-o", "model.tflite")
    assert "exists" in result.stderr
    assert converter == {}


def test_convert_with_tensorflow(cli: Any, data_file: Any) -> None:
    keras = pytest.importorskip("keras", reason="TensorFlow is not installed")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, activation="softmax")])
    model.save("model.keras")
    rng = np.random.default_rng(0)
    data = data_file(x=rng.normal(size=(60, 6)).astype(np.float32), y=rng.integers(0, 3, 60))
    content = parsed(cli("convert", "model.keras", data, "-o", "model.tflite", "--json"))
    assert content["int8_accuracy"] is not None
    assert parsed(cli("evaluate", "model.tflite", data, "--json"))["samples"] == 60


@pytest.mark.parametrize("zo", [False, True], ids=["plain", "zo"])
def test_summary_is_what_inspect_shows(zo: bool, cli: Any, tmp_path: Path, capsys: Any) -> None:
    model = load_model(MODELS["lenet5"]())
    if zo:
        model = tflm_zo.inject(model, nodes="auto", headroom=0, trainable="nodes", replay=False)
    path = model.save(tmp_path / "lenet5.tflite")
    model.summary()
    first, *rest = capsys.readouterr().out.splitlines()
    shown = cli("inspect", path).stdout.splitlines()
    size = path.stat().st_size
    assert first.startswith(f"model: {'ZO' if zo else 'plain'} model, {size:,} bytes, 61,470 weights, ")
    assert shown[0] == first.replace("model:", f"{path}:", 1)
    assert rest == shown[1 : 1 + len(rest)]
    assert any("FULLY_CONNECTED" in line for line in rest)
