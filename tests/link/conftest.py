"""Links whose device is in the same process need not wait for it."""

import sys

import pytest

from link.direct import CLOCK


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links have the clock of `DirectPort`, on which waiting takes no time."""
    for name in ("link", "collect"):
        monkeypatch.setattr(sys.modules[f"tflm_zo.link.{name}"], "time", CLOCK)
