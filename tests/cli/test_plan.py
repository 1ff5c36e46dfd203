"""``tflm-zo plan``: its output, its files and its refusals."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo as zo
from helpers.commands import refused, result_of, run, wrong_usage
from helpers.examples import slow_but
from helpers.models import MODELS
from helpers.models.streaming_networks import with_variables

BOARD = ("--board", "nano-33-ble")


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("lenet5.tflite").write_bytes(MODELS["lenet5"]())


def done(*arguments: str) -> Any:
    result = run("plan", "lenet5.tflite", *arguments)
    return result


def test_it_ends_with_what_fits_and_the_commands() -> None:
    lines = done(*BOARD).stdout.splitlines()
    assert lines[0].startswith("lenet5.tflite on Arduino Nano 33 BLE (Sense) (nRF52840), 64 MHz, 262,144 bytes")
    assert "flash: without the C library; newlib's printf takes 28 to 38 KB, newlib-nano's 8" in lines
    assert lines[-4].startswith("fits: exact gradients, 16-bit updates, minibatches of 1")
    assert lines[-3].startswith("trains 5 of 5 layers (100 % of the weights and 236 biases)")
    assert shlex.split(lines[-2])[:3] == ["tflm-zo", "train", "lenet5.tflite"]
    assert shlex.split(lines[-1])[:3] == ["tflm-zo", "firmware", "lenet5.trained.zo.tflite"]


def test_it_says_how_long_a_sample_is() -> None:
    with_variables().save("wake_word.tflite")
    for given, said in (((), "one inference"), (("--sequence", "80"), "a sequence of 80 inferences")):
        lines = run("plan", "wake_word.tflite", *given).stdout.splitlines()
        assert f"a sample is {said}; --sequence gives another length" in lines
    assert not any("a sample is" in line for line in done(*BOARD).stdout.splitlines())


def trained(train: str, shape: tuple[int, ...], *more: str) -> None:
    x = np.random.default_rng(0).random((20, *shape), np.float32)
    np.savez("adapt.npz", x=x, y=np.arange(20) % 4)
    run(*shlex.split(train)[1:], "--learning-rate", "1", "--steps", "1", *more)


def test_its_commands_are_commands() -> None:
    """Runs a plan's command for a small device: firmware accepts it, and its RAM is the estimated one."""
    found = json.loads(done("--ram", "90K", "--json").stdout)
    best = found["ways"][found["best"]]
    trained(found["commands"][0], (28, 28, 1))
    said = result_of(*shlex.split(found["commands"][1])[1:])
    assert said["arena_bytes"] == best["arena_bytes"]
    assert said["workspace_bytes"] == best["workspace_bytes"]
    assert said["trains"]["layers"] == best["layers"]


def test_the_table_of_the_firmware_has_the_ram_of_the_plan() -> None:
    Path("d.tflite").write_bytes(MODELS["depthwise_separable"]())
    found = zo.plan("d.tflite", ram=10**6)
    assert found.best is not None and found.best.sizes.ram.arena.bytes_mve > found.best.arena
    train, firmware = found.commands()
    trained(train, zo.load_model("d.tflite").subgraphs[0].inputs[0].shape[1:])
    said = run(*shlex.split(firmware)[1:])
    row = next(line for line in said.stdout.splitlines() if line.startswith("│ exact"))
    cells = [int(cell.replace(",", "")) for cell in row.strip("│").split("│")[5:]]
    assert cells[-1] == found.best.ram == sum(cells[:-1])


@pytest.mark.parametrize("options", slow_but([()], [(), ("--power", "30m")]))
def test_it_is_one_screen(options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = done(*BOARD, *options).stdout.splitlines()
    assert sum(-(-len(line) // 80) for line in lines) <= 40
    begins = [i for i, line in enumerate(lines) if line.startswith("trains by")]
    assert len(begins) == 2
    for begin in begins:
        table = lines[begin : begin + 2 + len(zo.plan("lenet5.tflite").shown())]
        assert max(map(len, table)) <= 80
    found = json.loads(done(*BOARD, *options, "--json").stdout)
    best = found["ways"][found["best"]]
    said = ("arena_bytes", "workspace_bytes", "ram_bytes", "flash_bytes", "log_bytes_per_step")
    wanted = [best["name"], len(best["layers"]), best["update_bits"], best["batch_size"]]
    wanted += [f"{best[name]:,}" for name in said]
    assert lines[begins[0] + 2].split() == [*" ".join(map(str, wanted)).split(), "yes"]


def test_nothing_fits() -> None:
    lines = done("--ram", "8K").stdout.splitlines()
    assert lines[-2].startswith("does not fit: the least, biases with 16-bit updates and minibatches of 64, takes ")
    assert lines[-1].startswith("it would fit on ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--core cortex-m55", "instructions: of a step"),  # without a clock
        ("--board nano-33-ble --power 30mW", "J for 10⁵ forwards"),
        ("--board esp32-s3-devkitc", "no Xtensa core was measured"),
    ],
)
def test_what_is_told_of_a_device(options: str, said: str) -> None:
    told = done(*options.split()).stdout
    assert said in told and ("10⁵" in told) == ("board" in options)


def test_the_json_is_written_to_a_file() -> None:
    result = done(*BOARD, "--json", "-o", "plan.json")
    assert json.loads(Path("plan.json").read_text()) == json.loads(result.stdout)
    refused(Path(), "plan", "lenet5.tflite", "-o", "plan.json", said="plan.json")


def test_the_boards_are_listed() -> None:
    result = run("plan", "--boards")
    assert "nano-33-ble" in result.stdout and "Raspberry Pi Pico 2" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--board nano33", "`--board` must be a known board. Received: 'nano33'"),
        ("--ram lots", "`--ram` must be bytes like 262144, 256K or 1M. Received: 'lots'"),
        ("--clock fast", "`--clock` must be a number like 80M or 30m. Received: 'fast'"),
        ("--power 0", "`--power` must be a number like 80M or 30m. Received: '0'"),
        ("--cycles 0", "`--cycles` must be a finite number above 0. Received: 0.0"),
        ("--cycles inf", "`--cycles` must be a finite number above 0. Received: inf"),
        ("--clock 1e999", "`--clock` must be a finite number above 0. Received: inf"),
    ],
)
def test_bad_numbers_and_names_are_refused(arguments: str, message: str) -> None:
    refused(Path(), "plan", "lenet5.tflite", *arguments.split(), said=message)


def test_an_unknown_core_is_wrong_usage() -> None:
    wrong_usage(Path(), "plan", "lenet5.tflite", "--core", "z80", said="Received: 'z80'")
