# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Control units for settings of the oracle."""

from __future__ import annotations

from hypothesis import strategies as st

from helpers.oracle.control import ONE, Settings
from helpers.oracle.draws import distributions, native, seeds
from tflm_zo.core import Control, CSettings, command_words


def integers(s: Settings) -> CSettings:
    return CSettings(
        *(s.run_seed, s.steps, s.samples, s.batch, s.parts, s.queries, int(s.one_sided), s.rule),
        *(native(s.dist).struct, s.rate, s.final_rate, s.schedule, s.warmup_steps, s.decay, s.decay_steps),
        *(s.clip, s.gradient_norm, len(s.segments)),
        chain=s.chain if s.memory else 0,
        momentum=s.memory,
        sharpness=s.sharpness,
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
    chain, memory = 1, 0
    if dist.kind == 2 and queries <= 16 and draw(st.booleans()):
        chain, memory = draw(st.integers(2, min(8, 32 // queries))), draw(st.integers(1, 65535))
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
        schedule=draw(st.integers(0, 3)),
        warmup_steps=draw(st.integers(0, 4)),
        decay=draw(st.integers(0, ONE)),
        decay_steps=draw(st.integers(1, 3)),
        clip=draw(st.one_of(st.just(0), st.integers(1, 10 * ONE))),
        gradient_norm=draw(st.one_of(st.just(0), st.integers(1, 10**6))),
        segments=tuple(draw(st.lists(st.integers(0, 3), max_size=3))),
        sharpness=draw(st.booleans()) and not one_sided,
        chain=chain,
        memory=memory,
    )
