"""The same examples in every run: a failure in a pull request is that pull request's."""

import pytest
from hypothesis import settings

from helpers.examples import examples

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=examples(100))
settings.load_profile("repeatable")


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces measuring by the arena's bound: measuring takes a second (firmware/test_arena.py does)."""
    monkeypatch.setattr("tflm_zo.firmware.arena.recorded", lambda models: None)
