"""`tflm-zo gateway` asks who is there; ports that it keeps open for others."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from device.emulation import needs_compiler
from device.runs import zo_model
from helpers.commands import invoke, result_of
from link.board import board
from tflm_zo.fleet.lines import Lines, kept_ports
from tflm_zo.link import open_port


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.zo.tflite"
    path.write_bytes(zo_model("weight").to_bytes())
    return path


@pytest.mark.slow
@needs_compiler
def test_it_says_who_is_there(model: Path, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        boards = {}
        for name, run in (("a", "weight"), ("b", "weight"), ("other", "weight, segments")):
            (tmp_path / name).mkdir()
            boards[name] = stack.enter_context(board(tmp_path / name, run, "--fleet"))
        (tmp_path / "alone").mkdir()
        boards["alone"] = stack.enter_context(board(tmp_path / "alone", "weight", "--until", 0))
        with socket.create_server(("127.0.0.1", 0)) as free:
            nobody = free.getsockname()[1]
        ports = {name: one.port for name, one in boards.items()} | {"nobody": nobody}
        lines = [word for name, port in ports.items() for word in ("--port", f"{name}=socket://127.0.0.1:{port}")]
        said = result_of("gateway", model, *lines, "--deadline", 3)
        devices = said["devices"]
        assert devices["a"] == devices["b"] and devices["a"]["step"] == 0
        assert int(devices["a"]["weights"], 16)
        assert devices["other"] == {"problem": "another model"}
        assert "zo_link_add_fleet" in devices["alone"]["problem"]
        assert "refused" in devices["nobody"]["problem"]
        table = invoke("gateway", model, *lines, "--deadline", 3).stdout
        assert all(name in table for name in ports) and devices["a"]["weights"] in table


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "no device: name them by --port, or by --mqtt and --devices"),
        (("--mqtt", "mqtt://localhost/fleet"), "--mqtt and --devices: expected both or none"),
        (("--devices", "a,b"), "--mqtt and --devices: expected both or none"),
        (("--mqtt", "localhost", "--devices", "a"), "must be mqtt://HOST"),
        (("--mqtt", "mqtt://localhost/fleet", "--devices", "a,,b"), "names no device"),
        (("--mqtt", "mqtt://localhost/fleet", "--devices", "a,a"), "two devices have the name a"),
        (("--port", "a=socket://h:1", "--port", "a=socket://h:2"), "a name that no other device has"),
        (("--port", "a="), "expected NAME=PORT"),
    ],
)
def test_what_names_no_devices(options: tuple[str, ...], reason: str, model: Path) -> None:
    done = invoke("gateway", model, *options)
    assert done.exit_code == 2 and reason in " ".join(done.stderr.replace("│", " ").split())


def test_lines_go_through_a_nodes_configuration() -> None:
    lines = Lines({"a": "/dev/tty'0", "b": "socket://h:1"}, 9600, 'mqtt://u:"p@h/x', ("c",))
    text = lines.write()
    assert "'" not in text and Lines.read(text) == Lines(dict(lines.ports), 9600, lines.broker, list(lines.devices))
    with pytest.raises(ValueError, match="no lines to devices"):
        Lines.read("[1]")


class Echo:
    """A port that sends back all bytes; it can be lost."""

    def __init__(self) -> None:
        self.come, self.opened, self.is_lost = b"", 0, False
        self._lock = threading.Lock()

    def open(self) -> Echo:
        self.opened, self.is_lost = self.opened + 1, False
        return self

    @property
    def in_waiting(self) -> int:
        return len(self.come)

    def read(self, size: int = 1, /) -> bytes:
        if self.is_lost:
            raise OSError("lost")
        with self._lock:
            data, self.come = self.come[:size], self.come[size:]
        if not data:
            time.sleep(0.005)
        return data

    def write(self, data: bytes, /) -> int:
        with self._lock:
            self.come += data
        return len(data)

    def close(self) -> None:
        pass


def said(url: str, data: bytes) -> bytes:
    """Reads the answer on a new connection."""
    port, found, end = open_port(url, 9600), b"", time.monotonic() + 120
    try:
        while len(found) < len(data) and time.monotonic() < end:
            if not found:
                port.write(data)
            time.sleep(0.05)
            found += port.read(len(data))
        return found[: len(data)]
    finally:
        port.close()


@pytest.mark.slow
def test_a_port_stays_open_while_programs_come_and_go() -> None:
    one, other = Echo(), Echo()
    with kept_ports({"a": one.open, "b": other.open}) as kept:
        for word in (b"hello", b"again", b"\x00\xff"):
            assert said(kept["a"], word) == word and said(kept["b"], word) == word
        assert (one.opened, other.opened) == (1, 1)
        one.is_lost = True
        assert said(kept["a"], b"back") == b"back"
        assert (one.opened, other.opened) == (2, 1)
    with pytest.raises(OSError):
        open_port(kept["a"], 9600)
