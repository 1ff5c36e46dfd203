# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Flower's FedAvg of a Keras model: clients train by backpropagation, and weights travel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from task import Labelled

__all__ = ["Averaging", "averaging_app", "weights_record"]

BATCH = 16


def weights_record(weights: list[np.ndarray], *, in_int8: bool) -> ArrayRecord:
    """Packs arrays for transport: float32, or int8 and a scale for each array, symmetric about zero."""
    record = {}
    for number, weight in enumerate(weights):
        if in_int8:
            scale = max(float(np.abs(weight).max()), 1e-12) / 127
            record[f"{number}"] = Array(np.rint(weight / scale).astype(np.int8))
            record[f"{number}/scale"] = Array(np.array(scale, np.float32))
        else:
            record[f"{number}"] = Array(weight.astype(np.float32))
    return ArrayRecord(record)


def weights_of(record: ArrayRecord) -> list[np.ndarray]:
    """Unpacks the weights, float32."""
    count = sum("/" not in name for name in record)
    found = []
    for number in range(count):
        weight = record[f"{number}"].numpy()
        scale = record[f"{number}/scale"].numpy() if f"{number}/scale" in record else 1
        found.append((weight * scale).astype(np.float32))
    return found


class Averaging(FedAvg):
    """FedAvg with optional int8 messages: weights to the clients, and the clients' changes back. The server
    keeps float32, so that small changes add up.
    """

    def __init__(self, *, in_int8: bool, **options: Any) -> None:
        super().__init__(**options)
        self._in_int8, self._weights = in_int8, list[np.ndarray]()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._weights = weights_of(arrays)
        travelling = weights_record(self._weights, in_int8=self._in_int8)
        return super().configure_train(server_round, travelling, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        for reply in replies:
            arrays = reply.content.array_records["arrays"]
            reply.content["arrays"] = weights_record(weights_of(arrays), in_int8=False)
        found, metrics = super().aggregate_train(server_round, replies)
        if found is None:
            return None, metrics
        sums = [w + change for w, change in zip(self._weights, weights_of(found), strict=True)]
        return weights_record(sums, in_int8=False), metrics


def averaging_app(model: Any, parts: list[Labelled], *, in_int8: bool, rate: float, epochs: int) -> ClientApp:
    """Makes a ClientApp that trains a Keras model by SGD on a node's part. All nodes share the model
    object.
    """
    import keras

    model.compile(optimizer=keras.optimizers.SGD(rate), loss="sparse_categorical_crossentropy")
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x, y = parts[int(context.node_config["part"])]
        begin = weights_of(message.content.array_records["arrays"])
        model.set_weights(begin)
        order = np.random.default_rng([int(context.node_config["part"]), _round_of(message)])
        for _ in range(epochs):
            rows = order.permutation(len(y))
            for at in range(0, len(y) - BATCH + 1, BATCH):
                model.train_on_batch(x[rows[at : at + BATCH]], y[rows[at : at + BATCH]])
        changes = [w - b for w, b in zip(model.get_weights(), begin, strict=True)]
        content = RecordDict(
            {"arrays": weights_record(changes, in_int8=in_int8), "metrics": MetricRecord({"num-examples": len(y)})}
        )
        return Message(content, reply_to=message)

    return app


def _round_of(message: Message) -> int:
    return int(str(message.content.config_records["config"]["server-round"]))
