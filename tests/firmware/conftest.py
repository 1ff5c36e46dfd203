import pytest

from helpers.firmware_folders import ALGORITHMS


@pytest.fixture(params=ALGORITHMS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
