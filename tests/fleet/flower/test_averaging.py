"""Federated averaging of changes by node perturbation, against the average by hand; the holders of data."""

import os
from pathlib import Path
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import Model, initial_weights, read_metadata
from tflm_zo.fleet import AveragedWeights, FleetError
from tflm_zo.fleet.averaged_weights import packed, unpacked
from tflm_zo.fleet.flower import AveragingClient, AveragingStrategy, LocalGrid, averaging_app
from tflm_zo.training import Trainer, algorithms

CLIENTS, OWN = 3, 12
LEAST = ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes")
SETTINGS = algorithms.node(batch_size=8, learning_rate=2.0)


def zo_model() -> Model:
    return inject_all(MODELS["small_cnn"](), nodes="*", batch=4)


def part_of(client: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(client)
    shape = zo_model().subgraphs[0].inputs[0].shape[1:]
    count = OWN + 4 * client
    return rng.integers(-128, 128, (count, *shape)).astype(np.int8), rng.integers(0, 4, count)


class Fleet:
    """A server and its clients, whose messages are kept, and may be changed on the way."""

    def __init__(self, weights: AveragedWeights, aggregator: Any = None) -> None:
        app = averaging_app(lambda c: AveragingClient(zo_model(), SETTINGS, 3, *part_of(int(c.node_config["part"]))))
        self.seen: list[tuple[int, RecordDict]] = []
        self.replies: list[tuple[int, RecordDict]] = []
        self.tamper: dict[int, Any] = {}

        def passed(message: Message, context: Context) -> Message:
            part = int(context.node_config["part"])
            self.seen.append((part, message.content))
            reply = app(message, context)
            self.replies.append((part, reply.content))
            if part in self.tamper:
                self.tamper[part](reply.content)
            return reply

        self.grid = LocalGrid(passed, [{"part": part} for part in range(CLIENTS)])  # type: ignore[arg-type]
        self.strategy = AveragingStrategy(weights, aggregator)

    def run(self, rounds: int) -> None:
        self.strategy.start(self.grid, self.strategy.arrays(), rounds)


def test_rounds_are_the_average_of_all_changes() -> None:
    fleet, model = Fleet(AveragedWeights(zo_model())), zo_model()
    limit = 127 - read_metadata(model).headroom
    exact = {name: w.astype(np.float64) for name, w in initial_weights(model).items()}
    for _ in range(3):
        fleet.seen.clear()
        fleet.replies.clear()
        fleet.run(1)
        changes = [
            (len(part_of(part)[0]), unpacked(content["delta"]["zo-delta"], exact, whole=True))  # type: ignore
            for part, content in fleet.replies
            if "delta" in content
        ]
        assert len(changes) == CLIENTS
        total = sum(n for n, _ in changes)
        for name, own in exact.items():
            mean = sum(n * np.asarray(c[name], np.float64) for n, c in changes) / total
            assert np.abs(mean).max() > 0
            exact[name] = np.clip(own + mean, -limit, limit)
            # Halves are rounded either way.
            assert np.abs(fleet.strategy.weights.weights[name] - exact[name]).max() < 0.5 + 1e-9
    assert fleet.strategy.weights.round == 3 and not fleet.strategy.refusals


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    weights = AveragedWeights(zo_model(), tmp_path / "fleet.npz")
    fleet = Fleet(weights)

    def loss() -> float:
        trainer = Trainer(zo_model(), SETTINGS)
        trainer.runtime.write_weights(weights.weights)
        return float(np.mean([trainer.evaluate(*part_of(k))["loss"] for k in range(CLIENTS)]))

    before = loss()
    fleet.run(4)
    for context in fleet.grid.contexts.values():
        context.state = RecordDict()
    fleet.run(2)  # the first of them is refused by all, and says why
    assert [r.step for r in fleet.strategy.refusals] == [4] * CLIENTS
    assert "are lost here" in fleet.strategy.refusals[0].reason
    fleet.run(3)
    assert loss() < before
    again = AveragedWeights(zo_model(), tmp_path / "fleet.npz")
    assert again.round == weights.round and again.checksum == weights.checksum


def test_differences_are_what_travels() -> None:
    fleet = Fleet(AveragedWeights(zo_model()))
    fleet.run(3)
    sizes = [len(content["config"]["zo-weights"]) for _, content in fleet.seen]  # type: ignore[index,arg-type]
    whole, later = sizes[0], sizes[-1]
    assert "zo-from" not in fleet.seen[0][1]["config"] and "zo-from" in fleet.seen[-1][1]["config"]  # type: ignore
    assert later < whole


def test_other_strategies_put_changes_together() -> None:
    fleet = Fleet(AveragedWeights(zo_model()), FedMedian())

    def garbage(content: RecordDict) -> None:
        if "delta" in content:
            own = initial_weights(zo_model())
            content["delta"] = ConfigRecord({"zo-delta": packed({n: w * 0 + 100 for n, w in own.items()})})

    fleet.tamper[0] = garbage
    fleet.run(2)
    moved = max(
        np.abs(w.astype(int) - initial_weights(zo_model())[n]).max() for n, w in fleet.strategy.weights.weights.items()
    )
    assert 0 < moved < 40


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.update({"delta": ConfigRecord({"zo-delta": b"junk"})}), "damaged weights"),
        (lambda c: c.pop("delta"), "a reply without zo-delta"),
        (lambda c: c["fleet"].update({"weights": 1}), "other weights, where round 0 is next"),
        (lambda c: c["fleet"].update({"step": 5}), "a reply of round 5"),
        (lambda c: c["fleet"].update({"version": 9}), "version 9"),
    ],
)
def test_replies_that_do_not_fit_are_left_out(change: Any, reason: str) -> None:
    fleet = Fleet(AveragedWeights(zo_model()))
    fleet.tamper[1] = lambda content: change(content) if "fleet" in content else None
    fleet.run(1)
    assert reason in fleet.strategy.refusals[0].reason
    assert fleet.strategy.weights.round == 1


