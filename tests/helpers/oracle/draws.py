"""Random cases for property tests, and the same distribution for the oracle and for the C core."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tflm_zo import core
from tflm_zo.core import Control, CSettings, command_words

from .control import ONE, STEP, Settings
from .stream import Dist

seeds = st.integers(0, 2**32 - 1)
streams = st.integers(0, 65535)
sizes = st.one_of(st.integers(1, 3000), st.sampled_from([1, 31, 32, 33, 1023, 1024, 1025, 2048, 2049]))

distributions = st.one_of(
    st.builds(Dist, st.just(0), st.integers(1, 127)),
    st.builds(Dist, st.just(1), st.integers(1, 127), st.integers(0, 255)),
    st.builds(Dist, st.just(2), st.one_of(st.integers(1, 1000), st.integers(1, 65535))),
    st.builds(Dist, st.just(3), st.integers(1, 127)),
)

EXAMPLES = [Dist(0, 2), Dist(1, 5, 100), Dist(2, 300), Dist(3, 4)]
"""One of each kind, of sizes that training uses."""


def native(dist: Dist) -> core.Distribution:
    return core.Distribution.of(dist)


def distribution_of(distribution: core.Distribution) -> Dist:
    """Converts the other way round."""
    return Dist(distribution.kind, distribution.mu, distribution.p_zero)


@dataclass
class Step:
    """Arguments of an update."""

    dist: Dist
    size: int
    channels: int
    inner: int
    multiplier: NDArray[np.int32] | None
    has_fraction: bool
    stream: int
    limit: int
    queries: list[tuple[int, int]]
    restore: list[tuple[int, int]]

    @property
    def shape(self) -> tuple[NDArray[np.int32] | None, int, int, int, int]:
        """Multiplier, channels, inner, stream and limit, as the oracle and the core take them."""
        return self.multiplier, self.channels, self.inner, self.stream, self.limit

    def arrays(self) -> tuple[NDArray[np.int8], NDArray[np.int8] | None]:
        """Draws weights within the limit, and a fraction for the 16-bit update."""
        rng = np.random.default_rng(self.size + self.limit)
        total = rng.integers(-256 * self.limit, 256 * self.limit + 1, self.size)
        whole = (total + 128) // 256
        fraction = (total - 256 * whole).astype(np.int8)
        return whole.astype(np.int8), fraction if self.has_fraction else None


factors = st.sampled_from([-2, -1, 1])


@st.composite
def perturbations(draw, least: int = 1) -> list[tuple[int, int]]:
    """Draws terms."""
    return draw(st.lists(st.tuples(seeds, factors), min_size=least, max_size=3))


@st.composite
def steps(draw, restore: bool | None = None, max_queries: int = 5) -> Step:
    """Draws any update that the core accepts, of small and of the largest coefficients."""
    dist, count = draw(distributions), draw(st.integers(1, max_queries))
    largest = 2**30 // (dist.z_max * count)
    coefficient = st.one_of(st.integers(-min(largest, 200_000), min(largest, 200_000)), st.integers(-largest, largest))
    queries = draw(st.lists(st.tuples(seeds, coefficient), min_size=count, max_size=count))
    multiplier, channels, inner = None, 1, 1
    if draw(st.booleans()):
        channels = draw(st.integers(1, 40))
        inner = draw(st.sampled_from([1, 1, 2, 7, 25]))
        size = channels * inner * draw(st.integers(1, 3000 // (channels * inner)))
        bits = st.one_of(st.sampled_from([0, 1, 2**30, 2**31 - 1]), st.integers(0, 2**31 - 1))
        multiplier = np.array(draw(st.lists(bits, min_size=channels, max_size=channels)), np.int32)
    else:
        size = draw(sizes)
    return Step(
        dist,
        size,
        channels,
        inner,
        multiplier,
        draw(st.booleans()),
        draw(streams),
        draw(st.integers(1, 127)),
        queries,
        [] if restore is False else draw(perturbations(least=restore is True)),
    )


def integers(s: Settings) -> CSettings:
    return CSettings(
        *(s.run_seed, s.steps, s.samples, s.batch, s.parts, s.queries, int(s.one_sided), s.rule),
        *(native(s.dist).struct, s.rate, s.final_rate, s.schedule, s.warmup_steps, s.decay, s.decay_steps),
        *(s.clip, s.gradient_norm, len(s.segments)),
    )


def needed(s: Settings) -> int:
    return command_words(integers(s))


def make(s: Settings, spare: int = 0) -> Control:
    return Control(integers(s), needed(s) + spare, list(s.segments))


rates = st.one_of(st.integers(1, 2**31 - 1), st.integers(1, 100 * ONE), st.integers(1, 100))


@st.composite
def any_settings(draw, distribution=distributions, most_steps=5):
    rate, one_sided = draw(rates), draw(st.booleans())
    dist, queries = draw(distribution), draw(st.one_of(st.integers(1, 4), st.just(32)))
    return Settings(
        run_seed=draw(seeds),
        steps=draw(st.integers(1, most_steps)),
        samples=draw(st.integers(1, 50)),
        batch=draw(st.integers(1, 4)),
        parts=draw(st.integers(1, 3)),
        queries=queries,
        one_sided=one_sided,
        rule=draw(st.integers(0, 2)),
        dist=dist,
        rate=rate,
        final_rate=draw(st.integers(0, rate)),
        schedule=draw(st.integers(0, STEP)),
        warmup_steps=draw(st.integers(0, 4)),
        decay=draw(st.integers(0, ONE)),
        decay_steps=draw(st.integers(1, 3)),
        clip=draw(st.one_of(st.just(0), st.integers(1, 10 * ONE))),
        gradient_norm=draw(st.one_of(st.just(0), st.integers(1, 10**6))),
        segments=tuple(draw(st.lists(st.integers(0, 3), max_size=3))),
    )
