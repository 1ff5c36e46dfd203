"""The self-test on emulated cores: right kernels pass it, a wrong one is named, and the run is as ever."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortex_m.emulator import CORES, run
from helpers.examples import REAL_MODELS
from helpers.injection import inject_all
from helpers.models import residual, two_inputs
from helpers.models.node_networks import mixer
from tflm_checkout.firmware_build import Library, build_firmware, on, replace_main
from tflm_zo import Model, inject, load_model
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Nodes, Settings, Weights, algorithms, inject_settings

TESTED = ("cortex-m0plus-reference", "cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn", "rv32imc-reference")

# Calls the self-test with right kernels, with one that is wrong in one layer, and with right ones again. Then
# the first step is done, and in a run that has begun it is refused.
MAIN = """
#include <stdio.h>
#include <string.h>

#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/micro/micro_common.h"
#include "zo_trainer.h"

namespace {
int wrong = -1, calls = 0;
constexpr int kOperators = @count@;

// What an operator does, and in one of them another byte.
template <int kKind>
struct Kernel {
  static TfLiteStatus (*own)(TfLiteContext*, TfLiteNode*);
  static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
    const TfLiteStatus status = own(context, node);
    if (calls++ % kOperators == wrong) {
      tflite::micro::GetEvalOutput(context, node, 0)->data.int8[0] ^= 1;
    }
    return status;
  }
};
template <int kKind>
TfLiteStatus (*Kernel<kKind>::own)(TfLiteContext*, TfLiteNode*) = nullptr;

alignas(16) uint8_t arena[ZO_ARENA_BYTES];
alignas(8) uint8_t workspace[ZO_WORKSPACE_BYTES];

void Try(int operator_number) {
  wrong = operator_number;
  zo_self_test found;
  const zo_status status = zo_trainer_self_test(&found);
  wrong = -1;
  printf("self-test %d %u %u %s\\n", status, static_cast<unsigned>(found.segment),
         static_cast<unsigned>(found.operator_number), found.layer == nullptr ? "-" : found.layer);
}
}  // namespace

@wraps@

