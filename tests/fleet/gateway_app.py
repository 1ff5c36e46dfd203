"""A Flower app of gateways, and Flower's own programs around it: a SuperLink, and `tflm-zo gateway`."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "cohort"
version = "1.0.0"
description = "A test."
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["cohort"]
[tool.flwr.app]
publisher = "test"
[tool.flwr.app.components]
serverapp = "cohort.server:app"
clientapp = "cohort.client:app"
"""
_CLIENT = """
from tflm_zo.fleet.flower import client_app, gateway_of

app = client_app(gateway_of)
"""
_SERVER = """
from flwr.serverapp.strategy import FedAvg
from tflm_zo import load_model
from tflm_zo.fleet import FleetLog
from tflm_zo.fleet.flower import FleetStrategy, server_app
from tflm_zo.training import Settings, Weights


def strategy(context):
    settings = Settings(tasks=(Weights(queries=2),), batch_size=4, seed=3, learning_rate=20.0)
    log = FleetLog(load_model({model!r}), settings, {steps}, {samples}, {log!r}, resume=True)
    return FleetStrategy(
        log, FedAvg(min_train_nodes=1, min_evaluate_nodes=1, min_available_nodes=1), most_devices={devices}
    )


app = server_app(strategy)
"""


def write_app(folder: Path, *, model: Path, log: Path, steps: int, samples: int, devices: int) -> None:
    (folder / "cohort").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_PROJECT)
    (folder / "cohort" / "__init__.py").write_text("")
    (folder / "cohort" / "client.py").write_text(_CLIENT)
    server = _SERVER.format(model=str(model), log=str(log), steps=steps, samples=samples, devices=devices)
    (folder / "cohort" / "server.py").write_text(server)


@contextlib.contextmanager
def gateway_command(
    folder: Path, model: Path, superlink: int, port: int, *lines: str, deadline: float = 60
) -> Iterator[Path]:
    """Runs `tflm-zo gateway` until the block ends. The file has its output."""
    own = [sys.executable, "-c", "from tflm_zo.cli import main; main()", "gateway", str(model), *lines]
    run = ["--superlink", f"127.0.0.1:{superlink}", "--deadline", str(deadline), "--log", "gateway.zolog"]
    rest = ["--", "--insecure", "--port", str(port)]
    environment = {
        **os.environ,
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    path = folder / "gateway.txt"
    with path.open("wb") as output:
        process = subprocess.Popen(
            [*own, *run, *rest],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield path
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def mqtt_lines(url: str, names: Sequence[str]) -> tuple[str, ...]:
    return ("--mqtt", url, "--devices", ",".join(names))
