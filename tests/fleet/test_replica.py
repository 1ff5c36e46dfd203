"""Clients with data of their own, and a server that decides: the same run as on all data in one place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.devices import decided
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import weight_settings
from tflm_zo.converters import Model
from tflm_zo.core import Gaussian
from tflm_zo.fleet import FleetError, FleetLog, Replica, sum_of
from tflm_zo.fleet.member import mean_of
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Settings, SettingsError, Trainer, algorithms

CLIENTS, OWN, STEPS = 3, 8, 7

# Of injection, of the settings' weights.
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "chain": ("small_cnn", {}, {"queries": 3}),
    "depthwise, 8 bit": ("depthwise_separable", {"update_bits": 8}, {"queries": 2}),
    "residual, one-sided": ("residual", {}, {"estimator": "one-sided", "queries": 2}),
    "gaussian, blocks": (
        "small_cnn",
        {"update_bits": 8, "cuts": ("pool",)},
        {"scope": "blocks", "perturbation": Gaussian(0.6), "queries": 2},
    ),
}


def made(name: str) -> tuple[Model, Settings]:
    network, injection, changes = RUNS[name]
    model = inject_all(MODELS[network](), **{"batch": 4, "command_words": 1000, **injection})
    return model, replace(weight_settings(**changes), batch_size=OWN)


def data_of(model: Model, count: int) -> tuple[np.ndarray, np.ndarray]:
    shape = model.subgraphs[0].inputs[0].shape[1:]
    rng = np.random.default_rng(3)
    return rng.integers(-128, 128, (count, *shape)).astype(np.int8), rng.integers(0, 4, count)


@pytest.fixture
def fleet(tmp_path: Path) -> tuple[FleetLog, list[Replica], np.ndarray, np.ndarray]:
    return fleet_of("chain", tmp_path)


def fleet_of(name: str, folder: Path) -> tuple[FleetLog, list[Replica], np.ndarray, np.ndarray]:
    model, settings = made(name)
    x, y = data_of(model, CLIENTS * OWN)
    log = FleetLog(model, settings, STEPS, OWN, folder / "fleet.zolog")
    parts = np.split(np.arange(len(x)), CLIENTS)
    return log, [Replica(model, log.header, x[p], y[p]) for p in parts], x, y


@pytest.mark.parametrize("name", RUNS)
def test_a_fleet_does_the_run_of_all_data_in_one_place(name: str, tmp_path: Path) -> None:
    """Uses all samples of a client as a minibatch, so that one run's minibatch is all samples."""
    log, clients, x, y = fleet_of(name, tmp_path)
    while log.step < log.steps:
        record = log.decide([c.answer() for c in clients])
        for client in clients:
            assert client.take(record) == 1
            assert (client.step, client.checksum) == (log.step, log.checksum)
            assert client.weights_checksum == log.weights_checksum
    log.close()
    model, settings = made(name)
    trainer = Trainer(model, replace(settings, batch_size=CLIENTS * OWN))
    trainer.fit(x, y, steps=STEPS, log=tmp_path / "pooled.zolog", keep="last")
    ours, wanted = Log.read(tmp_path / "fleet.zolog"), Log.read(tmp_path / "pooled.zolog")
    assert np.array_equal(ours.steps, wanted.steps)
    assert np.array_equal(ours.losses, wanted.losses)
    assert np.array_equal(ours.mean_squares, wanted.mean_squares)
    weights, fractions = replay_log(model, tmp_path / "fleet.zolog")
    for own, found in zip((weights, fractions), log.weights, strict=True):
        assert own.keys() == found.keys()
        assert all(np.array_equal(own[n], found[n]) for n in own)
    pooled = trainer.runtime.read_weights()
    assert all(np.array_equal(weights[n], pooled[n]) for n in weights)
    assert any((weights[n] != w).any() for n, w in Trainer(model).runtime.read_weights().items())


def test_an_answer_leaves_the_weights_alone_and_is_the_same_again(fleet: Any) -> None:
    log, (client, *_), _, _ = fleet
    for _ in range(3):
        before = client.snapshot()
        first, again = client.answer(), client.answer()
        assert np.array_equal(first.differences, again.differences) and first.loss == again.loss
        assert client.snapshot() == before
        client.take(log.decide([first]))


def test_clients_with_fewer_samples_take_them_more_often(tmp_path: Path) -> None:
    model, settings = made("chain")
    x, y = data_of(model, 5)
    log = FleetLog(model, settings, STEPS, OWN, tmp_path / "fleet.zolog")
    few = Replica(model, log.header, x, y).answer()
    numbers = np.arange(OWN) % 5
    same = Replica(model, log.header, x[numbers], y[numbers]).answer()
    assert np.array_equal(few.differences, same.differences) and few.samples == OWN


def test_a_late_client_catches_up_by_records_or_a_snapshot(fleet: Any) -> None:
    log, (first, late, lost), _, _ = fleet
    for _ in range(5):
        first.take(log.decide([first.answer()]))
    records, snapshot = log.lacking(late.step)
    assert not snapshot and late.take(records) == 5
    lost.take_snapshot(log.snapshot())
    for client in (late, lost):
        assert client.snapshot() == log.snapshot()
    record = log.decide([late.answer(), lost.answer()])
    assert [c.take(record) for c in (first, late, lost)] == [1, 1, 1]
    assert first.snapshot() == late.snapshot() == lost.snapshot() == log.snapshot()
    assert len(log.records(0)) == 6 * log.record_bytes