int main() {
  Try(-1);
  if (zo_trainer_init(arena, sizeof arena, workspace, sizeof workspace, &tflm_zo::kSamples) != ZO_OK) {
    return 90;
  }
  const uint32_t checksum = zo_trainer_checksum();
  Try(-1);
  for (const int wanted : {@wanted@}) Try(wanted);
  Try(-1);
  printf("same weights %d\\n", zo_trainer_checksum() == checksum);
  zo_report report;
  if (zo_trainer_step(&report) != ZO_OK) return 91;
  printf("loss %ld\\n", static_cast<long>(report.mean_loss));
  Try(-1);
  static tflm_zo::Trainer trainer;
  if (trainer.Init(arena, sizeof arena, workspace, sizeof workspace, tflm_zo::kSamples) != ZO_OK) {
    return 92;
  }
  if (trainer.TrainStep(&report) != ZO_OK) return 93;
  printf("loss %ld\\n", static_cast<long>(report.mean_loss));
  return 0;
}
"""
OK, ORDER, KERNEL = 0, 4, 19
_NODES = algorithms.node(batch_size=2, learning_rate=20.0)
_WEIGHTS = Settings(tasks=(Weights(queries=2),), batch_size=2, learning_rate=20.0)
_EVERY_NODE = {"trainable": "nodes", "nodes": "*", "headroom": 0, "replay": False}
_RUNS: dict[str, tuple[Callable[[], bytes], dict[str, Any], Settings]] = {
    "residual, nodes": (residual, _EVERY_NODE, _NODES),
    "residual, weights": (residual, {"trainable": "all"}, _WEIGHTS),
    "two inputs, weights": (two_inputs, {"trainable": "all"}, _WEIGHTS),
    "input added": (mixer, _EVERY_NODE, Settings(tasks=(Nodes(queries=2),), batch_size=2, learning_rate=20.0)),
}


def wraps(resolver: str, cmsis_nn: bool) -> tuple[str, list[str]]:
    """Writes C++ that registers each of TFLM's kernels with another `invoke`; returns the linker's options."""
    calls = re.findall(r"\.Add(\w+)\((?:tflite::Register_(\w+)\(\))?\);", resolver)
    names = [given or re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", called).upper() for called, given in calls]
    if not cmsis_nn:
        names = [name.removesuffix("_INT8") for name in names]
    symbols = [f"_ZN6tflite{len(name) + 9}Register_{name}Ev" for name in names]
    texts = (
        f'extern "C" TFLMRegistration __real_{symbol}();\n'
        f'extern "C" TFLMRegistration __wrap_{symbol}() {{\n'
        f"  TFLMRegistration made = __real_{symbol}();\n"
        f"  Kernel<{i}>::own = made.invoke;\n"
        f"  made.invoke = Kernel<{i}>::Invoke;\n"
        f"  return made;\n}}\n"
        for i, symbol in enumerate(symbols)
    )
    return "\n".join(texts), [f"-Wl,--wrap={symbol}" for symbol in symbols]


def check(
    library: Library, plain: Model, zo: Model, settings: Settings, folder: Path, wanted: Sequence[int] | None
) -> None:
    made = generate_firmware(zo, settings, steps=2, samples=4, name="m")
    made.write(folder / "out")
    rows = re.findall(r'^    \{(?:"(.+)"|nullptr), 0x?\w+, \d+, \d+\},$', made.files["m_zo_model.cc"], re.M)
    layers = [row for row in rows if row and not row.endswith("(LOSS)")]
    assert rows[-1].endswith("(LOSS)")
    kinds = [op.code.name for op in plain.subgraphs[0].operators]
    assert [re.findall(r"\((\w+)\)$", layer)[0] for layer in layers] == kinds
    chosen = range(len(layers)) if wanted is None else [number % len(layers) for number in wanted]
    text, options = wraps(made.files["m_zo_op_resolver.h"], library.cmsis_nn)
    program = MAIN.replace("@wraps@", text).replace("@count@", str(len(layers)))
    replace_main(folder / "out", program.replace("@wanted@", ", ".join(map(str, chosen))))
    built = build_firmware(library, folder / "out", folder / "build", objects=[Path(o) for o in options])
    lines = run(CORES[library.core], built, timeout=1200).splitlines()
    said = [line.split(" ", 4)[1:] for line in lines if line.startswith("self-test ")]
    nothing = ["0", "0", "-"]
    assert said[:2] == [[str(ORDER), *nothing], [str(OK), *nothing]]  # before Init it is refused
    assert said[-2:] == [[str(OK), *nothing], [str(ORDER), *nothing]]
    assert [(status, layer) for status, _, _, layer in said[2:-2]] == [(str(KERNEL), layers[i]) for i in chosen]
    assert "same weights 1" in lines
    losses = {line for line in lines if line.startswith("loss ")}
    assert len(losses) == 1


@on(*TESTED)
@pytest.mark.parametrize("name", _RUNS)
def test_a_wrong_kernel_is_named(name: str, library: Library, tmp_path: Path) -> None:
    network, injection, settings = _RUNS[name]
    zo = load_model(inject_all(network(), **injection, batch=1).to_bytes())
    check(library, load_model(network()), zo, settings, tmp_path, None)


@pytest.mark.slow
@on(*TESTED)
@pytest.mark.parametrize("read", REAL_MODELS)
def test_a_wrong_kernel_of_a_real_model_is_named(read: Callable[[], bytes], library: Library, tmp_path: Path) -> None:
    plain = load_model(read())
    zo = inject(plain, inject_settings(_NODES, batch=1))
    rng = np.random.default_rng(1)
    wanted = sorted({0, -1, int(rng.integers(len(plain.subgraphs[0].operators)))})
    check(library, plain, zo, _NODES, tmp_path, wanted)
