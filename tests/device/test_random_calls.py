"""Calls of a device's trainer in any order, while anything fails, see `device.walk`. TFLM_ZO_CALLS says how many
there are for each run, TFLM_ZO_SEED which: 44000 make a million, 16000 two minutes on two cores."""

import os
from collections import Counter

import pytest

from device.emulation import OK, ORDER, RUNTIME_FAILED, SAMPLE, STORE, needs_compiler
from device.places_walk import PlacesWalk
from device.runs import RUNS
from device.walk import Walk

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore:the validation data have samples of:tflm_zo.data.DataWarning"),
]

CALLS = int(os.environ.get("TFLM_ZO_CALLS", "16000"))
SEED = int(os.environ.get("TFLM_ZO_SEED", "2"))


def walk(made: Walk, calls: int) -> Counter[tuple[str, int]]:
    made.go(calls)
    print(f"{made.name}: {sum(made.calls.values())} calls")
    return made.calls


def check(found: Counter[tuple[str, int]]) -> None:
    """Checks that the walk goes everywhere: each call succeeds now and then, and meets failures."""
    if CALLS < 3000:
        return
    for call in {call for call, _ in found if not call.startswith("init ")}:
        assert found[call, OK], call
    for status in (ORDER, STORE, SAMPLE, RUNTIME_FAILED):
        assert any(found[call, status] for call in ("step", "slice")), status


@pytest.mark.parametrize("name", ["weight", "exact head"])
def test_some_calls_in_any_order(name: str) -> None:
    found = walk(Walk(name, 1), 400)
    assert found["step", OK] and found["step", ORDER] and found["import_log", OK]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_calls_in_any_order(name: str) -> None:
    check(walk(Walk(name, SEED), CALLS))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weight", "residual, exact tail"])
def test_calls_in_c(name: str) -> None:
    check(walk(Walk(name, SEED, in_c=True), CALLS))


@pytest.mark.parametrize("name", ["weight"])
def test_some_calls_with_two_places(name: str) -> None:
    found = walk(PlacesWalk(name, 1, "flash"), 400)
    assert found["connect", OK] and found["deploy", OK] and found["revert", OK]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("weight", "flash"),
        ("weight, 16 bits", "units of 8"),
        ("node", "bytes"),
        ("exact head", "units of 8"),
        ("residual, biases alone", "flash"),
    ],
)
def test_calls_with_two_places(name: str, memory: str) -> None:
    found = walk(PlacesWalk(name, SEED, memory), CALLS)
    if CALLS >= 3000:
        for call in ("connect", "deploy", "revert", "read", "check", "write"):
            assert found[call, OK], call
        assert found["deploy", STORE] + found["revert", STORE]
