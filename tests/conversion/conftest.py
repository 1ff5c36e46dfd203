import pytest


@pytest.fixture
def keras_seed() -> None:
    """Sets the seed, so that models of Keras have the same weights in every run."""
    import keras

    keras.utils.set_random_seed(1)
