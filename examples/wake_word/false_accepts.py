# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""False accepts of wake words: models listen to hours of other speech, as a device does.

    python examples/wake_word/false_accepts.py okay_nabu.tflite wake_word/wake_word.tflite --hours 1

Each stream takes ten minutes and is never reset. Utterances are one to ten words of Python's own documentation, which
the training of wake_word.py does not have. Voices, speeds and noises vary. --fsdd names the Free Spoken Digit Dataset,
speech of real people, as an .npz file (`x` int16 [recordings, samples] at 8 kHz, `length`). The last row has the wake
phrase of the voice between other utterances: these accepts are right.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from wake_word import HARD, RATE, WAKES, Samples, device_means, features_of, speak

import tflm_zo as zo
from tflm_zo.converters import inject
from tflm_zo.runtime import load

Sound = NDArray[np.float64]
Utterances = Callable[[np.random.Generator], Iterator[Sound]]

STREAM: Final = 600  # seconds
STEP: Final = 0.03  # seconds between two outputs
REST: Final = 33  # outputs after an accept, and at the beginning, that a device ignores
VOICES: Final = [
    f"{accent}+{voice}"
    for accent in ("en-gb-x-rp", "en-029", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us", "en-gb-scotland", "de", "es")
    for voice in ("m1", "m2", "m5", "m7", "f1", "f2", "f5", "croak")
]
WORDS: Final = re.findall("[A-Za-z]+", " ".join(topics.values()))


def text(random: np.random.Generator) -> str:
    """Returns one to ten words."""
    first = int(random.integers(len(WORDS)))
    return " ".join(WORDS[first : first + int(random.integers(1, 11))])


def other_voices(random: np.random.Generator) -> Iterator[Sound]:
    """Yields utterances of many voices."""
    while True:
        voice, speed = VOICES[random.integers(len(VOICES))], int(random.integers(110, 220))
        yield speak(text(random), voice, speed, int(random.integers(20, 81)))


def voice_itself(voice: str) -> Utterances:
    """Returns utterances of the voice that the model was trained for, spoken in its manner."""

    def utterances(random: np.random.Generator) -> Iterator[Sound]:
        while True:
            speed = int(random.integers(HARD.slowest, HARD.fastest + 1))
            yield speak(text(random), voice, speed, int(random.integers(35, 66)))

    return utterances


def with_phrase(voice: str, phrase: str) -> Utterances:
    """Returns utterances of that voice with the wake phrase after each of them."""

    def utterances(random: np.random.Generator) -> Iterator[Sound]:
        for other in voice_itself(voice)(random):
            yield other
            yield np.zeros(RATE)
            speed = random.integers(HARD.slowest, HARD.fastest + 1)
            yield speak(phrase, voice, int(speed), int(random.integers(35, 66)))

    return utterances


def digits(file: Path) -> Utterances:
    """Returns the recordings of FSDD in a random order, at 16 kHz."""
    data = np.load(file)
    x, length = data["x"].astype(np.float64), data["length"]

    def utterances(random: np.random.Generator) -> Iterator[Sound]:
        for i in random.permutation(len(x)):
            own = x[i, : length[i]]
            yield 2 * np.fft.irfft(np.fft.rfft(own), 2 * len(own))

    return utterances


def noise(kind: int, count: int, random: np.random.Generator) -> Sound:
    """Returns hiss, rumble, or the babble of eight voices, of standard deviation 1."""
    found = random.normal(size=count)
    if kind == 1:
        spectrum = np.fft.rfft(found)
        found = np.fft.irfft(spectrum / np.arange(1, len(spectrum) + 1), count)
    elif kind == 2:
        speech = other_voices(random)
        voices = [np.concatenate([next(speech) for _ in range(8)]) for _ in range(8)]
        found = np.sum([np.resize(voice, count) for voice in voices], 0)
    return np.asarray(found / found.std())


def stream(kind: int, level: float, speech: Iterator[Sound], random: np.random.Generator) -> tuple[Samples, int]:
    """Returns ten minutes of speech so many dB above noise, and the number of utterances."""
    whole, at, spoken = np.zeros(STREAM * RATE), 0, 0
    for own in speech:
        if at + len(own) > len(whole):
            break
        if own.any():
            whole[at : at + len(own)] = own * 3000 / np.sqrt((own**2).mean())
            spoken += 1
        at += len(own) + int(random.uniform(0.1, 1.0) * RATE)
    whole += noise(kind, len(whole), random) * 3000 / 10 ** (level / 20)
    return np.clip(whole, -32768, 32767).astype(np.int16), spoken


def accepts(means: NDArray[np.float64]) -> int:
    """Counts the accepts of a device, which ignores the outputs of the second after one."""
    count, ready = 0, REST
    for at in np.flatnonzero(means >= WAKES):
        if at >= ready:
            count, ready = count + 1, at + REST
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="streaming models with the same features")
    parser.add_argument("--hours", type=float, default=1.0, help="hours of other voices, at least (default: 1)")
    parser.add_argument("--phrase", default="okay nabu", help="wake phrase of the models (default: okay nabu)")
    parser.add_argument("--voice", default="en+m3", help="voice of the training (default: en+m3)")
    parser.add_argument("--fsdd", type=Path, metavar="FILE", help="Free Spoken Digit Dataset, .npz")
    parser.add_argument("--seed", type=int, default=100, help="seed of speech and noise (default: 100)")
    arguments = parser.parse_args()
    if not 0 < arguments.hours < 1000:
        sys.exit(f"`--hours` must be above 0 and below 1000. Received: {arguments.hours}. Example: --hours 1")
    count, hard = -(-int(arguments.hours * 3600) // STREAM), (HARD.quietest, HARD.loudest)
    rows: dict[str, tuple[int, tuple[float, float], Utterances]] = {
        "other voices": (count, (3, 25), other_voices),
        "this voice, slow and in noise": (-(-count // 2), hard, voice_itself(arguments.voice)),
    }
    if arguments.fsdd:
        rows["spoken digits (FSDD)"] = (4, (10, 25), digits(arguments.fsdd))
    rows["the phrase of this voice"] = (1, hard, with_phrase(arguments.voice, arguments.phrase))
    runtimes = [load(inject(zo.load_model(path), trainable="none")) for path in arguments.models]
    shape = runtimes[0].input_details()[0][1:]
    table = Table("", "hours", "utterances", *(path.name for path in arguments.models), title="Accepts")
    with Progress(transient=True) as progress:
        task = progress.add_task("listening", total=sum(streams for streams, *_ in rows.values()))
        for number, (name, (streams, levels, utterances)) in enumerate(rows.items()):
            random = np.random.default_rng([arguments.seed, number])
            speech, spoken, seconds, found = utterances(random), 0, 0.0, [0] * len(runtimes)
            for i in range(streams):
                kind = 0 if levels == hard else i % 3
                sound, own = stream(kind, float(random.uniform(*levels)), speech, random)
                spoken, x = spoken + own, features_of(sound)
                seconds += len(x) / 100
                x = x[: len(x) // shape[0] * shape[0]].reshape(1, -1, *shape)
                found = [n + accepts(device_means(r, x)) for n, r in zip(found, runtimes, strict=True)]
                progress.advance(task)
            table.add_row(name, f"{seconds / 3600:.1f}", str(spoken), *map(str, found))
    Console().print(table)


if __name__ == "__main__":
    main()
