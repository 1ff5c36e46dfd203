"""The threshold of an anomaly against NumPy's percentile of errors that a plain interpreter's outputs have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tflm_zo as zo
from helpers.interpreters import run_plain
from helpers.models import MODELS
from tflm_zo.converters import load_model
from tflm_zo.io.errors import DataError, SettingsError
from tflm_zo.logs import Log, LogError
from tflm_zo.logs.layout import padded, unpadded

NORMAL, ANOMALIES = 130, 40


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns normal samples and anomalies, in the units of the model's input."""
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(MODELS["autoencoder"]())
    rng = np.random.default_rng(4)
    x = rng.normal(0, 0.4, (NORMAL + ANOMALIES, 24)).astype(np.float32)
    x[NORMAL:] *= np.linspace(0.8, 1.6, ANOMALIES, dtype=np.float32)[:, None]
    return x[:NORMAL], x[NORMAL:]


def simulated(model: bytes, x: NDArray[np.float32]) -> NDArray[np.int64]:
    """Computes the losses: outputs of a plain interpreter, and squared errors in units of those of 8 levels."""
    (entry,), (exit_,) = load_model(model).subgraphs[0].inputs, load_model(model).subgraphs[0].outputs

    def levels(tensor: Any) -> NDArray[np.int64]:
        given = np.rint(x / np.float32(tensor.quantization.scale)) + tensor.quantization.zero_point
        return np.clip(given, -128, 127).astype(np.int64)

    inputs, targets = levels(entry).astype(np.int8), levels(exit_)
    outputs = np.concatenate([run_plain(model, "litert", [row[None]])[0] for row in inputs]).astype(np.int64)
    squares = ((outputs - targets) ** 2).sum(axis=1)
    return (2 * 65536 * squares + 64 * 24) // (2 * 64 * 24)


