# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A wake word that fails for one voice: a public streaming model is fine-tuned with that voice, by forward passes.

    python examples/wake_word/wake_word.py okay_nabu.tflite -o wake_word

The model is one of microWakeWord, version 2 (github.com/esphome/micro-wake-word-models). Voices come from espeak-ng, or
from recordings: --recordings names a folder with `positive/*.wav` and `negative/*.wav`, 16 kHz, mono, 16 bits. The
folder gets the training data as an .npz file for `tflm-zo`, the fine-tuned streaming model, and its manifest for
ESPHome. The table shows how often the model wakes, before and after.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import tflm_zo as zo
from tflm_zo.converters import inject
from tflm_zo.runtime import Runtime, load

Samples = NDArray[np.int16]
Features = NDArray[np.int8]

RATE: Final = 16_000
WINDOW: Final = 240  # rows of features of a sample, 10 ms each
FEATURES: Final = 40
WAKES: Final = 248  # of 255, the manifests' cutoff of 0.97
MEAN: Final = 5  # outputs whose mean a device compares with the cutoff
STEPS: Final = 1_500
# Scale of a feature of pymicro-features.
_FEATURE: Final = 0.0390625

SENTENCES: Final = (
    "please turn on the kitchen light now",
    "what is the weather like today",
    "okay now we can begin",
    "a new day is coming",
    "set a timer for ten minutes",
    "okay then see you tomorrow",
    "play some music in the living room",
    "the map is on the table",
    "open the window a little",
    "he walked along the river",
    "nobody knows the answer",
    "call my brother on the phone",
    "tell me a short story",
    "is the door still open",
    "the dog sleeps in the garden",
)
# Voices whose words, in a random order, must not wake the model.
TALKERS: Final = [
    f"{a}+{v}" for a in ("en", "en-us", "en-gb-scotland") for v in ("m3", "m4", "m6", "m8", "linda", "anika")
]
OTHERS: Final = ("en", "en-us", "en-gb-scotland", "en+f3", "en-us+f2", "en+m1", "en+f4")


@dataclass(frozen=True)
class Speech:
    """A manner of speaking, and the noise around it.

    Attributes:
        slowest, fastest: words a minute.
        quietest, loudest: level of the speech above the noise, dB.
    """

    slowest: int
    fastest: int
    quietest: float
    loudest: float


HARD, USUAL, ANY = Speech(82, 100, 5, 8), Speech(140, 170, 18, 22), Speech(90, 200, 5, 25)


def speak(text: str, voice: str, speed: int, pitch: int) -> NDArray[np.float64]:
    """Returns espeak-ng's samples of a text, at 16 kHz."""
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", text]
    with wave.open(io.BytesIO(subprocess.run(command, capture_output=True, check=True).stdout)) as file:
        rate, x = file.getframerate(), np.frombuffer(file.readframes(2**30), np.int16).astype(np.float64)
    count = len(x) * RATE // rate
    return np.interp(np.arange(count) * rate / RATE, np.arange(len(x)), x)


def in_noise(x: NDArray[np.float64], level: float, before: float, after: float, random: np.random.Generator) -> Samples:
    """Adds silence before and after, in seconds, and noise everywhere, so many dB below the speech."""
    speech = x * 3000 / np.sqrt((x**2).mean())
    whole = np.concatenate([np.zeros(int(before * RATE)), speech, np.zeros(int(after * RATE))])
    noise = np.convolve(random.normal(size=len(whole)), (0.25, 0.5, 0.25), "same")
    whole += noise * 3000 / 10 ** (level / 20) / noise.std()
    return np.clip(whole, -32768, 32767).astype(np.int16)


