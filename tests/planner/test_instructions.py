"""Estimated instructions against those counted by the emulator (docs/costs.md)."""

import dataclasses
import itertools
import os
import re
from pathlib import Path

import pytest

from helpers.models import MODELS
from helpers.models.streaming_networks import with_variables
from helpers.pages import DOCS
from tflm_zo import inject
from tflm_zo.converters import Last, Model, ZoNodes, load_model, read_metadata
from tflm_zo.firmware.planning import plan_run
from tflm_zo.planner.instructions import FEATURES, Instructions, _windows, clamped_shares, instruction_table
from tflm_zo.training import Settings, Weights, algorithms, inject_settings

FOLDER = Path(os.environ.get("TFLM_ZO_MODELS") or ".")
FILES = {
    "KWS (DS-CNN)": "kws_ref_model.tflite",
    "VWW (MobileNet)": "vww_96_int8.tflite",
    "ResNet-8": "pretrainedResnet_quant.tflite",
}
NETWORKS = ("LeNet-5", *FILES)
CORES = {"M4": "cortex-m4", "M55": "cortex-m55"}
NEAR = 0.15
# Steps of node perturbation with minibatches of 4 of MLPerf Tiny's autoencoder, of all layers and of the last
# five, as benchmarks/plan.py counted them.
AUTOENCODER = {
    "cortex-m4": {None: 67_425_361, Last(5): 32_310_981},
    "cortex-m55": {None: 37_486_165, Last(5): 19_698_962},
}
# Steps of exact gradients with one sample, as benchmarks/plan.py counted them.
EXACT = {
    "kws_ref_model.tflite": {"cortex-m4": 31_572_181, "cortex-m55": 22_845_220},
    "pretrainedResnet_quant.tflite": {"cortex-m4": 93_959_121, "cortex-m55": 44_911_282},
}


def model_of(name: str) -> Model:
    if name == "LeNet-5":
        return load_model(MODELS["lenet5"]())
    path = FOLDER / FILES.get(name, name)
    if not path.is_file():
        pytest.skip(f"TFLM_ZO_MODELS HAS NO {path.name}: ITS INSTRUCTIONS WERE NOT COMPARED")
    return load_model(path)


def counted(network: str, core: str) -> list[float]:
    """Reads inference and the two queries of weight perturbation from the page's table."""
    page = (DOCS / "costs.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {re.escape(network)} \| {core} \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|", page, re.M)
    return [float(cell.replace(",", "")) for cell in row]


def test_the_table_has_what_is_read_of_it() -> None:
    table = instruction_table()
    assert {"cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn", "cortex-m0plus-reference"} <= set(table["operators"])
    for kernels in table["operators"].values():
        for coefficients in kernels.values():
            assert set(coefficients) <= set(FEATURES)
            assert all(value > 0 for value in coefficients.values())
    names = {tuple(sorted(own)) for own in table["training"].values()}
    assert len(names) == 1


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("network", NETWORKS)
def test_inference_and_weight_perturbation(network: str, core: str) -> None:
    model, (inference, four, one) = model_of(network), counted(network, core)
    own = Instructions(CORES[core], "cmsis_nn")
    assert own.inference(model) == pytest.approx(inference, rel=NEAR)
    zo = inject(model, trainable="all", nodes=(), headroom=1, update_bits=8, replay=False)
    for queries, ratio in ((4, four), (1, one)):
        settings = Settings(tasks=(Weights(queries=queries),), batch_size=1)
        step = own.step(zo, read_metadata(zo), plan_run(zo, settings, steps=1, samples=1))
        assert step == pytest.approx(2 * queries * ratio * inference, rel=NEAR)


def test_kernels_of_buffers_cost_a_copy() -> None:
    """They had the cost of an activation for each value once, ten times that of the whole wake word."""
    model = with_variables()
    for core in ("cortex-m4", "cortex-m55"):
        own = Instructions(core, "cmsis_nn")
        for op in (op for graph in model.subgraphs for op in graph.operators if op.outputs):
            if op.code.name in ("STRIDED_SLICE", "READ_VARIABLE", "CONCATENATION"):
                assert own.operator(op) < 1_500 + 200 * op.outputs[0].shape[1]
    unmeasured = Instructions("rv32imc", "reference")
    slices = [op for op in model.subgraphs[0].operators if op.code.name == "STRIDED_SLICE"]
    assert unmeasured.operator(slices[0]) == Instructions("cortex-m4", "cmsis_nn").operator(slices[0])