def test_messages_that_do_not_fit_are_refused() -> None:
    model = zo_model()
    app = averaging_app(lambda c: AveragingClient(model, SETTINGS, 1, *part_of(0)))
    grid = LocalGrid(app, [{}])
    strategy = AveragingStrategy(AveragedWeights(model), FedAvg(**dict.fromkeys(LEAST, 1)))
    strategy.start(grid, strategy.arrays(), 2)

    def refused(**changes: Any) -> str:
        (message,) = strategy.configure_train(1, strategy.arrays(), ConfigRecord(), grid)
        message.content["config"] = ConfigRecord({**message.content["config"], **changes})  # type: ignore
        (reply,) = grid.send_and_receive([message])
        return str(reply.content["fleet"]["refused"])  # type: ignore[index]

    assert "version 3" in refused(**{"zo-version": 3})
    assert "another one than this client's" in refused(**{"zo-model": b"0" * 16})
    assert "an old message: it is of round 0" in refused(**{"zo-round": 0})
    assert "their checksum is another one" in refused(**{"zo-checksum": 1})
    assert "damaged weights" in refused(**{"zo-weights": b"junk"})
    assert "are lost here" in refused(**{"zo-from": 0})


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleet.npz"
    AveragedWeights(zo_model(), path).move({n: w * 0.0 for n, w in initial_weights(zo_model()).items()})
    other = inject_all(MODELS["small_cnn"](), nodes="fc", batch=8)
    with pytest.raises(FleetError, match="of another model|no weights of a fleet"):
        AveragedWeights(other, path)
    path.write_bytes(b"junk")
    with pytest.raises(FleetError, match="no weights of a fleet"):
        AveragedWeights(zo_model(), path)
    with pytest.raises(FleetError, match="must have finite changes"):
        AveragedWeights(zo_model()).move({})