def test_what_does_not_follow_is_refused_by_name(fleet: Any, tmp_path: Path) -> None:
    log, (client, late, other), _, _ = fleet
    records = [log.decide([client.answer()])]
    client.take(records[0])
    records.append(log.decide([client.answer()]))
    damaged = bytearray(records[0])
    damaged[16] ^= 1
    rate = FleetLog(*made("chain"), STEPS + 1, OWN, tmp_path / "other.zolog")
    foreign = rate.decide([other.answer()])
    for data, reason in [
        (records[1], "step 1, where those from step 0 on are missing"),
        (bytes(damaged), "damaged or of another run"),
        (foreign, "damaged or of another run"),
        (records[0][:-1], "a record of 31 bytes, those of this run have 32"),
        (records[0] + records[0], "an old message: the record of step 0, where that of step 1 follows"),
        (records[0] + records[1] + b"x", "a record of 1 bytes"),
    ]:
        before = late.snapshot()
        with pytest.raises(FleetError, match=reason):
            late.take(data)
        assert late.snapshot() == before and late.step == 0
    assert late.take(records[0] + records[1]) == 2
    for _ in range(2, STEPS):
        late.take(log.decide([late.answer()]))
    with pytest.raises(ValueError, match="the run is over"):
        late.answer()
    with pytest.raises(FleetError, match="the run is over"):
        log.decide_mean(np.zeros(4), 1)


def test_damaged_snapshots_are_refused(fleet: Any) -> None:
    log, (client, other, _), _, _ = fleet
    client.take(log.decide([client.answer()]))
    snapshot, before = client.snapshot(), other.snapshot()
    flipped = bytearray(snapshot)
    flipped[-1] ^= 1
    for data in (snapshot[:-1], bytes(flipped), b""):
        with pytest.raises(FleetError, match="a snapshot of|a damaged snapshot"):
            other.take_snapshot(data)
        assert other.snapshot() == before
    other.take_snapshot(snapshot)
    assert other.snapshot() == snapshot


def test_headers_of_other_models_versions_and_runs_are_refused(fleet: Any) -> None:
    log, _, x, y = fleet
    model, _ = made("chain")
    other, _ = made("residual, one-sided")
    for given, header, reason in [
        (other, log.header, "the run is of model .*, this one is .*: all members of a fleet need the same"),
        (model, log.header[:8] + b"\x09" + log.header[9:], "version 9 of logs, this tflm_zo reads 3"),
        (model, log.header[:40] + b"\x09" + log.header[41:], "damaged"),
        (model, b"junk", "none of a seed log"),
    ]:
        with pytest.raises(FleetError, match=reason):
            Replica(given, header, x, y)


def test_answers_out_of_range_are_refused(fleet: Any) -> None:
    log, (client, *_), _, _ = fleet
    good = client.answer()
    big = np.array([2**50, 0, 0], np.int64)
    for wrong, reason in [
        (replace(good, step=4), "an answer for step 4, where step 0 is asked for"),
        (replace(good, differences=good.differences[:2]), "an answer of 2 differences for 3 queries"),
        (replace(good, samples=0), "an answer of 0 samples"),
        (replace(good, differences=big), "a difference of .* nats of 8 samples"),
        (replace(good, loss=1 << 60), "a sum of losses of"),
    ]:
        with pytest.raises(FleetError, match=reason):
            log.decide([good, wrong])
    with pytest.raises(FleetError, match="no client has answered"):
        log.decide([])
    for mean in (np.zeros(3), np.full(4, np.nan), np.full(4, np.inf)):
        with pytest.raises(FleetError, match="must have 4 finite numbers"):
            log.decide_mean(mean, 1)
    assert log.step == 0 and len(log.records(0)) == 0
    log.decide([good])


def test_the_mean_of_an_aggregator_is_that_of_answers(fleet: Any, tmp_path: Path) -> None:
    log, clients, _, _ = fleet
    again = FleetLog(*made("chain"), STEPS, OWN, tmp_path / "again.zolog")
    answers = [c.answer() for c in clients]
    whole = sum_of(answers[:2])
    # A power of two of samples: quotients in float64 are exact.
    assert again.decide_mean(mean_of(whole, log.settings), whole.samples) == log.decide(answers[:2])


def test_a_server_goes_on_from_its_log(tmp_path: Path) -> None:
    log, clients, _, _ = fleet_of("chain", tmp_path)
    for _ in range(3):
        decided(log, [c.answer() for c in clients], clients)
    log.close()
    path = tmp_path / "fleet.zolog"
    path.write_bytes(path.read_bytes() + b"half a rec")
    again = FleetLog(*made("chain"), STEPS, OWN, path, resume=True)
    assert again.snapshot() == clients[0].snapshot()
    while again.step < STEPS:
        decided(again, [c.answer() for c in clients], clients)
    again.close()
    (tmp_path / "whole").mkdir()
    whole, clients, _, _ = fleet_of("chain", tmp_path / "whole")
    while whole.step < STEPS:
        decided(whole, [c.answer() for c in clients], clients)
    whole.close()
    assert path.read_bytes() == (tmp_path / "whole" / "fleet.zolog").read_bytes()
    with pytest.raises(FleetError, match="of another run"):
        FleetLog(*made("chain"), STEPS + 1, OWN, path, resume=True)
    with pytest.raises(FileExistsError):
        FleetLog(*made("chain"), STEPS, OWN, path)


def test_runs_that_no_fleet_can_do_are_refused(tmp_path: Path) -> None:
    model, _ = made("chain")
    with pytest.raises(SettingsError, match="`algorithm` must use weight perturbation alone in a fleet"):
        FleetLog(model, algorithms.node(), STEPS, OWN, tmp_path / "a.zolog")
    assert not (tmp_path / "a.zolog").exists()
