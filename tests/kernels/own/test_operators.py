"""Tables, bookkeeping, pages and forward: Triton equal to the reference, and the rules a table must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_layouts import layouts
from kernel_machine import Machine, assert_same, triton_set

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import OutOfBounds
from stalerow.kernels.own import forward_triton
from stalerow.kernels.sets import kernel_set

REFERENCE = kernel_set("reference:req-idx")
SMALL = Layout((GroupSpec("recurrent", 4, (StateSpec("conv", 9),)), GroupSpec("attention", 4)), 2, 8, 2, page_padding=5)


@pytest.fixture(params=["reference", "triton"])
def kernels(request, device):
    return REFERENCE if request.param == "reference" else triton_set("req-idx", device)


def ints(m: Machine, *values):
    return [m.up(value, "int32") for value in values]


def test_staged_writes_land_at_their_start_and_touch_nothing_else(kernels):
    m = Machine(SMALL, kernels, max_blocks=6)
    before = np.arange(24, dtype=np.int32).reshape(4, 6)
    m.load({"persistent[0]": before, "persistent[1]": before})
    m.ops.apply_writes(m.tables, *ints(m, [0, 1, 1], [2, 0, 3], [0, 4, 1], [3, 5, 5], [7, 6, 5, 4, 3]), 3)
    first, second = before.copy(), before.copy()
    first[2, :3] = [7, 6, 5]
    second[0, 4:6] = [4, 3]
    np.testing.assert_array_equal(m.host(m.tables.persistent[0]), first)
    np.testing.assert_array_equal(m.host(m.tables.persistent[1]), second)


def test_gather_zeroes_padding_and_keeps_stale_columns(kernels):
    m = Machine(SMALL, kernels, max_blocks=6)
    stale = np.full((4, 6), -5, np.int32)
    table = np.arange(24, dtype=np.int32).reshape(4, 6)
    for g in range(2):
        m.load({f"persistent[{g}]": table + 100 * g, f"gathered[{g}]": stale})
    m.ops.set_num_blocks(m.tables, m.up([[1, 0, 3, 0], [6, 0, 2, 0]], "int32"))
    m.ops.gather(m.tables, m.idx([2, -1]), 2, 3)
    assert m.host(m.tables.gathered[0]).tolist() == [[12, 13, 14, -5, -5, -5], [-5] * 6, [0] * 6, [-5] * 6]
    assert m.host(m.tables.gathered[1]).tolist()[0] == [112, 113, -5, -5, -5, -5]
    m.ops.gather(m.tables, m.idx([0]), 1, 4, zero_padding=False)
    assert m.host(m.tables.gathered[1]).tolist()[:2] == [[100, 101, 102, 103, 104, 105], [-5] * 6]


def test_post_update_stores_tokens_and_rolls_rejected_ones_back(kernels):
    m = Machine(SMALL, kernels, max_len=10)
    m.load({"total_len": np.array([4, 5, 6, 7], np.int32), "num_computed": np.array([3, 4, 5, 6], np.int32)})
    sampled = m.up([[11, 12, 13], [0, 0, 0], [21, 22, 23]], "int64")
    counts = ints(m, [2, 0, 3], [1, 0, 0])
    m.ops.post_update(m.slots, m.idx([1, 0, -1]), sampled, *counts, m.query_start_loc([3, 4, 3]), 3)
    assert m.host(m.slots.token_ids)[1].tolist() == [0] * 5 + [11, 12, 0, 0, 0]
    assert m.host(m.slots.last_token).tolist() == [0, 12, 0, 0]
    assert m.host(m.slots.total_len).tolist() == [4, 7, 6, 7]
    assert m.host(m.slots.num_computed).tolist() == [7, 6, 5, 6]
    m.ops.post_update(m.slots, m.idx([1, 0, -1]), sampled, *counts, None, 3)
    assert m.host(m.slots.num_computed).tolist() == [7, 5, 5, 6]


def test_rows_that_sampled_nothing_count_as_one_accepted(kernels):
    m = Machine(SMALL, kernels)
    m.load({"num_accepted": np.array([9, 9, 9, 9], np.int32)})
    m.ops.scatter_accepted(m.slots, m.idx([3, -1, 0]), *ints(m, [0, 2, 3]), 3)
    assert m.host(m.slots.num_accepted).tolist() == [3, 9, 9, 1]
    m.ops.fill_accepted(m.slots, m.idx([1, -1]), 0, 2)
    assert m.host(m.slots.num_accepted).tolist() == [3, 1, 9, 1]


def test_pages_are_filled_and_copied_in_every_layer_and_no_further(kernels):
    m = Machine(SMALL, kernels)
    before = np.random.default_rng(0).integers(0, 256, SMALL.pool_bytes, dtype=np.uint8)
    m.load({"pool": before})
    m.ops.fill_blocks(m.pool, *ints(m, [3, 5]), 2, 0)
    m.ops.copy_blocks(m.pool, *ints(m, [1, 2], [6, 4]), 2)
    expected = before.copy()
    pages = m.pool.pages(expected)
    pages[:, [3, 5]] = 0
    pages[:, [6, 4]] = pages[:, [1, 2]]
    np.testing.assert_array_equal(m.pool_bytes(), expected)


def test_the_reference_refuses_what_would_overflow():
    m = Machine(SMALL, REFERENCE, max_blocks=4, max_len=5)
    with pytest.raises(OutOfBounds, match=r"block_tables\[0\]\[1, 4\]: column is outside 0\.\.3"):
        m.ops.apply_writes(m.tables, *ints(m, [0], [1], [3], [2], [1, 1]), 1)
    with pytest.raises(OutOfBounds, match=r"block_ids\[0, 1\]: block id 8 is outside 0\.\.7"):
        m.ops.fill_blocks(m.pool, *ints(m, [1, 8]), 2, 0)
    m.load({"total_len": np.array([4, 0, 0, 0], np.int32)})
    with pytest.raises(OutOfBounds, match=r"token_ids\[0, 5\]"):
        m.ops.post_update(m.slots, m.idx([0]), m.up([[1, 2, 3]], "int64"), *ints(m, [2], [0]), None, 1)


@settings(max_examples=30, deadline=None)
@given(shape=layouts(), seed=st.integers(0, 1 << 32))
def test_triton_bookkeeping_equals_the_reference(device, shape, seed):
    rng = np.random.default_rng(seed)
    rows, k, groups = int(rng.integers(1, 4)), shape.num_drafts, len(shape.groups)
    slots = np.where(rng.random(4) < 0.2, -1, rng.permutation(4))[:rows]
    lengths = rng.integers(0, 5, rows)
    sampled = rng.integers(0, 1 << 20, (rows, k + 1))
    counts = rng.integers(0, k + 2, rows)
    num_blocks = rng.integers(0, 8, (groups, 4))
    writes = int(rng.integers(1, 5))
    keys = rng.permutation(groups * 4)[:writes]
    starts, sizes = rng.integers(0, 4, writes), rng.integers(0, 5, writes)
    contents = rng.integers(0, 99, sizes.sum() + 1)
    block_ids = rng.permutation(shape.num_blocks)
    seeds = [rng.integers(0, 9, rows) for _ in range(4)]
    tokens = rng.integers(0, 99, (rows, 70))
    state = {"pool": rng.integers(0, 256, shape.pool_bytes, dtype=np.uint8)}
    for g in range(groups):
        state[f"gathered[{g}]"] = rng.integers(0, 99, (4, 8)).astype(np.int32)

    found = []
    for kernels in (triton_set("req-idx", device), REFERENCE):
        m = Machine(shape, kernels, max_blocks=8, max_len=70)
        m.load(state)
        idx, loc = m.idx(slots), m.query_start_loc(lengths)
        written = ints(m, keys % groups, keys // groups, starts, np.cumsum(sizes), contents)
        m.ops.apply_writes(m.tables, *written, writes)
        m.ops.set_num_blocks(m.tables, m.up(num_blocks, "int32"))
        m.ops.gather(m.tables, idx, rows, 4, zero_padding=bool(seed % 2))
        m.ops.seed_slots(m.slots, m.up(slots, "int32"), *ints(m, *seeds, tokens), rows)
        m.ops.seq_lens(m.slots, idx, loc, rows, 4, m.seq_lens)
        m.ops.advance_computed(m.slots, idx, loc, rows)
        accepted = ints(m, counts, counts // 2)
        m.ops.post_update(m.slots, idx, m.up(sampled, "int64"), *accepted, loc if seed % 3 else None, rows)
        m.ops.scatter_accepted(m.slots, idx, accepted[0], rows)
        m.ops.fill_blocks(m.pool, *ints(m, block_ids), 3, 203)
        m.ops.copy_blocks(m.pool, *ints(m, block_ids[3:6], block_ids[6:9]), 3)
        found.append(m.contents())
    assert_same(*found)


@settings(max_examples=60, deadline=None)
@given(shape=layouts(num_blocks=320), seed=st.integers(0, 1 << 32), healthy=st.booleans())
def test_triton_forward_equals_the_reference(device, shape, seed, healthy):
    """On random bytes, so that every read is damage; and on zeros, with positions before the first one right."""
    rng = np.random.default_rng(seed)
    rows, k = int(rng.integers(1, 4)), shape.num_drafts
    slots = np.where(rng.random(4) < 0.2, -1, rng.permutation(4))[:rows]
    spec = rng.integers(0, 2, rows)
    lengths = np.where(spec, rng.integers(0, k + 2, rows), rng.integers(0, 9, rows))
    computed = rng.integers(0, 20, rows)
    hashes = rng.integers(-(1 << 62), 1 << 62, (rows, 40))
    activation = rng.integers(-(1 << 62), 1 << 62, rows) * (not healthy)
    groups, columns = len(shape.recurrent_groups), k + 1
    # Launched for real, two rows that write the same block have no order; interpreted, they do.
    blocks = 1 + rng.permutation(319) if device == "cuda" or seed % 2 else rng.integers(0, 320, 319)
    state_blocks, kv_blocks = blocks[: groups * 4 * columns], blocks[60:]
    pool = rng.integers(0, 256, shape.pool_bytes, dtype=np.uint8)
    state = {
        "pool": pool * np.uint8(not healthy),
        "seq_lens": np.append(computed + lengths, np.zeros(4 - rows)).astype(np.int32),
        "num_accepted": rng.integers(1, k + 2, 4).astype(np.int32),
        "state_indices": state_blocks.reshape(groups, 4, columns).astype(np.int32),
    }
    for i, g in enumerate(shape.attention_groups):
        state[f"gathered[{g}]"] = kv_blocks[i * 112 : (i + 1) * 112].reshape(4, 28).astype(np.int32)

    found = []
    for kernels in (triton_set("req-idx", device), REFERENCE):
        m = Machine(shape, kernels, max_blocks=28, max_len=4)
        m.load(state)
        args = m.idx(slots), m.query_start_loc(lengths), spec, hashes, activation, rows
        damage, out = m.forward(*args)
        found.append({"damage": damage, "activation": out, **m.contents()})
    assert_same(*found)


def test_forwards_of_two_pools_may_overlap(device, monkeypatch):
    """As on two streams: another pool's whole forward runs between one pool's reads and its writes."""
    rng = np.random.default_rng(5)
    kernels = triton_set("req-idx", device)
    machines = [Machine(SMALL, kernels, max_blocks=6, max_len=4) for _ in range(2)]
    for m in machines:
        m.load({"pool": rng.integers(0, 256, SMALL.pool_bytes, dtype=np.uint8), "num_accepted": np.ones(4, np.int32)})
        m.load({"seq_lens": np.array([6, 7, 0, 0], np.int32), "gathered[1]": np.full((4, 6), 7, np.int32)})
        m.load({"state_indices": np.array([[[1, 2, 3], [4, 5, 6], [0, 0, 0], [0, 0, 0]]], np.int32)})
    start = machines[0].host(machines[0].pool.array).copy()

    def forward(m):
        hashes = np.arange(80).reshape(2, 40) + 7
        m.forward(m.idx([0, 1]), m.query_start_loc([1, 2]), [0, 0], hashes, np.zeros(2, np.int64), 2)

    forward(machines[0])
    meant = machines[0].host(machines[0].pool.array).copy()
    assert (meant != start).any()

    class Overlapped:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            monkeypatch.setattr(forward_triton, "read_kv_kernel", self.kernel)
            forward(machines[1])
            return self.kernel[grid]

    machines[0].load({"pool": start})
    monkeypatch.setattr(forward_triton, "read_kv_kernel", Overlapped(forward_triton.read_kv_kernel))
    forward(machines[0])
    np.testing.assert_array_equal(machines[0].host(machines[0].pool.array), meant)


def test_long_blocks_give_the_same_forward(device):
    """The reference takes long blocks of one word a position as slices."""
    rng = np.random.default_rng(3)
    groups = (GroupSpec("attention", 64), GroupSpec("recurrent", 64, (StateSpec("temporal", 16),)))
    shape = Layout(groups, 2, 16, 2)
    state = {
        "pool": rng.integers(0, 256, shape.pool_bytes, dtype=np.uint8),
        "seq_lens": np.array([150, 67, 3, 0], np.int32),
        "gathered[0]": 1 + rng.permutation(12).reshape(4, 3).astype(np.int32),
        "state_indices": np.array([[[13] * 3, [14] * 3, [15] * 3, [0] * 3]], np.int32),
    }
    hashes = rng.integers(-(1 << 62), 1 << 62, (3, 160))
    found = []
    for kernels in (triton_set("req-idx", device), REFERENCE):
        m = Machine(shape, kernels, max_blocks=3, max_len=4)
        m.load(state)
        damage, out = m.forward(m.idx([2, 0, 1]), m.query_start_loc([100, 3, 3]), [0] * 3, hashes, [5, 6, 7], 3)
        found.append({"damage": damage, "activation": out, **m.contents()})
    assert_same(*found)


def test_triton_reports_a_block_outside_the_pool_and_leaves_the_pool_alone(device):
    m = Machine(SMALL, triton_set("req-idx", device), max_blocks=4)
    m.load({"seq_lens": np.array([6, 0, 0, 0], np.int32), "num_accepted": np.ones(4, np.int32)})
    m.load({"state_indices": np.full((1, 4, 3), 8, np.int32), "gathered[1]": np.full((4, 4), -1, np.int32)})
    before = m.pool_bytes()
    damage, _ = m.forward(m.idx([0]), m.query_start_loc([3]), [1], np.ones((1, 20)), [0], 1)
    assert damage.all()
    np.testing.assert_array_equal(m.pool_bytes(), before)


def test_the_reference_forward_touches_nothing_if_a_block_is_outside():
    m = Machine(SMALL, REFERENCE, max_blocks=4)
    m.load({"seq_lens": np.array([6, 0, 0, 0], np.int32), "gathered[1]": np.full((4, 4), 9, np.int32)})
    before = m.pool_bytes()
    with pytest.raises(OutOfBounds, match=r"gathered\[1\]\[0, 0\]: block id 9 is outside 0\.\.7"):
        m.forward(m.idx([0]), m.query_start_loc([3]), [1], np.ones((1, 20)), [0], 1)
    np.testing.assert_array_equal(m.pool_bytes(), before)
    with pytest.raises(ValueError, match=r"spec row 0 has 4 tokens; expected at most K \+ 1 = 3"):
        m.forward(m.idx([0]), m.query_start_loc([4]), [1], np.ones((1, 20)), [0], 1)
    with pytest.raises(OutOfBounds, match=r"hashes\[0, 6\]: column is outside 0\.\.5"):
        m.forward(m.idx([0]), m.query_start_loc([3]), [1], np.ones((1, 6)), [0], 1)
