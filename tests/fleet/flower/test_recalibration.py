"""A recalibration to the samples of several clients is that of all of them in one place."""

import os
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message

from helpers.examples import slow_but
from helpers.models import MODELS
from tflm_zo.converters import load_model
from tflm_zo.fleet import FleetError
from tflm_zo.fleet.flower import LocalGrid, RecalibrationClient, recalibrate_fleet, recalibration_app
from tflm_zo.recalibration import recalibrate

NETWORKS = ("residual", "depthwise_separable", "small_cnn")


def data_of(network: str) -> tuple[Any, np.ndarray, np.ndarray]:
    model = load_model(MODELS[network]())
    rng = np.random.default_rng(5)
    shape = model.subgraphs[0].inputs[0].shape[1:]
    old = rng.integers(-80, 80, (60, *shape)).astype(np.int8)
    new = (rng.integers(-40, 90, (31, *shape)) // 2 + 20).astype(np.int8)
    return model, old, new


def grid_of(network: str, new: np.ndarray, forgets: bool = False, **options: Any) -> LocalGrid:
    parts = np.array_split(new, 3)

    def make() -> Any:
        return recalibration_app(lambda c: RecalibrationClient(MODELS[network](), parts[int(c.node_config["part"])]))

    app, seen = make(), [0]

    def passed(message: Message, context: Context) -> Message:
        seen[0] += 1
        return (make() if forgets and seen[0] > 3 else app)(message, context)

    return LocalGrid(passed, [{"part": k} for k in range(3)], **options)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("forgets", slow_but([True], [False, True]))
@pytest.mark.parametrize("network", slow_but(NETWORKS[:1], NETWORKS))
def test_the_model_is_the_same(network: str, forgets: bool) -> None:
    model, old, new = data_of(network)
    alone = recalibrate(model, new, source=old)
    found = recalibrate_fleet(model, grid_of(network, new, forgets), source=old)
    assert found.model.to_bytes() == alone.model.to_bytes() and found.layers == alone.layers
    assert found.samples == len(new)
    if network == "residual":
        assert any(layer.corrected for layer in alone.layers)


def test_what_goes_wrong_is_named() -> None:
    model, old, new = data_of("residual")
    with pytest.raises(FleetError, match="no client is there"):
        recalibrate_fleet(model, LocalGrid(recalibration_app(lambda c: None), []), source=old)  # type: ignore
    with pytest.raises(FleetError, match="refuses: the fleet's model is another one than this client's"):
        recalibrate_fleet(model, grid_of("small_cnn", new), source=old)
    with pytest.raises(FleetError, match="no answer of node 2, 3, 4 within 9 s"):
        recalibrate_fleet(model, grid_of("residual", new, lost=lambda _: True), source=old, timeout=9)
    grid = grid_of("residual", new)
    for change, reason in (({"version": 7}, "version 7"), ({"calls": b"junk"}, "no calls of a walk")):
        config = {"version": 1, "model": b"", "calls": b"", **change}
        from flwr.app import MessageType, RecordDict

        message = Message(RecordDict({"walk": ConfigRecord(config)}), 2, MessageType.QUERY)
        (reply,) = grid.send_and_receive([message])
        assert reason in str(reply.content["walk"]["refused"])  # type: ignore[index]
