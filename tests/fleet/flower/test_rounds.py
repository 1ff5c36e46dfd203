"""Rounds of a fleet over Flower: the same run as without it, with late clients and lost messages."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, MessageType, RecordDict
from flwr.serverapp.strategy import FedAvg

from fleet.devices import decided
from helpers.flower_fleets import OWN, STEPS, Fleet
from tflm_zo.fleet import FleetError, FleetLog
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Trainer


def test_with_the_mean_a_fleet_does_the_run_of_all_data_in_one_place(tmp_path: Path) -> None:
    """A client's minibatch is all its samples, so the other run's minibatch is all samples."""
    fleet = Fleet(tmp_path)
    result = fleet.run()
    fleet.log.close()
    fleet.check_all_equal()
    assert not fleet.reasons and fleet.log.step == STEPS
    trainer = Trainer(fleet.model, replace(fleet.settings, batch_size=fleet.clients * OWN))
    trainer.fit(fleet.x, fleet.y, steps=STEPS, log=tmp_path / "pooled.zolog", keep="last")
    ours, wanted = Log.read(tmp_path / "fleet.zolog"), Log.read(tmp_path / "pooled.zolog")
    assert np.array_equal(ours.steps, wanted.steps) and ours.steps["coefficient"].any()
    assert np.array_equal(ours.losses, wanted.losses)
    assert np.array_equal(ours.mean_squares, wanted.mean_squares)
    weights, _ = replay_log(fleet.model, tmp_path / "fleet.zolog")
    for name, own in trainer.runtime.read_weights().items():
        assert np.array_equal(weights[name], own)
        assert np.array_equal(result.arrays[name].numpy(), own)
    evaluated = result.evaluate_metrics_clientapp[STEPS]
    assert evaluated["loss"] == pytest.approx(trainer.evaluate(fleet.x, fleet.y)["loss"], abs=1e-4)


def test_a_message_has_what_changed_and_no_more(tmp_path: Path) -> None:
    down: list[RecordDict] = []

    def before(node: int, content: RecordDict) -> RecordDict:
        down.append(content)
        return content

    fleet = Fleet(tmp_path, before=before)
    fleet.run()
    own = [m["config"] for m in down[:: fleet.clients]]
    assert [len(m.get("zo-header", b"")) for m in own] == [132] + [0] * STEPS
    assert [len(m.get("zo-records", b"")) for m in own] == [0] + [fleet.log.record_bytes] * STEPS
    assert not any(m.get("zo-snapshot") for m in own)
    assert [list(content) for content in down] == [["config"]] * len(down)
    traffic = fleet.grid.traffic[fleet.nodes[0]]
    assert traffic.messages == STEPS + 1
    assert traffic.down < traffic.messages * (fleet.log.record_bytes + 200) + 132


def test_who_is_not_heard_is_left_out_and_catches_up(tmp_path: Path) -> None:
    """Excludes three of ten messages or replies that are lost; the record is of the others."""
    rng, came = np.random.default_rng(5), list[set[int]]()
    fleet = Fleet(tmp_path, steps=25, clients=4)

    def lost(message: Any) -> bool:
        to = message.metadata.dst_node_id
        if message.metadata.message_type != MessageType.TRAIN:
            return False
        if to != 1:
            return bool(rng.random() < 0.15)
        is_lost = bool(rng.random() < 0.15)
        if not is_lost:
            came[-1].add(fleet.nodes.index(message.metadata.src_node_id))
        return is_lost

    fleet.grid.lost = lost
    alone = FleetLog(fleet.model, replace(fleet.settings, batch_size=OWN), 25, OWN, tmp_path / "alone.zolog")
    replicas = fleet.replicas()
    while fleet.log.step < 25:
        came.append(set())
        fleet.round()
        if came[-1]:
            decided(alone, [replicas[i].answer() for i in sorted(came[-1])], replicas)
    fleet.grid.lost = None
    asked = fleet.strategy.configure_evaluate(1, ArrayRecord(), ConfigRecord(), fleet.grid)
    fleet.strategy.aggregate_evaluate(1, fleet.grid.send_and_receive(asked))
    fleet.check_all_equal()
    assert fleet.log.records(0) == alone.records(0)
    assert {len(present) for present in came} > {2, 4} and not fleet.reasons


def test_a_client_that_has_lost_its_state_gets_it_back(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    for step in range(STEPS):
        if step == 3:
            fleet.grid.contexts[fleet.nodes[1]].state = RecordDict()
        fleet.round()
    fleet.run()
    fleet.check_all_equal()
    assert not fleet.reasons
    # One reply said so; the other rounds had all four answers.
    assert fleet.log.step == STEPS and fleet.strategy.steps == dict.fromkeys(fleet.nodes, STEPS)


def test_a_client_that_is_far_behind_gets_a_snapshot(tmp_path: Path) -> None:
    kinds: list[str] = []

    def before(node: int, content: RecordDict) -> RecordDict:
        if node == 3:
            kinds.append("snapshot" if content["config"].get("zo-snapshot") else "records")
        return content

    fleet = Fleet(tmp_path, steps=200, before=before)
    most = fleet.log.snapshot_bytes // fleet.log.record_bytes
    assert 10 < most < 150
    absent = range(10, 10 + most + 2)
    fleet.grid.lost = lambda m: fleet.log.step in absent and m.metadata.dst_node_id == fleet.nodes[3]
    for _ in range(absent.stop + 2):
        fleet.round()
    assert kinds == ["records"] * 10 + ["snapshot", "records"]
    fleet.check_all_equal_but_the_last()


def test_a_server_that_starts_again_goes_on(tmp_path: Path) -> None:
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = Fleet(tmp_path / "whole")
    whole.run()
    fleet = Fleet(tmp_path / "cut", resume=True)
    for _ in range(3):
        fleet.round()
    fleet.log.close()
    fleet.start_server()
    assert fleet.log.step == 3
    fleet.run()
    fleet.check_all_equal()
    assert not fleet.reasons and fleet.log.records(0) == whole.log.records(0)


def test_a_server_that_has_lost_steps_takes_its_clients_back(tmp_path: Path) -> None:
    """Restarts as after a power failure: the clients have steps that are no longer in the log."""
    fleet = Fleet(tmp_path, resume=True)
    for _ in range(4):
        fleet.round()
    fleet.log.close()
    path = tmp_path / "fleet.zolog"
    path.write_bytes(path.read_bytes()[: -2 * fleet.log.record_bytes])
    fleet.start_server()
    assert fleet.log.step == 2
    fleet.run()
    fleet.check_all_equal()
    assert fleet.reasons and all("an old message: it asks for step 2" in reason for reason in fleet.reasons)


def test_damaged_weights_of_a_client_are_seen_and_made_good(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.round()
    fleet.round()
    # The client's own state is checked when it is read, so the damage has to come after that.
    damage = iter([True])

    def tamper(node: int, content: RecordDict) -> RecordDict:
        if node == 2 and next(damage, False):
            content["fleet"]["weights"] ^= 1
        return content

    fleet.tamper = tamper
    fleet.run()
    fleet.check_all_equal()
    (reason,) = fleet.reasons
    assert reason.startswith("other weights after step 2") and "it gets them anew" in reason


def test_a_step_waits_for_enough_answers(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, options={"min_answers": 3})
    fleet.grid.lost = lambda m: m.metadata.dst_node_id in fleet.nodes[:2]
    fleet.round()
    assert fleet.log.step == 0
    with pytest.raises(FleetError, match="6 rounds have brought no step beyond step 0"):
        fleet.run()
    fleet.grid.lost = None
    fleet.run()
    fleet.check_all_equal()


def test_clients_evaluate_where_they_are_asked_to(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, options={"evaluate_every": 2}, aggregator=FedAvg(fraction_train=0.5))
    result = fleet.run()
    assert list(result.evaluate_metrics_clientapp) == [2, 4, 6]
    assert list(result.train_metrics_clientapp) == [1, 2, 3, 4, 5, 6]
    fleet.check_all_equal()


def test_a_client_may_keep_its_loss_for_itself(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, client={"share_loss": False})
    fleet.run()
    fleet.log.close()
    log = Log.read(tmp_path / "fleet.zolog")
    assert not log.losses.any() and log.steps["coefficient"].any()


def test_options_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="min_answers"):
        Fleet(tmp_path, options={"min_answers": 0})
