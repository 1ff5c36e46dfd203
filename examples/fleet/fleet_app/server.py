# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The server: its whole state is the log of the run, from which it resumes."""

from flwr.app import Context
from flwr.serverapp.strategy import FedAvg, FedMedian, FedTrimmedAvg, Krum

from tflm_zo import algorithms, load_model
from tflm_zo.fleet import FleetLog
from tflm_zo.fleet.flower import FleetStrategy, server_app

AGGREGATORS = {
    "mean": FedAvg,
    "median": FedMedian,
    "trimmed": FedTrimmedAvg,
    "krum": lambda: Krum(num_malicious_nodes=1),
}


def strategy(context: Context) -> FleetStrategy:
    config = context.run_config
    log = FleetLog(
        load_model(str(config["model"])),
        algorithms.weight(batch_size=16, queries=int(config["queries"])),
        steps=int(config["steps"]),
        samples=int(config["samples"]),
        path=str(config["log"]),
        resume=True,
    )
    return FleetStrategy(
        log,
        AGGREGATORS[str(config["aggregator"])](),
        timeout=float(config["timeout"]),
        most_devices=int(config["devices"]),
    )


app = server_app(strategy)
