"""docs: the guide is executed as it stands.

Without TFLM_DIR (see tflm_checkout/firmware_build.py) the guide's device is played by the desktop: its log is
printed as the example prints it. With TFLM_DIR the guide's own commands build the firmware and run it on an
emulated Cortex-M4, and its C++ is one program that is built, run and reset.
"""

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cortex_m.emulator import ARM, CORES, run
from device.emulation import OK, Device, needs_compiler
from device.structs import Store
from helpers.commands import refused
from helpers.interpreters import require
from helpers.pages import GUIDE, REPOSITORY, Block, blocks, run_command
from link.device_process import Line
from tflm_checkout.firmware_build import LIBRARIES, TFLM_DIR
from tflm_zo import load_model
from tflm_zo import runtime as runtimes
from tflm_zo.data import prepare
from tflm_zo.logs import Log
from tflm_zo.logs.layout import unpadded

LIBRARY = next(lib for lib in LIBRARIES if lib.core == "cortex-m4" and lib.cmsis_nn)
ALGORITHMS = ("node", "weight")
pytestmark = pytest.mark.slow


def is_installation(block: Block) -> bool:
    return block.language == "sh" and block.text.startswith(("pip ", "git clone "))


def is_command_line(block: Block) -> bool:
    return block.language == "sh" and block.text.startswith("tflm-zo ")


def is_linked(block: Block) -> bool:
    return is_command_line(block) and "/dev/ttyUSB0" in block.text


def is_on_device(block: Block) -> bool:
    return block.language == "sh" and not is_installation(block) and not is_command_line(block)


def of(block: Block, algorithm: str) -> Block:
    text = re.sub(r"\bnode(?=\b|_zo)", algorithm, block.text)
    return Block(block.language, re.sub(r"\bNODE(?=_ZO)", algorithm.upper(), text), block.file)


def execute(block: Block, names: dict[str, Any]) -> None:
    """Runs a block in the working directory; `names` are the variables of all Python blocks."""
    if block.language == "python":
        exec(compile(block.text, GUIDE.name, "exec"), names)
    elif is_command_line(block):
        for line in block.commands:
            run_command(line)
    elif is_on_device(block):
        environment = {**os.environ, "TFLM_DIR": str(TFLM_DIR), "TFLM_ZO_DIR": str(REPOSITORY)}
        words = ["bash", "-euo", "pipefail", "-c", block.text]
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
        assert ran.returncode == 0, f"{block.text}\n{ran.stdout}\n{ran.stderr}"
    elif block.language == "cmake":
        assert block.file is not None
        Path(block.file).write_text(block.text)


def build_program(program: str, algorithm: str) -> None:
    """Builds a program in the place of the generated example's, which is put back."""
    main = Path(f"{algorithm}.firmware/main.cc")
    generated = main.read_text()
    main.write_text(of(Block("cpp", program), algorithm).text)
    try:
        execute(Block("sh", f"cmake --build {algorithm}.build"), {})
    finally:
        main.write_text(generated)


