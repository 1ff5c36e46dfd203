"""Flower's own strategies, clipping, noise and accountant, on differences instead of weights."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp import NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedMedian,
    FedTrimmedAvg,
    Krum,
    MultiKrum,
    Strategy,
)

from helpers.examples import slow_but
from helpers.flower_fleets import Fleet
from tflm_zo.fleet.member import Answer

Rule = Callable[[np.ndarray], np.ndarray]


def trimmed(d: np.ndarray) -> np.ndarray:
    cut = len(d) // 5
    return np.sort(d, axis=0)[cut:-cut].mean(0)


def krum(d: np.ndarray, count: int = 1) -> np.ndarray:
    distances = np.sort(((d[:, None] - d) ** 2).sum(-1), axis=1)[:, 1 : len(d) - 2]
    return d[np.argsort(distances.sum(1))[:count]].mean(0)


def bulyan(d: np.ndarray) -> np.ndarray:
    distances = np.sort(((d[:, None] - d) ** 2).sum(-1), axis=1)[:, 1 : len(d) - 2]
    chosen = d[np.argsort(distances.sum(1))[: len(d) - 2]]
    far = np.abs(chosen - np.median(chosen, axis=0))
    nearest = np.argsort(far, axis=0)[: len(d) - 4]
    return np.take_along_axis(chosen, nearest, 0).mean(0)


# The strategy, and its aggregate of differences [clients, queries].
AGGREGATORS: dict[str, tuple[Callable[[], Strategy], Rule]] = {
    "FedAvg": (FedAvg, lambda d: d.mean(0)),
    "FedMedian": (FedMedian, lambda d: np.median(d, axis=0)),
    "FedTrimmedAvg": (FedTrimmedAvg, trimmed),
    "Krum": (lambda: Krum(num_malicious_nodes=1), krum),
    "MultiKrum": (lambda: MultiKrum(num_malicious_nodes=1, num_nodes_to_select=3), lambda d: krum(d, 3)),
    "Bulyan": (lambda: Bulyan(num_malicious_nodes=1), bulyan),
}


@pytest.mark.parametrize("name", slow_but(("FedTrimmedAvg", "Krum"), AGGREGATORS))
def test_differences_are_put_together_as_arrays_are(name: str, tmp_path: Path) -> None:
    strategy, rule = AGGREGATORS[name]
    garbage = np.random.default_rng(1)

    def tamper(node: int, content: RecordDict) -> RecordDict:
        if node == 4 and "arrays" in content:
            content["arrays"] = ArrayRecord({"differences": Array(garbage.normal(0, 30, 3))})
        return content

    fleet = Fleet(tmp_path, clients=8, aggregator=strategy(), tamper=tamper)
    replicas, wanted = fleet.replicas(), np.random.default_rng(1)
    (tmp_path / "alone").mkdir()
    alone = Fleet(tmp_path / "alone").log
    for step in range(fleet.steps):
        answers = [replica.answer() for replica in replicas]
        d = np.array([a.differences / a.samples / 65536 for a in answers])
        d[4] = wanted.normal(0, 30, 3)
        fleet.round()
        made = Answer(step, np.rint(rule(d) * 64 * 65536).astype(np.int64), 0, 64)
        record = alone.decide([made])
        own = fleet.log.records(step)
        # Mean square and coefficients; losses are the aggregator's mean of metrics.
        assert own[8:-4] == record[8:-4]
        for replica in replicas:
            replica.take(own)
        # The two logs have other losses, and so other checksums.
        assert all(np.array_equal(alone.weights[0][n], w) for n, w in fleet.log.weights[0].items())
    fleet.run()
    fleet.check_all_equal()
    assert not fleet.reasons


def test_garbage_moves_the_mean_and_not_the_median(tmp_path: Path) -> None:
    """The largest coefficients belong to the garbage, or to no one."""
    signs = {}
    for name in ("FedAvg", "FedMedian"):
        for scale in (1, -1):

            def tamper(node: int, content: RecordDict, scale: int = scale) -> RecordDict:
                if node == 0 and "arrays" in content:
                    content["arrays"] = ArrayRecord({"differences": Array(np.full(3, 50.0 * scale))})
                return content

            own = tmp_path / name / str(scale)
            own.mkdir(parents=True)
            fleet = Fleet(own, clients=7, aggregator=AGGREGATORS[name][0](), tamper=tamper)
            fleet.round()
            signs[name, scale] = np.sign(np.frombuffer(fleet.log.records(0)[16:-4], "<i4"))
    assert (signs["FedAvg", 1] == -signs["FedAvg", -1]).all()
    assert (signs["FedMedian", 1] == signs["FedMedian", -1]).any()


@pytest.mark.slow
def test_too_few_answers_for_an_aggregator_leave_the_step_to_the_next_round(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, clients=8, aggregator=Bulyan(num_malicious_nodes=1))
    fleet.grid.lost = lambda m: m.metadata.dst_node_id in fleet.nodes[:3]
    fleet.round()
    assert fleet.log.step == 0
    fleet.grid.lost = None
    fleet.round()
    assert fleet.log.step == 1 and not fleet.reasons


CLIENTS, NORM = 4, 0.05

Made = Callable[[float], dict[str, Any]]


def at_server(noise: float) -> dict[str, Any]:
    return {"aggregator": DifferentialPrivacyServerSideFixedClipping(FedAvg(), noise, NORM, CLIENTS)}


def at_clients(noise: float) -> dict[str, Any]:
    return {
        "aggregator": DifferentialPrivacyClientSideFixedClipping(FedAvg(), noise, NORM, CLIENTS),
        "mods": (fixedclipping_mod,),
        "options": {"reference": True},
    }


def local(noise: float) -> dict[str, Any]:
    # Its noise has a deviation of sensitivity sqrt(2 ln(1.25 / delta)) / epsilon.
    mod = LocalDpMod(NORM, noise * NORM / CLIENTS, math.sqrt(2 * math.log(1.25 / 0.01)), 0.01)
    return {"mods": (mod,), "options": {"reference": True}}


WAYS: dict[str, Made] = {"at the server": at_server, "at clients": at_clients, "local": local}


def clipped(fleet: Fleet) -> np.ndarray:
    answers = [replica.answer() for replica in fleet.replicas()]
    d = np.array([a.differences / a.samples / 65536 for a in answers])
    norms = np.linalg.norm(d, axis=1, keepdims=True)
    assert (norms > NORM).any()
    return (d * np.minimum(1, NORM / norms)).mean(0)


@pytest.mark.parametrize("way", WAYS)
def test_answers_are_clipped_where_flower_clips_weights(way: str, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, clients=CLIENTS, **WAYS[way](0.0))
    samples = 64
    made = Answer(0, np.rint(clipped(fleet) * samples * 65536).astype(np.int64), 0, samples)
    (tmp_path / "alone").mkdir()
    alone = Fleet(tmp_path / "alone", clients=CLIENTS).log
    fleet.round()
    assert not fleet.reasons
    assert fleet.log.records(0)[8:-4] == alone.decide([made])[8:-4]
    fleet.run()
    fleet.check_all_equal()


@pytest.mark.parametrize("way", WAYS)
def test_noise_has_the_deviation_that_was_asked_for(way: str, tmp_path: Path) -> None:
    """Compares the running mean of d^2 with noise a hundred times as large as the clipped answers."""
    noise = 400.0
    np.random.seed(1)
    fleet = Fleet(tmp_path, clients=CLIENTS, steps=60, **WAYS[way](noise))
    fleet.run()
    fleet.check_all_equal()
    deviation = noise * NORM / CLIENTS
    if way == "local":
        deviation /= math.sqrt(CLIENTS)  # each client adds its own
    found = math.sqrt(int.from_bytes(fleet.log.records(59)[8:16], "little")) / 65536
    assert 0.6 < found / deviation < 1.5


def test_the_accountant_counts_rounds_and_ends_the_run(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    from flwr.serverapp import RdpAccountant

    delta, noise, budget = 1e-3, 5.0, 3.0
    kind = NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
    accountant = RdpAccountant(PrivacyConfig(delta, CLIENTS, *kind, max_epsilon=budget))
    wrapped = FedAvg(min_train_nodes=CLIENTS)
    aggregator = DifferentialPrivacyServerSideFixedClipping(wrapped, noise, NORM, CLIENTS, accountant=accountant)
    fleet = Fleet(tmp_path, clients=CLIENTS, steps=100, aggregator=aggregator)
    with pytest.raises(PrivacyBudgetExhausted):
        fleet.run()
    rounds = fleet.log.step
    assert rounds == accountant.num_releases

    def bound(count: int) -> float:
        rho = count / (2 * noise**2)
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    spent = accountant.get_epsilon(delta)
    assert 0.75 * bound(rounds) < spent <= min(budget, bound(rounds))
    assert bound(rounds + 1) > 0.9 * budget
