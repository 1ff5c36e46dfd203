"""Tests of the benchmarks, which import the benchmarks' packages as the scripts beside them do."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks these tests as slow, because nothing that users run depends on benchmarks."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
