"""Macros of a generated folder, as C reads them: the log's size, inputs, output and label."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from device.compiled import GCC
from device.emulation import needs_compiler
from device.runs import CLASSES, EACH_RUN, RUNS, desktop, generated, samples, zo_model
from helpers.models import MODELS
from tflm_zo import load_model
from tflm_zo.firmware import Firmware
from tflm_zo.logs import Log
from tflm_zo.logs.layout import padded

pytestmark = needs_compiler
UNITS = (1, 4, 32)


def printed(made: Firmware, folder: Path, *values: str) -> list[float]:
    """Prints values of C expressions in which `@` stands for the beginning of the folder's macros."""
    (folder / "small_zo_config.h").write_text(made.files["small_zo_config.h"])
    prints = "".join(f'  printf("%.17g\\n", (double)({v.replace("@", "SMALL_ZO_")}));\n' for v in values)
    shapes = "".join(f"  const int {p}[] = SMALL_ZO_{p}_SHAPE;\n" for p in ("INPUT_0", "OUTPUT"))
    main = f'#include <stdio.h>\n#include "small_zo_config.h"\nint main(void) {{\n{shapes}{prints}'
    main += "  (void)INPUT_0;\n  (void)OUTPUT;\n  return 0;\n}\n"
    (folder / "main.c").write_text(main)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    subprocess.run([GCC, "-std=c99", *warnings, "main.c", "-o", "main"], cwd=folder, check=True)
    done = subprocess.run([folder / "main"], capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", EACH_RUN)
def test_log_bytes_are_those_of_the_runs_log(name: str, tmp_path: Path) -> None:
    made = generated(zo_model(name), RUNS[name][1], samples())
    plain, measured = desktop(name).log, desktop(name, measure_every=2).log
    path = tmp_path / "log"
    path.write_bytes(measured)
    log = Log.read(path)
    count = len(log.measurements)
    assert printed(made, tmp_path, "@LOG_BYTES(1u, 0u)", f"@LOG_BYTES(1u, {count}u)") == [len(plain), len(measured)]


@pytest.mark.parametrize("name", ["weight", "node"])
def test_units_pad_each_part(name: str, tmp_path: Path) -> None:
    """Begins each part at a multiple of a larger unit."""
    made = generated(zo_model(name), RUNS[name][1], samples())
    expected = [len(padded(desktop(name).log, unit)) for unit in UNITS]
    assert printed(made, tmp_path, *(f"@LOG_BYTES({unit}u, 0u)" for unit in UNITS)) == expected


def test_inputs_and_output_are_the_models(tmp_path: Path) -> None:
    made = generated(zo_model("node"), RUNS["node"][1], samples())
    (graph,) = load_model(MODELS["small_cnn"]()).subgraphs
    ports = {"INPUT_0": graph.inputs[0], "OUTPUT": graph.outputs[0]}
    for port, tensor in ports.items():
        scale, zero_point, size, rank, *shape = printed(
            made,
            tmp_path,
            *(f"@{port}_{what}" for what in ("SCALE", "ZERO_POINT", "BYTES")),
            f"sizeof {port} / sizeof {port}[0]",
            *(f"{port}[{i}]" for i in range(len(tensor.shape) - 1)),
        )
        assert tensor.quantization is not None
        assert np.float32(scale) == np.float32(tensor.quantization.scale)
        assert zero_point == tensor.quantization.zero_point
        assert size == np.prod(tensor.shape[1:]) and rank == len(tensor.shape) - 1
        assert tuple(shape) == tensor.shape[1:]
    assert printed(made, tmp_path, "@CLASSES", "@LABEL_BYTES") == [CLASSES, 4]
