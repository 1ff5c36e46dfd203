"""The log of an emulated Cortex-M comes home over a bad serial port, and runs are sent to it."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_m.emulator import ARM, CORES, Core
from helpers.commands import result_of
from helpers.firmware_folders import ALGORITHMS, zo_model
from link.bad_line import BadLine
from tflm_checkout.firmware_build import LIBRARIES, Library, build_firmware, replace_main
from tflm_zo.firmware import generate_firmware
from tflm_zo.link import Link, collect, open_port
from tflm_zo.training import Nodes, Settings, Weights

HERE = Path(__file__).parent
#: Where the boards have their first serial port.
UARTS = {"cortex-m4": 0x40004000, "cortex-m55": 0x59303000}
STEPS, SAMPLES = 240, 6
SETTINGS = {
    "node": Settings(tasks=(Nodes(queries=2),), batch_size=2, snapshot_every=50),
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=2),
}
CASES = [
    (library, algorithm)
    for library in LIBRARIES
    for algorithm in ALGORITHMS
    if library.cmsis_nn and library.core in UARTS and library.platform == "cmake"
]


class EmulatedBoard:
    """A board whose serial port is a port of this machine, and whose flash is a file that ends with `end`."""

    def __init__(self, core: Core, program: Path, folder: Path, end: bytes = b"") -> None:
        self._core, self._program, self._folder = core, program, folder
        (folder / "flash.bin").write_bytes(b"\xff" * ((1 << 15) - len(end)) + end)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.begin()

    def begin(self) -> None:
        serial = f"tcp:127.0.0.1:{self.port},server=on,wait=off"
        command = [ARM.emulator, "-M", *self._core.board, "-display", "none", "-monitor", "none", "-serial", serial]
        words = [*command, "-semihosting-config", "enable=on,target=native", "-kernel", self._program]
        self._process = subprocess.Popen(
            list(map(str, words)), cwd=self._folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.first_line = self._process.stdout.readline()
        assert self.first_line.startswith("begun at step "), self.first_line

    def cut_power(self) -> None:
        assert self._process.poll() is None, "the program has ended by itself"
        self._process.kill()
        self._process.communicate()

    @property
    def flash(self) -> bytes:
        return (self._folder / "flash.bin").read_bytes()


@contextlib.contextmanager
def emulated(core: Core, program: Path, folder: Path, end: bytes = b"") -> Iterator[EmulatedBoard]:
    made = EmulatedBoard(core, program, folder, end)
    try:
        yield made
    finally:
        made.cut_power()


@pytest.mark.parametrize(
    ("library", "algorithm"), CASES, ids=lambda value: value.name if isinstance(value, Library) else value
)
def test_the_log_comes_home_and_runs_are_sent(library: Library, algorithm: str, tmp_path: Path) -> None:
    if reason := library.why_not():
        pytest.skip(reason)
    model = zo_model(algorithm)
    (tmp_path / "small.zo.tflite").write_bytes(model.to_bytes())
    made = generate_firmware(model, SETTINGS[algorithm], steps=STEPS, samples=SAMPLES, name="small")
    made.write(tmp_path / "out")
    program = (HERE / "link_board.cc").read_text()
    replace_main(tmp_path / "out", f"#define UART_BASE {UARTS[library.core]:#x}u\n{program}")
    elf = build_firmware(library, tmp_path / "out", tmp_path / "build")
    path, other = tmp_path / "run.zolog", tmp_path / "other.zolog"
    place = (len(b"\xff" * (1 << 15)) - 128) // 2
    begin = 128 + made.trainable_bytes

    with emulated(CORES[library.core], elf, tmp_path) as board, BadLine(board.port, 0.002) as line:
        losses: list[float] = []
        error: list[BaseException] = []

        def follow() -> None:
            try:
                with Link(lambda: open_port(line.url, 115200), 30) as link:
                    link.hello()
                    collect(link, path, follow=True, on_steps=losses.extend)
            except BaseException as found:  # noqa: BLE001 - the test has it
                error.append(found)

        host = threading.Thread(target=follow)
        host.start()
        resumed = []
        for share in (4, 2):
            while len(losses) < STEPS / share and host.is_alive():
                time.sleep(0.01)
            board.cut_power()
            board.begin()
            resumed.append(int(board.first_line.split()[-1]))
        host.join(300)
        assert not host.is_alive() and not error, error
        log = path.read_bytes()
        assert board.flash[begin : begin + len(log)] == log
        assert len(losses) >= STEPS and line.damaged > 20
        print(library.name, algorithm, len(log), "bytes;", line.damaged, "damaged; resumed at", resumed)
        assert 0 < resumed[0] < STEPS and 0 < resumed[1] < STEPS

        # The weights that the run has led to, as a run of their own; then back.
        sent = result_of("deploy", line.url, path, "--model", tmp_path / "small.zo.tflite")
        assert (sent["place"], sent["bytes"]) == (2, made.trainable_bytes)
        board.cut_power()
        board.begin()
        found = result_of("collect", line.url, "-o", other, "--follow")
        assert found["steps"] == STEPS
        second = other.read_bytes()
        assert board.flash[begin + place : begin + place + len(second)] == second
        assert second[:28] == log[:28] and second[28:32] != log[28:32]
        assert result_of("deploy", line.url, "--revert")["place"] == 1
        found = result_of("collect", line.url, "-o", path)
        assert found["steps"] == STEPS and path.read_bytes() == log
        if algorithm == "weight":
            # A few bytes a step, which the device replays.
            sent = result_of("deploy", line.url, path)
            assert (sent["kind"], sent["bytes"], sent["place"]) == ("log", len(log), 2)
            assert result_of("collect", line.url, "-o", path)["steps"] == STEPS
            assert path.read_bytes() == log
