# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A client: the model and its own samples, both named by its node's configuration."""

from flwr.app import Context

from tflm_zo.fleet.flower import FleetClient, client_app


def client(context: Context) -> FleetClient:
    return FleetClient(str(context.node_config["model"]), str(context.node_config["data"]))


app = client_app(client)
