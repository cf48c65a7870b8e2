"""Copies equal their references on states of many tiles, whatever their sizes and alignment, taken or drawn."""

import numpy as np
import pytest
from kernel_machine import Machine, assert_same, triton_set

from stalerow.kernels.align.postprocess import StepCounts
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.sets import kernel_set

COLUMNS, BLOCK_SIZE = 8, 4
WORDS = 16
"""8-byte words of a step: 128 bytes, so that small states have many."""


def drawn_layout(rng: np.random.Generator, conv_layout: str, drafts: int, align: int, requests: int) -> Layout:
    """Two groups of states of many steps. `align`: bytes that everything is a multiple of, at least."""
    largest = 5000 if requests > 10 else 1000

    def state(kind: str) -> StateSpec:
        elem = int(rng.choice((1, 2, 4, 8)))
        dim = align * int(rng.integers(max(8 // align, 1), largest // elem // align))
        return StateSpec(kind, dim, elem)

    groups = tuple(GroupSpec("recurrent", BLOCK_SIZE, (state("conv"), state("temporal"))) for _ in range(2))
    odd = align * int(rng.integers(0, 4)) % 16
    count = 1 + 4 * requests * COLUMNS
    return Layout(groups, 1, count, drafts, conv_layout=conv_layout, page_padding=odd, base_offset=odd)


def drawn_state(rng: np.random.Generator, layout: Layout, requests: int) -> dict[str, np.ndarray]:
    """Slots around block boundaries, and tables in which a row often names one block twice."""
    k = layout.num_drafts
    accepted = rng.integers(1, k + 2, requests)
    total = accepted + rng.integers(0, BLOCK_SIZE * (COLUMNS - k - 1), requests)
    near = np.maximum(total // BLOCK_SIZE - 1, 0) + rng.integers(0, 2, requests)
    state = {
        "num_accepted": accepted,
        "num_computed": total,
        "state_idx": np.minimum(near, COLUMNS - 1 - k),
        "src_col": rng.integers(-1, COLUMNS - k, requests),
        "src_off": rng.integers(0, k + 1, requests),
    }
    for number, kind in enumerate(("persistent", "gathered")):
        for group in range(2):
            # Rows share no block, because compiled programs of different rows run at once.
            own = 1 + ((2 * number + group) * requests + np.arange(requests)) * COLUMNS
            state[f"{kind}[{group}]"] = own[:, None] + rng.integers(0, COLUMNS // 2, (requests, COLUMNS))
    state = {name: value.astype(np.int32) for name, value in state.items()}
    state["pool"] = rng.integers(0, 256, layout.pool_bytes, dtype=np.uint8)
    return state


@pytest.mark.parametrize("align", [16, 8, 1])
@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("name", ["req-idx", "batch-row"])
def test_copies_equal_the_reference_byte_for_byte(name: str, conv_layout: str, align: int, device: str) -> None:
    requests, rounds, changed = 70 if device == "cuda" else 10, 12 if device == "cuda" else 2, 0
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        layout = drawn_layout(rng, conv_layout, 3, align, requests)
        state = drawn_state(rng, layout, requests)
        slots = np.where(rng.random(requests) < 0.2, -1, rng.permutation(requests))
        rows = (requests, 3)[seed % 2]
        runner_v1 = seed % 3 == 2
        ours = Machine(layout, triton_set(name, device, (None, 1, 3)[seed % 3]), requests, COLUMNS, 4)
        spec = Machine(layout, kernel_set(f"reference:{name}"), requests, COLUMNS, 4)
        ours.align.copy_block, ours.align.copy_rows = WORDS, ((4,), (8, 128))[seed % 4 // 2]
        for m in (ours, spec):
            m.load(state)
            idx = None if runner_v1 else m.idx(slots)
            m.align.precopy(m.slots, m.binding, idx, rows)
            counts = StepCounts(m.slots.src_off, m.slots.num_computed, m.slots.src_off) if runner_v1 else None
            m.align.postprocess(m.slots, m.binding, idx, rows, BLOCK_SIZE, counts)
        changed += int((spec.pool_bytes() != state["pool"]).sum())
        assert_same(ours.contents(), spec.contents())
    assert changed, "nothing was copied"


@pytest.mark.parametrize("align", [16, 8, 1])
@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("programs", [1, 3, 16])
def test_drawn_tiles_are_all_copied_launch_after_launch(
    programs: int, conv_layout: str, align: int, device: str
) -> None:
    """A second launch finds the counter where the first one did; where it does not, tiles are left out."""
    requests = 70 if device == "cuda" else 6
    rng = np.random.default_rng(programs)
    layout = drawn_layout(rng, conv_layout, 3, align, requests)
    ours = Machine(layout, triton_set("req-idx", device), requests, COLUMNS, 4)
    spec = Machine(layout, kernel_set("reference:req-idx"), requests, COLUMNS, 4)
    ours.align.programs, ours.align.copy_block, ours.align.draw_from = programs, WORDS, 1

    def launch() -> None:
        state = drawn_state(rng, layout, requests)
        state["src_col"], state["state_idx"] = np.full((2, requests), [[0], [4]], dtype=np.int32)
        for machine in (ours, spec):
            machine.load(state)
            machine.align.precopy(machine.slots, machine.binding, machine.idx(range(requests)), requests)

    for _ in range(2):
        launch()
        assert_same(ours.contents(), spec.contents())
    draws = ours.align.copy_tiles(ours.binding).draws
    assert int(draws[0]) == 0
    draws[0] = 10**6
    launch()
    assert (ours.pool_bytes() != spec.pool_bytes()).any(), "no tile was drawn"
