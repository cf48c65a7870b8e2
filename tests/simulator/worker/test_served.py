"""Schedules as an engine's own worker can serve them."""

import msgspec
import pytest

from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.faithful import is_faithful
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.worker.served import served


@pytest.mark.parametrize("seed", range(40))
def test_what_is_served_is_served_as_it_is(seed):
    made = served(from_draw(Draw(seed=seed)))
    assert served(made) == made


@pytest.mark.parametrize("seed", range(40))
def test_little_is_left_that_the_engine_would_not_do(seed):
    left = is_faithful(served(from_draw(Draw(seed=seed))))
    assert all(reason.startswith("attention blocks of") for reason in left)


def test_attention_blocks_that_are_a_fraction_of_the_recurrent_ones_are_kept():
    drawn = [from_draw(Draw(seed=seed)) for seed in range(40)]
    smaller = 0
    for asked in drawn:
        sizes = {asked.layout.groups[g].block_size for g in asked.layout.attention_groups}
        made = served(asked).layout
        recurrent = made.recurrent_block_size
        kept = {made.groups[g].block_size for g in made.attention_groups}
        fits = len(sizes) == 1 and min(sizes) < recurrent and recurrent % min(sizes) == 0
        assert kept == (sizes if fits else {recurrent})
        smaller += fits
    assert smaller


def test_a_one_token_prompt_is_kept_with_drafts():
    schedule = from_draw(Draw(seed=3, runner="v2", faithful=True))
    assert schedule.pipeline.drafts
    short = msgspec.structs.replace(schedule.requests[0], prompt_len=1)
    schedule = msgspec.structs.replace(schedule, requests=(short, *schedule.requests[1:]))
    assert served(schedule).requests[0].prompt_len == 1


def test_runner_v1_is_served_by_v2():
    pipeline = served(from_draw(Draw(seed=1, runner="v1"))).pipeline
    assert (pipeline.runner, pipeline.async_scheduling) == ("v2", True)


def test_drafts_come_from_the_drafter_that_the_runner_has():
    schedule = from_draw(Draw(seed=1, pp=2, runner="v2"))
    pipeline = msgspec.structs.replace(schedule.pipeline, drafter="ngram")
    assert served(msgspec.structs.replace(schedule, pipeline=pipeline)).pipeline.drafter == "mtp"


def test_a_threshold_that_no_prompt_reaches_is_one_that_the_engine_takes():
    made = served(from_draw(Draw(seed=202, runner="v2", faithful=True)))
    assert 0 < made.limits.long_prefill_token_threshold <= made.limits.max_model_len
    assert from_draw(Draw(seed=202, runner="v2", faithful=True)).limits.long_prefill_token_threshold > 12
