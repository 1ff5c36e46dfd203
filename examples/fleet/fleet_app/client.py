# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A client: a model and samples, both named by its node's configuration, or a gateway of devices."""

from flwr.app import Context

from tflm_zo.fleet.flower import FleetClient, GatewayClient, client_app, gateway_of


def client(context: Context) -> FleetClient | GatewayClient:
    gateway = gateway_of(context)  # where `tflm-zo gateway` has started the node
    if gateway is not None:
        return gateway
    return FleetClient(str(context.node_config["model"]), str(context.node_config["data"]))


app = client_app(client)
