"""A gateway among the clients of a fleet, in one process: the log of desktop clients with the same data."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from device.emulation import needs_compiler
from device.runs import RUNS, SAMPLES, samples, zo_model
from fleet.devices import decided, fleet
from helpers.examples import slow_but
from tflm_zo.fleet import FleetLog, Replica
from tflm_zo.fleet.flower import FleetClient, FleetStrategy, GatewayClient, LocalGrid, client_app, gateway_of

pytestmark = needs_compiler
RUN, STEPS = "weight", 30


def alone(path: Path) -> bytes:
    server = FleetLog(zo_model(RUN), RUNS[RUN][1], STEPS, SAMPLES, path)
    data = [samples(seed) for seed in (1, 2, 3)]
    replicas = [Replica(zo_model(RUN), server.header, d.inputs[0], d.labels) for d in data]
    for _ in range(STEPS):
        decided(server, [replica.answer() for replica in replicas], replicas)
    server.close()
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "lost", slow_but(["the node's state and the log"], ["the node's state", "the node's state and the log"])
)
def test_a_gateway_beside_a_desktop_client(lost: str, tmp_path: Path) -> None:
    with fleet(tmp_path, RUN, 2, steps=STEPS) as made:
        lines = {name: (lambda port=port: port) for name, port in made.ports.items()}
        own = samples(3)

        def client(context: Context) -> FleetClient | GatewayClient:
            if context.node_config["kind"] == "gateway":
                return GatewayClient(made.model, lines, tmp_path / "gateway.zolog", deadline=20)
            return FleetClient(made.model, own.inputs[0], own.labels)

        grid = LocalGrid(client_app(client), [{"kind": "gateway"}, {"kind": "desktop"}])
        strategy = FleetStrategy(made.server, min_answers=2, most_devices=2)
        refused: list[str] = []
        send = grid.push_messages

        def push(messages: Any) -> list[str]:
            # By then a snapshot is shorter than the records.
            if made.server.step == STEPS - 4 and not refused:
                refused.append(lost)
                grid.contexts[2].state = RecordDict()
                grid.app = client_app(client)  # another process
                strategy.steps.pop(2)
                strategy.records_only.clear()  # and another one of the server
                if "log" in lost:
                    (tmp_path / "gateway.zolog").unlink()
            return send(messages)

        grid.push_messages = push  # type: ignore[method-assign]
        strategy.run(grid)
        assert refused and (tmp_path / "server.zolog").read_bytes() == alone(tmp_path / "alone.zolog")
        assert (tmp_path / "gateway.zolog").read_bytes() == (tmp_path / "alone.zolog").read_bytes()
        assert made.checksums == {made.server.weights_checksum}
        # The first message brought a snapshot, and the step was asked for again.
        (only,) = strategy.refusals
        assert (only.step, only.node) == (STEPS - 4, 2)
        assert "a gateway needs the records from step" in only.reason


def test_a_node_that_is_no_gateway() -> None:
    def context(**config: str) -> Context:
        return Context(1, 2, {key.replace("_", "-"): value for key, value in config.items()}, RecordDict(), {})

    assert gateway_of(context(data="a.npz")) is None
    with pytest.raises(ValueError, match="lacks zo-model and zo-log: start it by tflm-zo gateway"):
        gateway_of(context(zo_lines='[{}, 9600, "", []]'))
    with pytest.raises(ValueError, match="no lines to devices"):
        gateway_of(context(zo_lines="x", zo_model="m", zo_log="l"))
    found = gateway_of(context(zo_lines='[{"a": "socket://h:1"}, 9600, "", []]', zo_model="m", zo_log="l"))
    assert found is not None and [*found.lines] == ["a"] and (found.model, found.log) == ("m", "l")
