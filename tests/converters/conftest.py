import pytest

from helpers.examples import REAL_MODELS
from helpers.models import MODELS


@pytest.fixture(params=[pytest.param(build, id=name) for name, build in MODELS.items()])
def built(request: pytest.FixtureRequest) -> bytes:
    return request.param()


@pytest.fixture(params=REAL_MODELS)
def real_model(request: pytest.FixtureRequest) -> bytes:
    return request.param()