@pytest.mark.parametrize("percentile", [50.0, 90.0, 98.7, 99.0, 100.0])
@pytest.mark.parametrize("batch", [None, 1, 8])
def test_the_threshold_is_numpys(data: Any, percentile: float, batch: int | None) -> None:
    normal, anomalies = data
    plain = Path("model.tflite").read_bytes()
    losses, faulty = simulated(plain, normal), simulated(plain, anomalies)
    least = -(-round(percentile * 100) * NORMAL // 10000)
    threshold = int(np.partition(losses, least - 1)[least - 1])
    model = plain if batch is None else zo.inject(plain, loss="mse", batch=batch)
    test = {"x": np.concatenate([anomalies, normal]), "y": np.arange(NORMAL + ANOMALIES) < ANOMALIES}
    found = zo.calibrate(model, normal, percentile=percentile, test=test)
    assert (found.threshold, found.samples, found.above) == (threshold, NORMAL, (losses > threshold).sum())
    scale = load_model(plain).subgraphs[0].outputs[0].quantization.scale  # type: ignore[union-attr]
    assert found.loss == pytest.approx(threshold / 65536 * (8 * scale) ** 2)
    pairs = [(bad > good) + 0.5 * (bad == good) for bad in faulty for good in losses]
    known = found.detection
    assert known is not None and known.auc == pytest.approx(np.mean(pairs))
    assert (known.normal, known.anomalies) == (NORMAL, ANOMALIES)
    assert (known.false_alarms, known.detected) == (found.above, (faulty > threshold).sum())


def test_known_samples_of_the_data_itself(data: Any) -> None:
    x, y = np.concatenate(data), np.arange(NORMAL + ANOMALIES) >= NORMAL
    wanted = zo.calibrate("model.tflite", data[0], test={"x": x, "y": y})
    assert wanted == zo.calibrate("model.tflite", {"x": x, "y": y.astype(np.uint8)})
    np.savez("known.npz", x=x, y=y.astype(float).astype(int))
    assert wanted == zo.calibrate("model.tflite", "known.npz")
    assert zo.calibrate("model.tflite", {"x": data[0], "y": data[0]}).threshold == wanted.threshold  # targets
    none = zo.calibrate("model.tflite", data[0], test={"x": data[0], "y": np.zeros(NORMAL, int)}).detection
    assert none is not None and (none.anomalies, none.auc) == (0, None)


@pytest.mark.parametrize("algorithm", ["node", "weight", "exact"])
@pytest.mark.parametrize("keep", ["last", "best"])
def test_the_log_keeps_the_threshold_of_its_weights(data: Any, algorithm: str, keep: str) -> None:
    settings = getattr(zo.algorithms, algorithm)(seed=3)
    trainer = zo.Trainer("model.tflite", settings)
    measured = {"validation_data": data[0][-20:]} if keep == "best" else {}
    trainer.fit(data[0], steps=12, log="run.zolog", keep=keep, **measured)  # type: ignore[arg-type]
    model, before = trainer.model, Path("run.zolog").read_bytes()
    wanted = zo.calibrate(trainer.export(), data[0])
    assert wanted.threshold != zo.calibrate(model, data[0]).threshold
    found = zo.calibrate(model, data[0], log="run.zolog")
    after = Path("run.zolog").read_bytes()
    assert found == wanted and after[:-28] == before
    log = Log.read("run.zolog")
    assert log.threshold is not None and log.torn_bytes == 0 and log.whole_bytes in (0, len(after))
    runtime = trainer.runtime
    runtime.invoke(runtime.command(loss=False, checksum=True))
    assert (log.threshold.loss_sum, log.threshold.samples, log.threshold.correct, log.threshold.data_checksum) == (
        *(wanted.threshold, NORMAL, 9900),
        runtime.status().checksum,
    )
    assert unpadded(padded(after, 16)) == after

    # Another one takes its place; a torn one is none; one that is cut off leaves the log as it was.
    again = zo.calibrate(model, data[0], percentile=90, log="run.zolog")
    assert again.threshold < found.threshold and len(Path("run.zolog").read_bytes()) == len(after)
    for end in (before, after[:-1], after[:-1] + b"?"):
        Path("run.zolog").write_bytes(end)
        assert Log.read("run.zolog").threshold is None
        assert len(Log.read("run.zolog").losses) == len(log.losses)

    # A run that goes on removes it.
    Path("run.zolog").write_bytes(after)
    zo.Trainer(model, settings).fit(data[0], steps=12, log="run.zolog", keep=keep, resume=True, **measured)  # type: ignore[arg-type]
    assert Path("run.zolog").read_bytes() == before


def test_a_log_that_ended_early_keeps_one(data: Any) -> None:
    class Stop(zo.Callback):
        def on_step_end(self, progress: zo.RunProgress, logs: dict[str, float]) -> None:
            if progress.step == 5:
                progress.stop()

    for settings in (zo.algorithms.weight(queries=2, seed=1), zo.algorithms.node(seed=1)):
        trainer = zo.Trainer("model.tflite", settings)
        trainer.fit(data[0], steps=12, log="run.zolog", keep="last", callbacks=[Stop()], replace=True)
        found, before = zo.calibrate(trainer.model, data[0], log="run.zolog"), Path("run.zolog").read_bytes()
        log = Log.read("run.zolog")
        assert len(log.losses) == 5 and log.threshold is not None and log.threshold.loss_sum == found.threshold
        assert zo.calibrate(trainer.model, data[0], log="run.zolog") == found
        assert Path("run.zolog").read_bytes() == before


@pytest.mark.parametrize("percentile", [0, -1, 100.01, 99.999, float("nan"), float("inf")])
def test_percentiles_that_are_none(data: Any, percentile: float) -> None:
    with pytest.raises(SettingsError, match="`percentile` must be a multiple of 0.01 in 0.01..100"):
        zo.calibrate("model.tflite", data[0], percentile=percentile)


def test_wrong_data(data: Any) -> None:
    normal = data[0]
    bad = normal.copy()
    bad[3, 4] = np.nan
    for x, said in (
        (normal[:0], "empty"),
        (bad, "NaN"),
        (normal[:, :23], "must have samples of shape"),
        ({"x": normal, "y": np.ones(NORMAL, int)}, "no sample is normal"),
        ({"x": normal, "y": np.full(NORMAL, 2)}, "out of range"),
        ({"x": normal, "y": np.full(NORMAL, -1)}, "must be 0 or 1"),
        ({"x": normal, "y": np.zeros(NORMAL - 1, int)}, "samples"),
    ):
        with pytest.raises(DataError, match=said):
            zo.calibrate("model.tflite", x)
    with pytest.raises(DataError, match="`test` must have y"):
        zo.calibrate("model.tflite", normal, test=normal)
    with pytest.raises(SettingsError, match="`model` must have the mean squared error as its loss"):
        zo.calibrate(zo.inject(MODELS["small_cnn"](), loss="cross_entropy"), normal)


def test_a_log_of_another_model(data: Any) -> None:
    trainer = zo.Trainer("model.tflite", zo.algorithms.node(seed=3))
    trainer.fit(data[0], steps=2, log="run.zolog", keep="last")
    before = Path("run.zolog").read_bytes()
    other = zo.Trainer("model.tflite", zo.algorithms.weight(seed=3)).model
    with pytest.raises(LogError, match="the log is of another model"):
        zo.calibrate(other, data[0], log="run.zolog")
    with pytest.raises(LogError):
        zo.calibrate("model.tflite", data[0], log="run.zolog")
    assert Path("run.zolog").read_bytes() == before
