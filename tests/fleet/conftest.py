"""Flower says much about each round."""

import logging
import sys

import pytest

collect_ignore_glob = ["flower/*"] if sys.version_info < (3, 11) else []


@pytest.fixture(autouse=True)
def quiet_flower() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)