@pytest.mark.parametrize("core", AUTOENCODER)
def test_node_perturbation_of_an_autoencoder(core: str) -> None:
    model, settings = model_of("ad01_int8.tflite"), algorithms.node(batch_size=4)
    zo = inject(model, inject_settings(settings, batch=1))
    own, metadata, clamped = Instructions(core, "cmsis_nn"), read_metadata(zo), clamped_shares(zo)
    for layers, count in AUTOENCODER[core].items():
        run = plan_run(zo, dataclasses.replace(settings, layers=layers), steps=1, samples=1)
        assert own.step(zo, metadata, run, clamped) == pytest.approx(count, rel=0.03)


@pytest.mark.parametrize("network", EXACT)
def test_exact_gradients(network: str) -> None:
    model, settings = model_of(network), algorithms.exact(batch_size=1)
    zo = inject(model, inject_settings(settings, batch=1))
    metadata, clamped, run = read_metadata(zo), clamped_shares(zo), plan_run(zo, settings, steps=1, samples=1)
    for core, count in EXACT[network].items():
        assert Instructions(core, "cmsis_nn").step(zo, metadata, run, clamped) == pytest.approx(count, rel=0.1)


@pytest.mark.parametrize(("stride", "dilation", "pad"), [(1, 1, 1), (2, 1, 0), (1, 2, 2)])
def test_elements_beyond_the_image_are_not_counted(stride: int, dilation: int, pad: int) -> None:
    """Counts the elements of windows one by one."""
    g = {"in_h": 7, "in_w": 4, "k_h": 3, "k_w": 2, "out_h": 5, "out_w": 4, "pad_top": pad, "pad_left": 1}
    g |= {f"{name}_{side}": value for name, value in (("stride", stride), ("dilation", dilation)) for side in "hw"}
    taps = cut_rows = 0
    for h, w in itertools.product(range(g["out_h"]), range(g["out_w"])):
        rows = [y for i in range(3) if 0 <= (y := h * stride + i * dilation - pad) < 7]
        columns = [x for j in range(2) if 0 <= (x := w * stride + j * dilation - 1) < 4]
        taps += len(rows) * len(columns)
        cut_rows += 0 if (len(rows), len(columns)) == (3, 2) else len(rows)
    assert _windows(ZoNodes(0, "plain", 0, 0, 0, 1, False, g)) == (taps, cut_rows)


def test_what_is_not_clamped_costs_more() -> None:
    model = load_model(MODELS["lenet5"]())
    settings = algorithms.node(batch_size=4)
    zo = inject(model, inject_settings(settings, batch=1))
    own, metadata = Instructions("cortex-m4", "cmsis_nn"), read_metadata(zo)
    layers = [metadata.trainable[n.trainable].layer for n in metadata.nodes]
    run = plan_run(zo, settings, steps=1, samples=1)
    none, all_of_it = (own.step(zo, metadata, run, dict.fromkeys(layers, share)) for share in (0.0, 1.0))
    found = own.step(zo, metadata, run, clamped_shares(zo))
    assert all_of_it < found < none


def test_clamped_shares_are_those_of_a_rectified_layer() -> None:
    zo = inject(load_model(MODELS["lenet5"]()), inject_settings(algorithms.node(), batch=1))
    shares = clamped_shares(zo)
    assert shares is not None and all(0.3 < shares[layer] < 0.7 for layer in ("conv2", "fc1", "fc2"))
    assert shares["fc3"] < 0.2


def test_errors_of_an_exact_tail() -> None:
    """An error goes to one output of each window of a maximum pooling, and to none that an activation clamps."""
    zo = inject(load_model(MODELS["lenet5"]()), inject_settings(algorithms.exact(), batch=1))
    shares = clamped_shares(zo)
    assert shares is not None and set(shares) == {"conv1", "conv2", "fc1", "fc2"}
    assert all(0.75 < shares[layer] < 0.95 for layer in ("conv1", "conv2"))
    assert all(0.3 < shares[layer] < 0.7 for layer in ("fc1", "fc2"))


def test_the_larger_minibatch_takes_more() -> None:
    model = load_model(MODELS["lenet5"]())
    own = Instructions("cortex-m55", "cmsis_nn")
    steps = []
    for batch_size in (1, 8, 32):
        settings = algorithms.node(batch_size=batch_size)
        zo = inject(model, inject_settings(settings, batch=1))
        steps.append(own.step(zo, read_metadata(zo), plan_run(zo, settings, steps=1, samples=1)))
    assert steps[0] < steps[1] < steps[2] < 32 * steps[0]
