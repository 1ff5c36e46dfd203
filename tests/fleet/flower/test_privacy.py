"""Flower's own clipping, noise and accountant, on differences instead of weights."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp import NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)

from helpers.flower_fleets import Fleet
from tflm_zo.fleet.member import Answer

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
    """Computes the clipped first answers, nats."""
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
    accountant = RdpAccountant(
        PrivacyConfig(
            delta, CLIENTS, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION, max_epsilon=budget
        )
    )
    wrapped = FedAvg(min_train_nodes=CLIENTS)
    aggregator = DifferentialPrivacyServerSideFixedClipping(wrapped, noise, NORM, CLIENTS, accountant=accountant)
    fleet = Fleet(tmp_path, clients=CLIENTS, steps=100, aggregator=aggregator)
    with pytest.raises(PrivacyBudgetExhausted):
        fleet.run()
    rounds = fleet.log.step
    assert rounds == accountant.num_releases

    def bound(count: int) -> float:
        """Computes the bound of count Gaussian releases: rho + 2 sqrt(rho ln(1 / delta)), rho = count / (2
        noise^2)."""
        rho = count / (2 * noise**2)
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    spent = accountant.get_epsilon(delta)
    assert 0.75 * bound(rounds) < spent <= min(budget, bound(rounds))
    assert bound(rounds + 1) > 0.9 * budget
