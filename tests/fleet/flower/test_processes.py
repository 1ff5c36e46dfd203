"""The example under Flower's own programs, each message in a process of its own: the run of one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.app import Context
from harness.flower_processes import flower_programs, free_port, run_app

from tflm_zo import algorithms, load_model
from tflm_zo.fleet import FleetLog
from tflm_zo.fleet.flower import FleetClient, FleetStrategy, LocalGrid, client_app

EXAMPLE = Path(__file__).parents[3] / "examples" / "fleet"
STEPS = 3


def alone(folder: Path, path: Path) -> None:
    def client(context: Context) -> FleetClient:
        return FleetClient(model, folder / f"client-{context.node_config['part']}.npz")

    model = load_model(folder / "digits.zo.tflite")
    settings = algorithms.weight(batch_size=16, queries=32)
    log = FleetLog(model, settings, STEPS, 50, path)
    FleetStrategy(log).run(LocalGrid(client_app(client), [{"part": 0}, {"part": 1}]))
    log.close()


@pytest.mark.slow
def test_two_nodes_do_the_run_of_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    command = [sys.executable, str(EXAMPLE / "prepare.py"), "-o", str(folder), "--clients", "2", "--epochs", "3"]
    subprocess.run(command, check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    alone(folder, tmp_path / "alone.zolog")
    model = folder / "digits.zo.tflite"
    nodes = [f'model="{model}" data="{folder}/client-{i}.npz"' for i in (0, 1)]
    with flower_programs(tmp_path, nodes, free_port()):
        config = f'model="{model}" log="{tmp_path}/fleet.zolog" steps={STEPS}'
        output = run_app(tmp_path, EXAMPLE, config)
    assert "is left out" not in output and output.count("aggregate_evaluate: Received 2 results") == 1
    assert (tmp_path / "fleet.zolog").read_bytes() == (tmp_path / "alone.zolog").read_bytes()
