import pytest

from helpers.firmware_folders import ALGORITHMS


@pytest.fixture(params=ALGORITHMS)
def kind(request: pytest.FixtureRequest) -> str:
    """Returns the algorithm of a generated folder."""
    return str(request.param)
