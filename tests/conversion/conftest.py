import pytest


@pytest.fixture
def keras_seed() -> None:
    """Models of Keras have the same weights in every run."""
    import keras

    keras.utils.set_random_seed(1)
