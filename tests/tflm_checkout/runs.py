"""A run of a generated folder on an emulated core, against the same run on this machine."""

from pathlib import Path

from cortex_m.emulator import CORES, run
from tflm_checkout.esp_nn_build import EspNnLibrary
from tflm_checkout.firmware_build import Library
from tflm_checkout.test_firmware import log_of
from tflm_zo import Model
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Settings, Trainer
from tflm_zo.training.lowering import StepMemory


def checksum_of(trainer: Trainer) -> int:
    trainer.runtime.invoke(trainer.runtime.command(loss=False, checksum=True))
    return int(trainer.runtime.status().checksum)


def check_run(
    library: Library | EspNnLibrary,
    zo: Model,
    settings: Settings,
    data: Data,
    steps: int,
    name: str,
    folder: Path,
    memory: StepMemory | None = None,
) -> None:
    trainer = Trainer(zo, settings, runtime="tflm")
    before = checksum_of(trainer)
    log = folder / "run.zolog"
    history = trainer.fit(data.inputs[0], data.labels, steps=steps, log=log, keep="last")
    checksum = checksum_of(trainer)
    assert checksum != before

    made = generate_firmware(
        zo,
        settings,
        steps=steps,
        samples=len(data.labels),
        name=name,
        data=data,
        platform=library.platform,
        memory=memory,
    )
    made.write(folder / "firmware")
    program = library.build(folder / "firmware", folder / "build")
    lines = run(CORES[library.core], program, timeout=600).splitlines()
    losses = [int(line.split()[3]) for line in lines if line.startswith("step ")]
    unit = trainer.runtime.metadata.loss.unit
    assert losses == [round(v / unit * 65536) for v in history.steps]
    assert log_of(lines) == log.read_bytes()
    assert f"checksum {checksum:08x}" in lines
