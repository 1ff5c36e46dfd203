"""The output of each command, as text and as JSON."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import tflm_zo
from helpers.commands import parsed, result_of, run, wrong_usage
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import run_plain
from helpers.models import MODELS
from helpers.models.streaming_networks import with_variables
from tflm_zo.converters import (
    ConversionError,
    InjectSettings,
    Last,
    export_model,
    inject,
    load_model,
    read_metadata,
)
from tflm_zo.converters.passes.layer_names import shown_name
from tflm_zo.training import algorithms, inject_settings

INJECT = ("inject", "--algorithm", "weight")


# --- inject -------------------------------------------------------------------------------------------------


def test_inject(cli: Any, model_file: Any, tmp_path: Path) -> None:
    model, output = model_file("lenet5"), tmp_path / "out.zo.tflite"
    result = run(*INJECT, model, "-o", output)
    weights = "61,470 weights, 5 block(s), 1 segment(s), batch 1"
    for said in ("conv1", "48,000", weights, "cross_entropy over 10", str(output)):
        assert said in result.stdout
    assert output.read_bytes() == inject_all(model, algorithm="weight").to_bytes()


def test_inject_with_every_option(cli: Any, model_file: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.zo.tflite"
    options = [
        *("--trainable", "conv*", "--trainable", "fc3", "--block", "body=conv1,conv2", "--headroom", 4),
        *("--update-bits", 8, "--max-queries", 3, "--batch", 2, "--loss", "cross_entropy"),
        *("--loss-output", "softmax", "--cut", "pool1", "--cut", "fc1", "--command-words", 99, "--no-replay"),
    ]
    result = result_of(*INJECT, model_file("lenet5"), "-o", output, *options)
    metadata = read_metadata(load_model(output))
    assert metadata.blocks == ("body", "fc3") == tuple(result["blocks"])
    assert (metadata.headroom, metadata.update_bits, metadata.max_queries) == (4, 8, 3)
    assert (metadata.batch, metadata.command_words, metadata.replay) == (2, 99, False)
    assert len(metadata.segments) == 3 == result["segments"]
    assert [t["layer"] for t in result["trainable"]] == ["conv1", "conv2", "fc3"]
    assert result["trainable_weights"] == 150 + 2400 + 840
    assert result["bytes"] == output.stat().st_size
    assert result["loss"]["kind"] == "cross_entropy"


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


def test_inject_takes_the_loss_of_a_sequence(tmp_path: Path) -> None:
    model, output = tmp_path / "wake_word.tflite", tmp_path / "out.zo.tflite"
    with_variables().save(model)
    for given, expected in (([], "largest"), (["--loss-over", "sum"], "sum")):
        found = result_of(*INJECT, model, "-o", output, *given, "--force")
        assert found["loss"]["over"] == expected


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
    result = run("inspect", model, "--cuts")
    for said in ("plain model", "61,470 weights", "416,520 MACs", "CONV_2D", "pool2", "Possible cuts"):
        assert said in result.stdout
    content = result_of("inspect", model, "--cuts")
    assert content["kind"] == "plain"
    assert content["inputs"][0]["shape"] == [1, 28, 28, 1]
    assert (content["inputs"][0]["scale"], content["inputs"][0]["zero_point"]) == (1 / 64, 3)
    assert "pool1" in content["cuts"]
    costs = {op["output"]: (op["weights"], op["macs"]) for op in content["operators"]}
    assert costs["conv2"] == (2400, 10 * 10 * 16 * 150)
    assert costs["pool1"] == (0, 0)


@pytest.mark.parametrize("name", slow_but(("small_cnn", "residual", "two_inputs", "float_edges"), list(MODELS)))
def test_inspect_any_model(cli: Any, model_file: Any, tmp_path: Path, name: str) -> None:
    plain = result_of("inspect", model_file(name))
    run(*INJECT, model_file(name), "-o", "out.zo.tflite", "--batch", 3)
    zo = result_of("inspect", "out.zo.tflite")
    run("inspect", "out.zo.tflite")
    assert zo["macs"] == 3 * plain["macs"] > 0
    assert zo["weights"] == plain["weights"] > 0
    assert not any(op["trainable"] for op in plain["operators"])
    trainable = sum(t["size"] for t in zo["zo"]["trainable"])
    assert sum(op["weights"] for op in zo["operators"] if op["trainable"]) == trainable > 0
    assert zo["zo"]["batch"] == 3


def test_inspect_depthwise_macs(cli: Any, model_file: Any) -> None:
    content = result_of("inspect", model_file("depth_multiplier"))
    (op,) = [op for op in content["operators"] if op["operator"] == "DEPTHWISE_CONV_2D"]
    assert op["macs"] == 4 * 4 * 6 * 9  # 9 x 9 x 2, valid, stride 2, multiplier 3


def test_inspect_cuts_of_a_zo_model(cli: Any, model_file: Any) -> None:
    run(*INJECT, model_file(), "-o", "out.zo.tflite")
    result = cli("inspect", "out.zo.tflite", "--cuts")
    assert result.exit_code == 1
    assert "--cuts takes a plain model" in result.stderr


# --- export -------------------------------------------------------------------------------------------------


def test_export(cli: Any, model_file: Any, tmp_path: Path) -> None:
    run(*INJECT, model_file(), "-o", "o.zo.tflite", "--batch", 4, "--headroom", 0)
    result = run("export", "o.zo.tflite", "-o", "plain.tflite", "--batch", 1)
    assert "plain.tflite: " in result.stdout
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    (before,) = run_plain(MODELS["small_cnn"](), "litert", [x])
    (after,) = run_plain(Path("plain.tflite").read_bytes(), "litert", [x])
    np.testing.assert_array_equal(before, after)

    weights = {name: w // 2 for name, w in tflm_zo.converters.initial_weights(load_model("o.zo.tflite")).items()}
    np.savez("weights.npz", **weights)
    given = ("export", "o.zo.tflite", "-o", "half.tflite", "--weights", "weights.npz", "--batch", 1)
    content = result_of(*given)
    assert content["weights"] == sorted(weights)
    assert content["bytes"] == Path("half.tflite").stat().st_size
    constants = {t.name: t for t in load_model("half.tflite").subgraphs[0].tensors if t.is_constant}
    for name, value in weights.items():
        np.testing.assert_array_equal(constants[name].numpy(), value)


def test_export_with_the_range_of_the_weights(cli: Any, model_file: Any, tmp_path: Path) -> None:
    run(*INJECT, model_file(), "-o", "o.zo.tflite")
    initial = tflm_zo.converters.initial_weights(load_model("o.zo.tflite"))
    weights = {name: w // 2 for name, w in initial.items()}
    fractions = {name: np.full_like(w, 100) for name, w in initial.items()}
    np.savez("weights.npz", **weights)
    np.savez("fractions.npz", **fractions)
    arguments = ["export", "o.zo.tflite", "-o", "plain.tflite", "--weights", "weights.npz", "--re-range"]
    result = run(*arguments, "--fractions", "fractions.npz")
    assert "scales from the range of the weights" in result.stdout
    expected = export_model("o.zo.tflite", weights, fractions=fractions, re_range=True)
    assert Path("plain.tflite").read_bytes() == expected.to_bytes()
    assert result_of(*arguments, "--force")["re_range"] is True
    expected = export_model("o.zo.tflite", weights, re_range=True)
    assert Path("plain.tflite").read_bytes() == expected.to_bytes()


def test_export_refuses(cli: Any, model_file: Any, data_file: Any, tmp_path: Path) -> None:
    run(*INJECT, model_file(), "-o", "o.zo.tflite")
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
    options = {"batch": 2, "per_channel_dense": False, "activation_headroom": 0.25, "classes": 9}
    assert converter == {"model": "model.keras", "representative": "train.npz", **options}
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


WEIGHT = {"settings": inject_settings(algorithms.weight())}
# Options of the command line, and the same in Python.
SAME: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    ((), {}),
    (("--batch", "4"), {"batch": 4}),
    (("--trainable", "last:1"), {"trainable": Last(1)}),
    (("--trainable", "all"), {"trainable": "all"}),
    (("--trainable", "none"), {"trainable": "none"}),
    (("--nodes", "fc1", "--nodes", "fc2"), {"nodes": ["fc1", "fc2"]}),
    (("--headroom", "1", "--update-bits", "8"), {"headroom": 1, "update_bits": 8}),
    (("--loss", "floor-log2", "--max-queries", "4"), {"loss": "floor_log2", "max_queries": 4}),
    (("--loss", "floor_log2"), {"loss": "floor_log2"}),
    (("--cut", "layers", "--replay"), {"cuts": "layers", "replay": True}),
    (("--multipliers", "quantization-aware"), {"multipliers": "quantization-aware"}),
    (("--algorithm", "weight"), WEIGHT),
]


@pytest.mark.parametrize(("options", "given"), SAME, ids=[" ".join(o) or "defaults" for o, _ in SAME])
def test_the_same_bytes(
    options: tuple[str, ...], given: dict[str, Any], tmp_path: Path, cli: Callable[..., Any]
) -> None:
    plain, output = tmp_path / "plain.tflite", tmp_path / "zo.tflite"
    plain.write_bytes(MODELS["lenet5"]())
    run("inject", plain, "-o", output, *options)
    assert output.read_bytes() == inject(plain, **given).to_bytes()


def test_the_defaults_are_those_of_node_perturbation() -> None:
    model, usual = MODELS["lenet5"](), inject_settings(algorithms.node())
    assert inject(model).to_bytes() == inject(model, InjectSettings()).to_bytes()
    assert inject(model).to_bytes() == inject(model, usual).to_bytes()
    metadata = read_metadata(inject(model))
    assert metadata.algorithm == "node" and metadata.nodes and metadata.headroom == 0


# Of MLPerf Tiny's keyword spotter and person detector, and of TFLM's.
CONV = (
    "functional_1/activation_2/Relu;functional_1/batch_normalization_2/FusedBatchNormV3;functional_1/conv2d_1"
    "/BiasAdd/ReadVariableOp/resource;functional_1/conv2d_1/BiasAdd;functional_1/conv2d_4/Conv2D;functional_1"
    "/conv2d_1/Conv2D1"
)


@pytest.mark.parametrize(
    ("tensor", "shown"),
    [
        (CONV, "conv2d_1"),
        (
            "model/activation_1/Relu;model/batch_normalization_1/FusedBatchNormV3;model/depthwise_conv2d/depthwise;"
            "model/depthwise_conv2d/BiasAdd;model/depthwise_conv2d/BiasAdd/ReadVariableOp/resource1",
            "depthwise_conv2d",
        ),
        ("sequential/re_lu/Relu;sequential/bn/FusedBatchNormV3;sequential/conv/Conv2D", "conv"),
        ("model/dense/MatMul;model/dense/BiasAdd", "dense"),
        ("model/activation_2/Relu;model/add/add", "activation_2"),
        ("MobilenetV1/MobilenetV1/Conv2d_10_pointwise/Relu6", "Conv2d_10_pointwise"),
        ("Identity_int8", "Identity_int8"),
        ("conv/filter", "conv/filter"),
        ("", ""),
        (";", ";"),
        ("x" * 150, "x" * 39 + "…"),
    ],
)
def test_shown_name(tensor: str, shown: str) -> None:
    assert shown_name(tensor) == shown


def test_tables_and_errors_show_the_layer_and_json_the_name(cli: Any, model_file: Any, tmp_path: Path) -> None:
    model = load_model(model_file())
    for tensor in model.subgraphs[0].tensors:
        tensor.name = {"conv": CONV, "conv/filter": "functional_1/conv2d_1/Conv2D"}.get(tensor.name, tensor.name)
    model.save(tmp_path / "long.tflite")
    told = cli("inspect", "long.tflite")
    assert "conv2d_1" in told.stdout and "BatchNorm" not in told.stdout
    names = [op["output"] for op in result_of("inspect", "long.tflite")["operators"]]
    assert CONV in names
    # Names that users have to type again are not shortened.
    assert CONV in cli("inspect", "long.tflite", "--cuts").stdout
    model.subgraphs[0].operators[0].outputs[0].type = 7  # INT16
    model.save(tmp_path / "bad.tflite")
    refused = cli("inject", "bad.tflite", "-o", "z.tflite")
    assert refused.exit_code == 1 and "CONV_2D `conv2d_1`" in refused.stderr
