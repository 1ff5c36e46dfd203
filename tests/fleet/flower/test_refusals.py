"""Misfits are refused by name, change nothing, and keep no one else from the step."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from helpers.examples import slow_but
from helpers.flower_fleets import KEPT, OWN, Fleet, zo_model
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.fleet import FleetError
from tflm_zo.fleet.flower import FleetStrategy
from tflm_zo.fleet.flower.messages import State, answer_of

Change = Callable[[RecordDict], None]


def differences(values: Any) -> Change:
    def change(content: RecordDict) -> None:
        content["arrays"] = ArrayRecord({"differences": Array(np.array(values))})

    return change


def metric(name: str, value: Any) -> Change:
    def change(content: RecordDict) -> None:
        content["metrics"] = MetricRecord({**content["metrics"], name: value})

    return change


def state(name: str, value: Any) -> Change:
    def change(content: RecordDict) -> None:
        content["fleet"][name] = value

    return change


def renamed(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord({"weights": content["arrays"]["differences"]})


def pickled(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord({"differences": Array("float64", (3,), "numpy.ndarray", b"no array")})


def nothing(content: RecordDict) -> None:
    for name in list(content):
        del content[name]


REPLIES: dict[str, tuple[Change, str]] = {
    "not a fleet's": (nothing, "no fleet's: it has no version"),
    "version": (state("version", 2), "of version 2, this program has version 1"),
    "run": (state("run", 77), "a reply of another run"),
    "old": (state("step", 1), "a reply of step 1, where step 2 is asked for"),
    "ahead": (state("step", 3), "a reply of step 3, where step 2 is asked for"),
    "no number": (state("step", -1), "`step` must be a number of 32 bits. Received: -1"),
    "other records": (state("checksum", 1), "other weights after step 2"),
    "other weights": (state("weights", 1), "other weights after step 2"),
    "not finite": (differences([0.0, np.nan, 0.0]), "not finite"),
    "infinite": (differences([0.0, np.inf, 0.0]), "not finite"),
    "out of range": (differences([0.0, 65537.0, 0.0]), "of 65537 nats is out of range"),
    "far out of range": (differences([0.0, -1e30, 0.0]), "of -1e\\+30 nats is out of range"),
    "too few": (differences([0.0, 0.0]), r"must be float64 \[3\]. Received: float64 \[2\]"),
    "single": (differences(np.zeros(3, np.float32)), r"must be float64 \[3\]. Received: float32 \[3\]"),
    "other array": (renamed, "an answer has one array, differences"),
    "no array": (pickled, "differences: no array of NumPy's"),
    "no samples": (metric("num-examples", 0), "must be an integer. Received: 0"),
    "half a sample": (metric("num-examples", 0.5), "must be an integer. Received: 0.5"),
    "many samples": (metric("num-examples", 10**6 * OWN), "answer of 8000000 samples, where a minibatch has 8"),
    "part of a minibatch": (metric("num-examples", 5), "answer of 5 samples, where a minibatch has 8"),
    "loss": (metric("loss", 1e9), "1e\\+09 nats is out of range"),
    "negative loss sum": (metric("loss", -40000.0), "a sum of losses of"),
    "loss of another type": (metric("loss", 1), "`loss` must be a floating-point number"),
}


@pytest.mark.parametrize("name", slow_but(list(REPLIES)[::3], REPLIES))
def test_a_reply_that_does_not_fit(name: str, tmp_path: Path) -> None:
    change, reason = REPLIES[name]
    for folder in "gb":
        (tmp_path / folder).mkdir()
    good, bad = Fleet(tmp_path / "g"), Fleet(tmp_path / "b")
    good.before = lambda node, content: content
    for fleet in (good, bad):
        fleet.round()
        fleet.round()
    # The answer of the good fleet's last client is lost on the way: the same three answers are left.
    good.tamper = lambda node, content: None if node == 3 else content

    def tamper(node: int, content: RecordDict) -> RecordDict:
        if node == 3:
            change(content)
        return content

    bad.tamper = tamper
    good.round()
    bad.round()
    assert bad.log.records(0) == good.log.records(0) and bad.log.step == 3
    (refusal,) = bad.strategy.refusals
    assert (refusal.step, refusal.node) == (2, bad.nodes[3])
    assert re.search(reason, refusal.reason), refusal.reason
    bad.tamper = lambda node, content: content
    bad.run()
    bad.check_all_equal()
    assert len(bad.reasons) <= 2  # a client that was taken for one with other steps refuses them once


def entry(name: str, value: Any) -> Change:
    def change(content: RecordDict) -> None:
        if value is None:
            del content["config"][name]
        else:
            content["config"][name] = value

    return change


def damaged(content: RecordDict) -> None:
    data = bytearray(_records(content))
    data[16] ^= 1
    content["config"]["zo-records"] = bytes(data)


def cut(content: RecordDict) -> None:
    content["config"]["zo-records"] = _records(content)[:-1]


def _records(content: RecordDict) -> bytes:
    data = content["config"]["zo-records"]
    assert isinstance(data, bytes)
    return data


def other_header(content: RecordDict) -> None:
    content["config"]["zo-header"] = bytes(132)


MESSAGES: dict[str, tuple[Change, str]] = {
    "not a fleet's": (entry("zo-version", None), "the message is no fleet's"),
    "version": (entry("zo-version", 9), "of version 9, this program has version 1"),
    "no number": (entry("zo-step", "2"), "`zo-step` must be a number of 32 bits. Received: '2'"),
    "no bytes": (entry("zo-records", 3), "`zo-records` must be bytes. Received: int"),
    "damaged record": (damaged, "record of step 1 is damaged or of another run"),
    "half a record": (cut, "a record of 31 bytes, those of this run have 32"),
    "damaged header": (other_header, "the run's header is damaged"),
    "snapshot": (entry("zo-snapshot", b"abc"), "a snapshot of 3 bytes"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_does_not_fit(name: str, tmp_path: Path) -> None:
    change, reason = MESSAGES[name]
    fleet = Fleet(tmp_path)
    fleet.round()
    fleet.round()
    before = fleet.states()[1]

    def changed(node: int, content: RecordDict) -> RecordDict:
        if node == 1:
            change(content)
        return content

    fleet.before = changed
    fleet.round()
    assert fleet.states()[1] == before and fleet.log.step == 3
    (found,) = fleet.reasons
    assert found.startswith("the client refuses the message: ")
    assert re.search(reason, found), found
    fleet.before = lambda node, content: content
    fleet.run()
    fleet.check_all_equal()


def test_an_old_message_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    kept: list[RecordDict] = []

    def before(node: int, content: RecordDict) -> RecordDict:
        if node == 0:
            kept.append(RecordDict({"config": ConfigRecord(dict(content["config"]))}))
        return content

    fleet = Fleet(tmp_path, before=before)
    for _ in range(4):
        fleet.round()
    for old in (kept[0], kept[2]):
        fleet.before = lambda node, content, old=old: old if node == 0 else content
        now = fleet.states()[0]
        fleet.round()
        assert fleet.states()[0] == now
        assert "the client refuses the message: an old message: it asks for step" in fleet.reasons[-1]
    fleet.before = lambda node, content: content
    fleet.run()
    fleet.check_all_equal()


def test_an_old_reply_that_comes_again_is_not_counted(tmp_path: Path) -> None:
    kept: list[RecordDict] = []
    fleet = Fleet(tmp_path)

    def tamper(node: int, content: RecordDict) -> RecordDict:
        if node == 0:
            kept.append(content)
            return kept[0]
        return content

    fleet.tamper = tamper
    fleet.round()
    fleet.round()
    assert fleet.reasons == ["a reply of step 0, where step 1 is asked for"]


def test_a_second_reply_of_a_client_is_not_counted(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    replies = fleet.ask()
    fleet.strategy.aggregate_train(1, [*replies, replies[0]])
    assert fleet.reasons == ["a second reply to the same message"] and fleet.log.step == 1


def test_a_client_of_another_model(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.model = inject_all(MODELS["small_cnn"](), batch=4, command_words=1000, update_bits=8)
    fleet.round()
    assert fleet.log.step == 0 and len(fleet.reasons) == fleet.clients
    assert all("all members of a fleet need the same ZO model" in reason for reason in fleet.reasons)
    assert not any(KEPT in context.state for context in fleet.grid.contexts.values())


def test_a_client_that_fails_is_left_out(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, tamper=lambda node, content: None if node == 1 else content)
    fleet.round()
    assert fleet.log.step == 1
    (reason,) = fleet.reasons
    assert reason.startswith("the client has failed") and "no reply" in reason


def test_a_gateway_may_answer_for_as_many_as_it_was_said_to(tmp_path: Path) -> None:
    def tamper(node: int, content: RecordDict) -> RecordDict:
        if node == 1:
            metric("num-examples", 3 * OWN)(content)
        return content

    fleet = Fleet(tmp_path, tamper=tamper, options={"most_devices": 3})
    fleet.round()
    assert not fleet.reasons and fleet.log.step == 1


def test_an_answer_is_read_as_it_was_written(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    answer = fleet.replicas()[0].answer()
    (content,) = [r.content for r in fleet.ask() if r.metadata.src_node_id == fleet.nodes[0]]
    found = answer_of(content, State.read(content), fleet.log.settings)
    assert found is not None
    assert np.array_equal(found.differences, answer.differences)
    assert (found.loss, found.samples, found.step) == (answer.loss, answer.samples, 0)


def test_a_log_of_another_model_is_no_servers(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.log.close()
    assert isinstance(fleet.strategy, FleetStrategy) and zo_model() is not fleet.model
    (tmp_path / "x").mkdir()
    fleet.settings = Fleet(tmp_path / "x", changes={"seed": 5}).settings
    fleet.resume = True
    with pytest.raises(FleetError, match="of another run"):
        fleet.start_server()
