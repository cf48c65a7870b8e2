"""Compiled copies equal their references on states of many tiles, whatever their sizes and alignment."""

import numpy as np
import pytest
from kernel_machine import Machine, assert_same, triton_set

from stalerow.kernels.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.postprocess import StepCounts
from stalerow.kernels.sets import kernel_set

pytestmark = pytest.mark.gpu

REQUESTS, COLUMNS, BLOCK_SIZE = 70, 8, 4
"""More requests than an ordinary batch has."""
WORDS = 64
"""8-byte words of a tile: 512 bytes, so that small states have many."""


def drawn_layout(rng: np.random.Generator, conv_layout: str, drafts: int, packed: bool) -> Layout:
    """Two groups of states of up to a dozen tiles. `packed`: nothing is aligned to more than a byte."""

    def state(kind: str) -> StateSpec:
        elem = int(rng.choice((1, 2, 4, 8)))
        return StateSpec(kind, int(rng.integers(8, 5000 // elem)) if packed else 8 * int(rng.integers(1, 80)), elem)

    groups = tuple(GroupSpec("recurrent", BLOCK_SIZE, (state("conv"), state("temporal"))) for _ in range(2))
    odd = int(rng.integers(0, 16)) if packed else 0
    count = 1 + 4 * REQUESTS * COLUMNS
    return Layout(groups, 1, count, drafts, conv_layout=conv_layout, page_padding=odd, base_offset=odd)


def drawn_state(rng: np.random.Generator, layout: Layout) -> dict[str, np.ndarray]:
    """Slots around block boundaries, and tables in which a row often names one block twice."""
    k = layout.num_drafts
    accepted = rng.integers(1, k + 2, REQUESTS)
    total = accepted + rng.integers(0, BLOCK_SIZE * (COLUMNS - k - 1), REQUESTS)
    near = np.maximum(total // BLOCK_SIZE - 1, 0) + rng.integers(0, 2, REQUESTS)
    state = {
        "num_accepted": accepted,
        "num_computed": total,
        "state_idx": np.minimum(near, COLUMNS - 1 - k),
        "src_col": rng.integers(-1, COLUMNS - k, REQUESTS),
        "src_off": rng.integers(0, k + 1, REQUESTS),
    }
    for number, kind in enumerate(("persistent", "gathered")):
        for group in range(2):
            # Rows share no block, because compiled programs of different rows run at once.
            own = 1 + ((2 * number + group) * REQUESTS + np.arange(REQUESTS)) * COLUMNS
            state[f"{kind}[{group}]"] = own[:, None] + rng.integers(0, COLUMNS // 2, (REQUESTS, COLUMNS))
    state = {name: value.astype(np.int32) for name, value in state.items()}
    state["pool"] = rng.integers(0, 256, layout.pool_bytes, dtype=np.uint8)
    return state


@pytest.mark.parametrize("packed", [False, True], ids=["aligned", "packed"])
@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("name", ["req-idx", "batch-row"])
def test_copies_equal_the_reference_byte_for_byte(name: str, conv_layout: str, packed: bool) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        layout = drawn_layout(rng, conv_layout, 3, packed)
        state = drawn_state(rng, layout)
        slots = np.where(rng.random(REQUESTS) < 0.2, -1, rng.permutation(REQUESTS))
        rows = (REQUESTS, 3)[seed % 2]
        runner_v1 = seed % 3 == 2
        ours = Machine(layout, triton_set(name, "cuda", (None, 1, 3)[seed % 3]), REQUESTS, COLUMNS, 4)
        ours.align.copy_block, ours.align.many_rows = WORDS, 32
        spec = Machine(layout, kernel_set(f"reference:{name}"), REQUESTS, COLUMNS, 4)
        for m in (ours, spec):
            m.load(state)
            idx = None if runner_v1 else m.idx(slots)
            m.align.precopy(m.slots, m.binding, idx, rows)
            counts = StepCounts(m.slots.src_off, m.slots.num_computed, m.slots.src_off) if runner_v1 else None
            m.align.postprocess(m.slots, m.binding, idx, rows, BLOCK_SIZE, counts)
        assert (spec.pool_bytes() != state["pool"]).any(), "nothing was copied"
        assert_same(ours.contents(), spec.contents())