def print_log(log: bytes) -> list[str]:
    pieces = [(at, log[at : at + 64]) for at in range(0, len(log), 64)]
    lines = [f"log {at} {bytes(len(piece)).hex()}" for at, piece in pieces[: len(pieces) // 2]]
    lines += [f"log {at} {piece.hex()}" for at, piece in reversed(pieces)]
    return ["before: 1 of 2 right, loss 3 / 65536", *lines, "step 0 loss 5", "checksum 00000000"]


def parts() -> tuple[list[Block], list[Block]]:
    found = blocks(GUIDE)
    first = next(i for i, block in enumerate(found) if block.language == "cmake")
    return found[:first], found[first:]


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Follows the guide's first part for both algorithms. Returns the folders."""
    pytest.importorskip("keras", reason="NO TensorFlow: THE GUIDE WAS NOT EXECUTED")
    require("tflm")
    folder = tmp_path_factory.mktemp("guide")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        names: dict[str, Any] = {}
        own, _ = parts()
        for block in own:
            execute(block, names)
        # Blocks that name both algorithms have made both.
        for block in own:
            if is_command_line(block) and re.search(r"node\.(desktop|firmware)", block.text):
                execute(of(block, "weight"), names)
    yield folder


@pytest.fixture(params=ALGORITHMS)
def walk(request: pytest.FixtureRequest, desktop: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(desktop)
    return str(request.param)


def accuracy(model: str) -> float:
    line = run_command(f"tflm-zo evaluate {model} test.npz")
    found = re.search(r"accuracy ([\d.]+)", line)
    assert found is not None, line
    return float(found[1])


def follow_log(algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    after = [
        of(b, algorithm) for b in parts()[1] if b.language == "python" or (is_command_line(b) and not is_linked(b))
    ]
    assert [block.language for block in after] == ["python", "sh"]
    for name in (f"{algorithm}.device.zolog", f"{algorithm}.device.tflite"):
        Path(name).unlink(missing_ok=True)
    capsys.readouterr()
    execute(after[0], names)
    assert capsys.readouterr().out.splitlines()[-1] == "the desktop's log: True"
    execute(after[1], names)
    trained = Path(f"{algorithm}.device.tflite").read_bytes()
    assert trained == Path(f"{algorithm}.desktop.tflite").read_bytes()


def test_the_model_learns(walk: str) -> None:
    # The guide's accuracies, with a margin for differences between machines.
    before, after = accuracy("digits.tflite"), accuracy(f"{walk}.desktop.tflite")
    assert after - before > {"node": 15, "weight": 5}[walk]


def test_files_the_guide_names_are_generated(walk: str) -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|", GUIDE.read_text().partition("## 5.")[0], re.M)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 8
    for name in named:
        assert (Path(f"{walk}.firmware") / name.replace("node", walk)).exists(), name


def test_the_log_becomes_a_model(walk: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(f"{walk}.desktop.zolog").read_bytes()
    Path(f"{walk}.txt").write_text("\n".join(print_log(log)) + "\n")
    follow_log(walk, capsys)


def test_the_desktop_measures_as_often_as_the_example(walk: str) -> None:
    """Measurements are in the log: if one of them measured, the logs could not be the same."""
    log = Path(f"{walk}.desktop.zolog")
    found: Any = Log.read(log)
    assert found.measure_every == 0
    assert "KeepBest" not in Path(f"{walk}.firmware/main.cc").read_text()


def test_a_lost_line_shows(walk: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = print_log(Path(f"{walk}.desktop.zolog").read_bytes())
    Path(f"{walk}.txt").write_text("\n".join(lines[:-3] + lines[-2:]) + "\n")  # its first bytes
    execute(of(next(b for b in parts()[1] if b.language == "python"), walk), {})
    assert capsys.readouterr().out.splitlines()[-1] == "the desktop's log: False"
    refused(Path(), "replay", f"{walk}.zo.tflite", f"{walk}.device.zolog", "-o", "no.tflite", said="damaged")


def test_installation(walk: str) -> None:
    del walk
    said = "\n".join(block.text for block in blocks(GUIDE) if is_installation(block))
    # The library that the guide links is the one that its make builds.
    for word in LIBRARY.make.split():
        assert word in said.replace("\\\n", " ").split(), word
    assert LIBRARY.path.relative_to(TFLM_DIR or "").as_posix() in GUIDE.read_text()
    extras = re.findall(r"'\.\[(\w+)\]'", said)
    assert extras == ["demo"]
    assert re.search(r"^demo = \[", (REPOSITORY / "pyproject.toml").read_text(), re.M)


def build(algorithm: str) -> list[str]:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    device = [of(b, algorithm) for b in parts()[1] if b.language == "cmake" or is_on_device(b)]
    assert [block.language for block in device] == ["cmake", "sh", "sh"]
    for block in device:
        execute(block, {})
    return Path(f"{algorithm}.txt").read_text().splitlines()


@pytest.fixture
def board(walk: str) -> tuple[str, list[str]]:
    return walk, build(walk)


def test_an_emulated_cortex_m4_has_the_desktops_log(
    board: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    algorithm, lines = board
    assert lines[0].startswith(f"{algorithm}: ") and lines[-1].startswith("checksum ")
    follow_log(algorithm, capsys)


# Records samples, trains while its flash fails now and then, loses power while it writes into the log, goes
# on, and prints.
MAIN = """
#include <stdio.h>

#include <new>

#include "node_zo_trainer.h"

// Power fails within the first write that is no record of 12 bytes: within a record of weight
// perturbation, within a snapshot of node perturbation.
bool Tear(void*, uint32_t offset, const uint8_t* bytes, uint32_t count) {
  if (count <= 12) return node_zo_flash_store_write(&flash, offset, bytes, count);
  node_zo_flash_store_write(&flash, offset, bytes, count / 2);
  return false;
}

// How many of the next units cannot be programmed.
uint32_t failing = 0;

bool ProgramOrFail(void* context, uint32_t address, const uint8_t* bytes, uint32_t count) {
  if (failing == 0) return Program(context, address, bytes, count);
  failing -= 1;
  return false;
}

int main() {
  memset(part, 0x5A, sizeof part);
  for (uint32_t i = 0; i < node_zo::kSampleCount; ++i) {
    int8_t input[sizeof recordings[0].input];
    int8_t* const inputs[node_zo::kMaxInputs] = {input};
    int32_t label;
    if (!node_zo::kSamples.read(nullptr, i, inputs, &label) || !Record(input, label)) return 1;
  }
  if (Record(recordings[0].input, 0)) return 2;
  if (Begin() != NODE_ZO_OK || trainer.step() != 0) return 3;
  const node_zo_flash kFailing = {ProgramOrFail, Erase, ReadPart, nullptr, 16, 8192, 256, 4};
  if (node_zo_flash_store_mount(&flash, &kFailing, pages) != NODE_ZO_OK) return 13;
  while (trainer.step() < NODE_ZO_STEPS / 4 * 3) {
    if (trainer.step() % 5 == 0) failing = 1;
    if (trainer.step() % 7 == 3) failing = MOST_FAILURES;
    if (!Work() || failing > 0) return 4;
    Predict(recordings[0].input);
  }
  const node_zo::LogStore kTorn = {Tear, kStore.read, &flash, nullptr, kStore.unit, kStore.bytes};
  if (trainer.Init(arena, sizeof arena, workspace, sizeof workspace, kRecordings) != NODE_ZO_OK ||
      trainer.ImportLog(kTorn) != NODE_ZO_OK || trainer.SetLog(&kTorn) != NODE_ZO_OK) {
    return 14;
  }
  node_zo_report report;
  node_zo_status status = NODE_ZO_OK;
  while (status == NODE_ZO_OK && !trainer.done()) status = trainer.TrainStep(&report);
  if (status != NODE_ZO_ERROR_STORE || report.step_done != 1) return 10;
  new (&trainer) node_zo::Trainer();
  memset(arena, 0xA5, sizeof arena);
  memset(workspace, 0xA5, sizeof workspace);
  if (Begin() != NODE_ZO_OK) return 5;
  printf("resumed %lu\\n", static_cast<unsigned long>(trainer.step()));
  while (Work()) {
  }
  if (!trainer.done()) return 6;
  uint32_t right = 0;
  for (uint32_t i = 0; i < recorded; ++i) {
    right += Predict(recordings[i].input) == recordings[i].label ? 1 : 0;
  }
  node_zo::Evaluation found;
  if (trainer.Evaluate(kRecordings, 0, recorded, &found) != NODE_ZO_OK) return 7;
  if (found.correct != right || found.samples != recorded) return 8;
  printf("right %lu\\n", static_cast<unsigned long>(right));
  printf("checksum %08lx\\n", static_cast<unsigned long>(trainer.network().checksum()));
  for (uint32_t at = 0; at < kStore.bytes; at += 64) {
    uint8_t bytes[64];
    if (node_zo_store_read(&kStore, at, bytes, sizeof bytes) != NODE_ZO_OK) return 11;
    printf("log %lu ", static_cast<unsigned long>(at));
    for (const uint8_t byte : bytes) printf("%02x", byte);
    printf("\\n");
  }
  // A store of another run.
  const uint8_t other = 0;
  if (!kStore.write(kStore.context, 16, &other, 1)) return 12;
  if (Begin() != NODE_ZO_OK || trainer.step() != 0) return 9;
  return 0;
}
"""


def test_the_guides_cpp_is_a_program_that_goes_on_after_a_reset(board: tuple[str, list[str]]) -> None:
    algorithm, example = board
    pieces = [block.text for block in blocks(GUIDE) if block.language == "cpp"]
    assert len(pieces) == 7
    program = "\n".join(pieces)
    # So many that a record fails, and is exported; of node perturbation that would be a snapshot more.
    most = "18" if algorithm == "weight" else "1"
    build_program(program + MAIN.replace("MOST_FAILURES", most), algorithm)
    lines = run(CORES["cortex-m4"], Path(f"{algorithm}.build/{algorithm}"), timeout=300).splitlines()

    steps = int(re.findall(r"ZO_STEPS (\d+)u", Path(f"{algorithm}.firmware/{algorithm}_zo_config.h").read_text())[0])
    stopped = steps // 4 * 3
    # The record of the step that follows is torn; or the snapshot at the end, of one every 100 steps.
    resumed = stopped if algorithm == "weight" else stopped // 100 * 100
    assert 0 < resumed < steps and f"resumed {resumed}" in lines
    (after,) = [line for line in example if line.startswith("after: ")]
    assert f"right {after.split()[1]}" in lines
    assert example[-1] in lines and example[-1].startswith("checksum ")
    wanted = Path(f"{algorithm}.desktop.zolog").read_bytes()
    stored = unpadded(bytes.fromhex("".join(line.split()[2] for line in lines if line.startswith("log "))))
    assert stored[: len(wanted)] == wanted
    assert set(stored[len(wanted) :]) == {0xFF}


# --- home and back ------------------------------------------------------------------------------------


def follow_link(algorithm: str, url: str) -> None:
    for path in Path().glob(f"{algorithm}.collected.*"):
        path.unlink()
    linked = [of(block, algorithm) for block in parts()[1] if is_linked(block)]
    assert [len(block.commands) for block in linked] == [2, 1, 1]
    said = [run_command(line.replace("/dev/ttyUSB0", url)) for block in linked for line in block.commands]
    log = Path(f"{algorithm}.desktop.zolog").read_bytes()
    trained = Path(f"{algorithm}.desktop.tflite").read_bytes()
    assert Path(f"{algorithm}.collected.zolog").read_bytes() == log
    assert Path(f"{algorithm}.collected.tflite").read_bytes() == trained
    assert "of weights, in place 2" in said[2] and "the run before, in place 1" in said[3]
    # The run before is the one whose log is at home.
    run_command(f"tflm-zo collect {url} -o {algorithm}.collected.zolog")
    assert Path(f"{algorithm}.collected.zolog").read_bytes() == log


@needs_compiler
def test_home_and_back(walk: str) -> None:
    """Compiles the generated folder for this machine as the device, which has trained like the desktop."""
    files = {path.name: path.read_text() for path in Path(f"{walk}.firmware").iterdir() if path.is_file()}
    model = load_model(f"{walk}.zo.tflite")
    runtime = runtimes.load(model, "tflm")
    # As `firmware --data` compiles them into the example.
    made = Device(SimpleNamespace(files=files), model, prepare(runtime, Path("adapt.npz"), None))
    assert made.init() == OK
    _, weights = made.export_weights()
    log = Path(f"{walk}.desktop.zolog").read_bytes()
    content = bytes(128 + len(weights)) + log  # two records and no weights come before it
    line, store, over = Line(0), Store(size=1 << 17, content=content), threading.Event()
    store.c.tell = type(store.c.tell)()  # no journal
    assert made.begin_link(store, line.send, places=True, buffer_bytes=512) == OK

    def work() -> None:
        while not over.is_set():
            if data := line.receive(0.05):
                made.serve(data)

    device = threading.Thread(target=work)
    device.start()
    try:
        follow_link(walk, f"socket://127.0.0.1:{line.port}")
    finally:
        over.set()
        device.join()
        line.listener.close()


# Records samples, trains, and serves the serial port until the emulator is ended.
MAIN_OF_LINK = """
#include "node_zo_trainer.h"

int main() {
  for (uint32_t i = 0; i < node_zo::kSampleCount; ++i) {
    int8_t input[sizeof recordings[0].input];
    int8_t* const inputs[node_zo::kMaxInputs] = {input};
    int32_t label;
    if (!node_zo::kSamples.read(nullptr, i, inputs, &label) || !Record(input, label)) return 1;
  }
  if (BeginWithPlaces() != NODE_ZO_OK || !Listen()) return 2;
  for (;;) {
    Serve();
    node_zo_report report;
    if (trainer.TrainSlice(&report) != NODE_ZO_OK) return 3;
  }
}
"""


def test_the_guides_cpp_serves_an_emulated_cortex_m4(board: tuple[str, list[str]]) -> None:
    algorithm, _ = board
    program = "\n".join(block.text for block in blocks(GUIDE) if block.language == "cpp")
    build_program(program + MAIN_OF_LINK, algorithm)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    (option,) = re.findall(r"`-serial (tcp:\S+)`", GUIDE.read_text())
    serial = option.replace("localhost:4000", f"127.0.0.1:{port}")
    command = [ARM.emulator, "-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", serial]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", f"{algorithm}.build/{algorithm}"]
    emulated = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        time.sleep(1)
        follow_link(algorithm, f"socket://127.0.0.1:{port}")
        assert emulated.poll() is None
    finally:
        emulated.kill()
        emulated.wait()


# The frame of the guide's lines of C.
OF_C = """
#include "node_zo_trainer.h"

int train_in_c(const node_zo_sample_source* source, const int8_t* const* inputs, int8_t* scores);

int train_in_c(const node_zo_sample_source* source, const int8_t* const* inputs, int8_t* scores) {
  static uint8_t arena[NODE_ZO_ARENA_BYTES], workspace[NODE_ZO_WORKSPACE_BYTES];
  const node_zo_sample_source samples = *source;
  node_zo_report report;
"""


def test_the_guides_c_is_c(board: tuple[str, list[str]]) -> None:
    algorithm, _ = board
    (piece,) = [block.text for block in blocks(GUIDE) if block.language == "c"]
    text = of(Block("c", f"{OF_C}{piece}  return (int)status;\n}}\n"), algorithm).text
    Path("of_c.c").write_text(text)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-std=c99", *warnings]
    subprocess.run([*command, f"-I{algorithm}.firmware", "-fsyntax-only", "of_c.c"], check=True)
