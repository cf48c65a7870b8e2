"""A request alone: whatever the chunks and acceptances, its states are where the next step looks for them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_layouts import layouts
from kernel_machine import Machine, Solo

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.sets import kernel_set

REFERENCE = kernel_set("reference:req-idx")
CONV, TEMPORAL = StateSpec("conv", 9), StateSpec("temporal", 5, 2)


def small_layout(block_size: int, num_drafts: int, conv_layout: str = "SD") -> Layout:
    return Layout(
        groups=(
            GroupSpec("recurrent", block_size, (CONV, TEMPORAL)),
            GroupSpec("attention", block_size, kv_bytes=8),
            GroupSpec("recurrent", block_size, (TEMPORAL,)),
        ),
        layers=1,
        num_blocks=400,
        num_drafts=num_drafts,
        conv_layout=conv_layout,
        page_padding=3,
    )


def solo(layout: Layout, seed: int, kernels=REFERENCE, **options) -> Solo:
    rng = np.random.default_rng(seed)
    machine = Machine(layout, kernels, max_blocks=100)
    return Solo(machine, rng, prompt=int(rng.integers(1, 40)), **options)


@pytest.mark.parametrize("late", [False, True], ids=["last-rank", "deferred-postprocess"])
@pytest.mark.parametrize("num_drafts", range(5))
@pytest.mark.parametrize("block_size", [4, 5, 8, 16])
def test_prefill_and_decode_steps_never_damage_the_state(block_size, num_drafts, late):
    crossed = shifted = 0
    for seed in range(12):
        layout = small_layout(block_size, num_drafts, "SD" if seed % 2 else "DS")
        request = solo(layout, seed, row=seed % 3, late=late)
        for _ in request.run(80):
            assert not request.damage.any(), (seed, request.computed)
            assert request.activation == 0
            if request.crossed:
                assert request.boundary_errors() == [], (seed, request.computed)
            crossed += request.crossed
            shifted += request.shifted
    assert crossed >= 12 * 40 // block_size // 2
    assert (shifted > 0) == (num_drafts > 0)


@settings(max_examples=40, deadline=None)
@given(layout=layouts(num_blocks=400, min_block=4), seed=st.integers(0, 1 << 16), late=st.booleans())
def test_any_layout_carries_a_request(layout, seed, late):
    request = solo(layout, seed, late=late)
    for _ in request.run(64):
        assert not request.damage.any()
        assert not request.crossed or request.boundary_errors() == []


def test_looking_rows_up_by_batch_row_damages_a_deferred_request():
    """#54173: on a non-last rank the gathered tables belong to a later batch when postprocess runs."""
    kernels = kernel_set("reference:batch-row")
    late = [solo(small_layout(8, 3), seed, kernels, late=True) for seed in range(8)]
    prompt = [solo(small_layout(8, 3), seed, kernels, late=False) for seed in range(8)]
    for request in late + prompt:
        damaged = False
        for _ in request.run(80):
            damaged |= bool(request.damage.any())
            if request.crossed and request.late:
                damaged |= request.boundary_errors() != []
        assert damaged == request.late


def test_without_drafts_a_deferred_postprocess_has_nothing_to_copy():
    kernels = kernel_set("reference:batch-row")
    request = solo(small_layout(8, 0), 3, kernels, late=True)
    for _ in request.run(80):
        assert not request.damage.any()


def corrupt_byte(request: Solo, unit: int, column: int) -> None:
    """Flip one bit of a state that the next step reads: the last byte of the row it will find there."""
    m, e = request.m, request.m.layout.states[unit]
    pool = m.pool_bytes()
    block = request.rows[e.group][column]
    start = m.layout.page_start(e.layer, block) + e.offset
    pool[start : start + e.data_bytes] ^= 1
    m.backend.write(m.pool.array, pool)


@pytest.mark.parametrize("unit", [0, 1, 2])
def test_a_flipped_bit_is_damage_that_stays(unit):
    request = solo(small_layout(8, 3), 1)
    for _ in request.run(48):
        pass
    accepted = int(request.m.host(request.m.slots.num_accepted)[request.slot])
    running = int(request.m.host(request.m.slots.state_idx)[request.slot])
    conv = request.m.layout.states[unit].conv_width > 0
    corrupt_byte(request, unit, running if conv else running + accepted - 1)
    for step in range(6):
        request.step(4, 2)
        assert request.damage[unit], step
        assert request.activation
        others = np.delete(request.damage, [unit])
        assert not others.any(), "a state's damage reaches others only through activations"


def test_a_wrong_block_is_damage():
    request = solo(small_layout(8, 2), 2)
    for _ in request.run(40):
        pass
    m = request.m
    for group in m.layout.recurrent_groups:
        table = m.host(m.tables.persistent[group])
        table[request.slot] = np.where(table[request.slot], 1, 0)
        m.backend.write(m.tables.persistent[group], table)
    request.step(3, 1)
    assert request.damage[: len(m.layout.states)].all()


def test_a_wrong_acceptance_count_is_damage():
    request = solo(small_layout(16, 3), 2)
    for _ in request.run(40):
        pass
    m = request.m
    accepted = m.host(m.slots.num_accepted)
    accepted[request.slot] = accepted[request.slot] % 4 + 1
    m.backend.write(m.slots.num_accepted, accepted)
    request.step(4, 1)
    assert request.damage[: len(m.layout.states)].all()


def test_a_wrong_attention_position_is_damage_until_it_is_written_again():
    request = solo(small_layout(8, 2), 2)
    for _ in request.run(40):
        pass
    m = request.m
    pool = m.pool_bytes()
    block = request.rows[1][1]
    pool[m.layout.page_start(0, block)] ^= 4
    m.backend.write(m.pool.array, pool)
    for _ in range(3):
        request.step(3, 2)
        assert request.damage[-1]
        assert not request.damage[:-1].any()


def test_damage_of_a_previous_rank_travels_on():
    layout = small_layout(8, 1)
    machine = Machine(layout, REFERENCE)
    idx, loc = machine.idx([0, 2, -1]), machine.query_start_loc([0, 0, 3])
    damage, out = machine.forward(idx, loc, [0, 0, 0], np.zeros((3, 20)), [11, 12, 13], 3)
    assert out.tolist() == [11, 12, 13]
    assert not damage.any()
