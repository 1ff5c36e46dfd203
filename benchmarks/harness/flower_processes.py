# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Flower's own programs on this machine, without a network: a SuperLink, SuperNodes, and ``flwr run``."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["flower_programs", "free_port", "run_app"]

BIN = Path(sys.executable).parent


def free_port() -> int:
    """Returns a port that no one listens on now."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


@contextlib.contextmanager
def flower_programs(
    folder: Path, nodes: Sequence[str], port: int, node_ports: Sequence[int] | None = None
) -> Iterator[None]:
    """Runs a SuperLink and a SuperNode for each configuration, until the block ends.

    Args:
        folder: for their output, and for Flower's files.
        nodes: ``--node-config`` of each node.
        port: of the SuperLink.
        node_ports: of the SuperLink as each node sees it, through something between; None: `port`.
    """
    home = folder / "flwr"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> None:
        with open(folder / f"{name}.log", "wb") as output:
            started.append(
                subprocess.Popen(
                    [str(BIN / words[0]), "--insecure", *words[1:]],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=_environment(folder),
                    cwd=folder,
                    start_new_session=True,
                )
            )

    try:
        start("link", "flower-superlink", "--disable-runtime-dependency-installation", "--port", str(port))
        _wait_for(port)
        for number, config in enumerate(nodes):
            seen = port if node_ports is None else node_ports[number]
            where = ("--superlink", f"127.0.0.1:{seen}", "--port", str(free_port()))
            start(f"node-{number}", "flower-supernode", *where, "--node-config", config)
        yield
    finally:
        for process in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait_for(port: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def run_app(folder: Path, app: Path, config: str, timeout: float = 600) -> str:
    """Runs an app on the SuperLink to its end, and returns its server's output."""
    done = subprocess.run(
        [str(BIN / "flwr"), "run", str(app), "here", "--stream", "--run-config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(folder),
        cwd=folder,
        timeout=timeout,
        text=True,
        check=True,
    )
    return done.stdout