def features_of(samples: Samples) -> Features:
    """Returns the levels of TensorFlow's audio microfrontend, int8 [rows, 40], a row for 10 ms, as ESPHome computes
    them.
    """
    from pymicro_features import MicroFrontend

    frontend, rows, content, at = MicroFrontend(), [], samples.tobytes(), 0
    while at + 320 <= len(content):
        found = frontend.process_samples(content[at : at + 320])
        at += 2 * found.samples_read
        if found.features:
            rows.append(found.features)
    raw = np.rint(np.array(rows).reshape(-1, FEATURES) / _FEATURE)
    return np.clip((256 * raw + 333) // 666 - 128, -128, 127).astype(np.int8)


def window_of(samples: Samples) -> Features:
    """Returns the last rows of a sample's features, with its first one repeated before a short sample."""
    found = features_of(samples)[-WINDOW:]
    return np.concatenate([np.repeat(found[:1], WINDOW - len(found), 0), found])


def spoken(texts: Sequence[str], voice: str, how: Speech, count: int, random: np.random.Generator) -> Features:
    """Speaks texts of a list, drawn at random, int8 [count, rows, 40]."""
    found = []
    for _ in range(count):
        speed, pitch = int(random.integers(how.slowest, how.fastest + 1)), int(random.integers(35, 66))
        x = speak(texts[int(random.integers(len(texts)))], voice, speed, pitch)[: int(1.9 * RATE)]
        level = float(random.uniform(how.quietest, how.loudest))
        noisy = in_noise(x, level, float(random.uniform(0.4, 0.9)), float(random.uniform(0.25, 0.5)), random)
        found.append(window_of(noisy))
    return np.stack(found)


def word_salad(count: int, random: np.random.Generator) -> list[str]:
    """Returns one to four words of the sentences each, in a random order."""
    words = sorted(set(" ".join(SENTENCES).split()))
    return [" ".join(random.choice(words, int(random.integers(1, 5)))) for _ in range(count)]


def recorded(folder: Path) -> Features:
    """Reads recordings, int8 [files, rows, 40]."""
    found = []
    for path in sorted(folder.glob("*.wav")):
        with wave.open(str(path)) as file:
            if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
                sys.exit(f"{path} must have 16 kHz, 1 channel and 16 bits: sox {path.name} -r 16000 -c 1 -b 16 OUT.wav")
            found.append(window_of(np.frombuffer(file.readframes(2**30), np.int16)))
    if not found:
        sys.exit(f"{folder} has no .wav files")
    return np.stack(found)


def device_means(runtime: Runtime, x: Features) -> NDArray[np.float64]:
    """Returns the mean of the last outputs at each step of a sequence [1, steps, ...], 0..255. A device compares it
    with the cutoff.
    """
    runtime.set_inputs(x)
    runtime.invoke()
    return np.convolve(runtime.outputs()[0].ravel(), np.ones(MEAN) / MEAN)[: x.shape[1]]


def peaks(runtime: Runtime, x: Features) -> NDArray[np.float64]:
    """Returns the largest of these means for each sample."""
    shape = runtime.input_details()[0][1:]
    rows = x.shape[1] // shape[0] * shape[0]
    return np.array([device_means(runtime, sample[:rows].reshape(1, -1, *shape)).max() for sample in x])


def same_in_tflm(model: zo.Model, x: Features) -> bool:
    """Returns whether each output of a stream is that of TFLM's interpreter, which runs the file as ESPHome does."""
    from tflite_micro import runtime as tflm

    own = load(inject(model, trainable="none"))
    shape = own.input_details()[0]
    own.set_inputs(x[None, : len(x) // shape[1] * shape[1]].reshape(1, -1, *shape[1:]))
    own.invoke()
    device = tflm.Interpreter.from_bytes(model.to_bytes(), arena_size=1 << 20)
    for step, expected in zip(x[: len(x) // shape[1] * shape[1]].reshape(-1, *shape), own.outputs()[0][0], strict=True):
        device.set_input(step, 0)
        device.invoke()
        if not np.array_equal(device.get_output(0)[0], expected):
            return False
    return True


def manifest(phrase: str, arena: int) -> dict[str, Any]:
    """Returns the manifest of a microWakeWord model, version 2, for ESPHome."""
    micro = {
        "probability_cutoff": 0.97,
        "feature_step_size": 10,
        "sliding_window_size": MEAN,
        "tensor_arena_size": arena,
        "minimum_esphome_version": "2024.7.0",
    }
    return {
        "type": "micro",
        "wake_word": phrase.title(),
        "author": "fine-tuned with tflm_zo",
        "website": "",
        "model": "wake_word.tflite",
        "trained_languages": ["en"],
        "version": 2,
        "micro": micro,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a microWakeWord model, version 2")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--phrase", default="okay nabu", help="wake phrase of the model (default: okay nabu)")
    parser.add_argument("--voice", default="en+m3", help="voice of espeak-ng (default: en+m3)")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="recordings instead of that voice")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"training steps (default: {STEPS})")
    parser.add_argument("--seed", type=int, default=1, help="seed of voices and noise (default: 1)")
    arguments = parser.parse_args()
    if shutil.which("espeak-ng") is None:
        sys.exit("espeak-ng is not installed; apt install espeak-ng")
    random, phrase, voice = np.random.default_rng(arguments.seed), (arguments.phrase,), arguments.voice
    console = Console()

    console.print("speaking…")
    if arguments.recordings:
        wakes, others = (recorded(arguments.recordings / name) for name in ("positive", "negative"))
    else:
        wakes, others = spoken(phrase, voice, HARD, 24, random), spoken(SENTENCES, voice, HARD, 24, random)
        others = np.concatenate([others, spoken(word_salad(200, random), voice, HARD, 24, random)])
    # Other voices, as they usually speak, so that the model does not forget them.
    known = [spoken(phrase, other, USUAL, 8, random) for other in OTHERS[:4]]
    known_others = [spoken(SENTENCES, other, USUAL, 4, random) for other in OTHERS[:4]]
    # Short words of many voices, so that an hour of other speech does not wake it.
    known_others += [spoken(word_salad(50, random), talker, ANY, 3, random) for talker in TALKERS]
    positive, negative = np.concatenate([wakes, *known]), np.concatenate([others, *known_others])
    # As many with the phrase as without it, so that the model forgets neither.
    positive = np.resize(positive, (len(negative), *positive.shape[1:]))
    x = np.concatenate([positive, negative])
    y = np.repeat((1, 0), (len(positive), len(negative)))
    tests = {
        "this voice, slow and in noise": (spoken(phrase, voice, HARD, 20, random), True),
        "other sentences of it": (spoken(SENTENCES, voice, HARD, 60, random), False),
        "other voices": (np.concatenate([spoken(phrase, other, USUAL, 4, random) for other in OTHERS]), True),
        "their other sentences": (np.concatenate([spoken(SENTENCES, v, USUAL, 20, random) for v in OTHERS]), False),
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.output / "wake_word.npz", x=x, y=y)

    console.print(f"training on {len(x)} sequences of {WINDOW // 3} steps…")
    settings = zo.algorithms.weight(batch_size=16)
    found = zo.adapt(arguments.model, x, y, settings, steps=arguments.steps, validation_split=0.0, keep="last")
    model = found.model
    model.save(arguments.output / "wake_word.tflite", force=True)
    arena = 1024 * -(-(30_000 + sum(s.nbytes for s in found.trainer.runtime.metadata.states)) // 1024)
    text = json.dumps(manifest(arguments.phrase, arena), indent=2)
    (arguments.output / "wake_word.json").write_text(f"{text}\n")

    table = Table("", "samples", "wakes before", "wakes after", "median before", "median after", title="Wakes")
    before, after = (load(inject(m, trainable="none")) for m in (zo.load_model(arguments.model), model))
    for name, (given, _) in tests.items():
        old, new = peaks(before, given), peaks(after, given)
        counts = [str(int((values >= WAKES).sum())) for values in (old, new)]
        table.add_row(name, str(len(given)), *counts, *(f"{np.median(values):.0f}" for values in (old, new)))
    console.print(table)
    stream = np.concatenate(list(tests["this voice, slow and in noise"][0][:4]))
    said = "the same bits as" if same_in_tflm(model, stream) else "OTHER BITS THAN"
    console.print(f"{arguments.output / 'wake_word.tflite'}: {said} in TFLM's interpreter, over {len(stream)} rows")


if __name__ == "__main__":
    main()
