"""The align kernels: rules by example, on the specification and on Triton, and Triton equal to it everywhere."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_layouts import layouts
from kernel_machine import Machine, Solo, assert_same, triton_set

from stalerow.kernels.align.postprocess import StepCounts
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import OutOfBounds
from stalerow.kernels.sets import kernel_set

COLUMNS = 10
CONV, TEMPORAL = StateSpec("conv", 5, 2), StateSpec("temporal", 19)


@pytest.fixture(params=["reference", "triton"])
def kernels(request, device):
    """Builds the kernel set to test: `kernels(name)`."""
    if request.param == "reference":
        return lambda name="req-idx": kernel_set(f"reference:{name}")
    return lambda name="req-idx": triton_set(name, device)


def layout(num_drafts=2, conv_layout="SD", block_size=8, **options) -> Layout:
    groups = (GroupSpec("recurrent", block_size, (CONV, TEMPORAL)), GroupSpec("recurrent", block_size, (TEMPORAL,)))
    return Layout(groups, 2, 16, num_drafts, conv_layout=conv_layout, page_padding=3, base_offset=5, **options)


def machine(kernels, layout_=None, name="req-idx", seed=0) -> Machine:
    """Random pool, and block ids that differ everywhere: column c of slot s is block 1 + (3s + c) % 15."""
    m = Machine(layout_ or layout(), kernels(name), max_blocks=COLUMNS, max_len=8)
    slot, column = np.indices((m.max_reqs, COLUMNS))
    rng = np.random.default_rng(seed)
    state = {"pool": rng.integers(0, 256, m.layout.pool_bytes, dtype=np.uint8)}
    for g in range(len(m.layout.groups)):
        state[f"persistent[{g}]"] = state[f"gathered[{g}]"] = (1 + (3 * slot + column + 5 * g) % 15).astype(np.int32)
    m.load(state)
    return m


def blocks(m: Machine, pool: np.ndarray, unit: int) -> np.ndarray:
    """uint8 [num_blocks, data_bytes] of one state tensor."""
    e = m.layout.states[unit]
    return m.pool.pages(pool)[e.layer, :, e.offset : e.offset + e.data_bytes]


def set_slots(m: Machine, **values) -> None:
    m.load({name: np.full(m.max_reqs, value, np.int32) for name, value in values.items()})


def slot_values(m: Machine, name: str, *slots: int) -> list[int]:
    return m.host(getattr(m.slots, name))[list(slots)].tolist()


@pytest.mark.parametrize(
    ("before", "accepted", "computed", "n", "after", "accepted_after"),
    [
        (-1, 1, 0, 5, 0, 1),  # fresh request, first chunk
        (-1, 1, 0, 16, 1, 1),  # a chunk of two blocks skips column 0
        (0, 3, 6, 2, 0, 3),  # stays in its block: the accepted count is still needed
        (0, 3, 6, 3, 1, 1),  # drafts reach into the next block
        (1, 2, 16, 3, 2, 1),  # exactly on a boundary
        (0, 0, 6, 1, 0, 0),  # an offset is never negative
    ],
)
def test_preprocess_moves_the_running_column(kernels, before, accepted, computed, n, after, accepted_after):
    m = machine(kernels)
    set_slots(m, state_idx=before, num_accepted=accepted, num_computed=computed)
    m.align.preprocess(m.slots, m.idx([2]), m.query_start_loc([n]), 1, 8)
    assert slot_values(m, "src_col", 2, 1) == [before, -1]
    assert slot_values(m, "src_off", 2, 1) == [max(accepted - 1, 0), 0]
    assert slot_values(m, "state_idx", 2, 1) == [after, before]
    assert slot_values(m, "num_accepted", 2, 1) == [accepted_after, accepted]


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("bias", [0, 1, 2])
def test_precopy_moves_the_accepted_state(kernels, conv_layout, bias):
    m = machine(kernels, layout(conv_layout=conv_layout))
    set_slots(m, src_col=1, state_idx=4, src_off=bias)
    before = m.pool_bytes()
    m.align.precopy(m.slots, m.binding, m.idx([3]), 1)
    expected = before.copy()
    for unit, e in enumerate(m.layout.states):
        row = m.host(m.tables.persistent[e.group])[3]
        old, new = blocks(m, before, unit), blocks(m, expected, unit)
        if not e.conv_width:
            new[row[4]] = old[row[1 + bias]]
        elif conv_layout == "SD":
            kept = (e.conv_width - bias) * e.spec.row_bytes
            new[row[4], :kept] = old[row[1], -kept:]
        else:
            window = (e.spec.dim, e.conv_width, e.spec.elem_size)
            kept = e.conv_width - bias
            new[row[4]].reshape(window)[:, :kept] = old[row[1]].reshape(window)[:, bias:]
    np.testing.assert_array_equal(m.pool_bytes(), expected)


@pytest.mark.parametrize(
    ("slot", "source", "target"), [(-1, 1, 4), (2, -1, 4), (2, 3, 3)], ids=["no slot", "fresh", "same column"]
)
def test_precopy_has_nothing_to_do(kernels, slot, source, target):
    m = machine(kernels)
    set_slots(m, src_col=source, state_idx=target, src_off=1)
    before = m.pool_bytes()
    m.align.precopy(m.slots, m.binding, m.idx([slot]), 1)
    np.testing.assert_array_equal(m.pool_bytes(), before)


@pytest.mark.parametrize(
    ("total", "accepted", "running", "bias", "target", "accepted_after"),
    [
        (15, 3, 1, None, None, 3),  # no boundary among the accepted tokens
        (16, 1, 1, None, 1, 1),  # boundary at the first token, already in place
        (16, 3, 1, 2, 1, 1),  # the last token is at the boundary: shift inside the running block
        (17, 3, 2, 1, 1, 3),  # the running column is already the next one
        (18, 3, 2, 0, 1, 3),  # boundary at the first token, state in the next column
        (19, 3, 2, None, None, 3),  # the boundary was before this step
    ],
)
def test_postprocess_saves_the_boundary_state(kernels, total, accepted, running, bias, target, accepted_after):
    m = machine(kernels)
    set_slots(m, num_computed=total, num_accepted=accepted, state_idx=running)
    before = m.pool_bytes()
    m.align.postprocess(m.slots, m.binding, m.idx([-1, 2]), 2, 8)
    assert slot_values(m, "num_accepted", 2, 0) == [accepted_after, accepted]
    for unit, e in enumerate(m.layout.states):
        row = m.host(m.tables.persistent[e.group])[2]
        old, new = blocks(m, before, unit), blocks(m, m.pool_bytes(), unit)
        if bias is None:
            np.testing.assert_array_equal(new, old)
        elif e.conv_width:
            kept = (e.conv_width - bias) * e.spec.row_bytes
            np.testing.assert_array_equal(new[row[target], :kept], old[row[running], -kept:])
        else:
            np.testing.assert_array_equal(new[row[target]], old[row[running + bias]])


def test_every_state_sees_the_acceptance_count_from_before_the_reset(kernels):
    """The reset to 1 belongs to state 0; read from the live array, later states would find nothing to copy."""
    m = machine(kernels)
    set_slots(m, num_computed=16, num_accepted=3, state_idx=1)
    before = m.pool_bytes()
    m.align.postprocess(m.slots, m.binding, m.idx([1]), 1, 8)
    assert slot_values(m, "num_accepted", 1) == [1]
    assert slot_values(m, "num_accepted_snapshot", 1) == [3]
    for unit in range(len(m.layout.states)):
        assert (blocks(m, m.pool_bytes(), unit) != blocks(m, before, unit)).any(), unit


def test_runner_v1_counts_give_the_same_copies(kernels):
    scheduled, drafts, accepted = 3, 2, 3
    results = []
    for counts in (False, True):
        m = machine(kernels)
        set_slots(m, num_computed=16 if not counts else 99, num_accepted=accepted, state_idx=1)
        given = [m.up([x] * m.max_reqs, "int32") for x in (scheduled, 13, drafts)]
        m.align.postprocess(m.slots, m.binding, None, 3, 8, StepCounts(*given) if counts else None)
        results.append((m.pool_bytes(), m.host(m.slots.num_accepted)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[1][1].tolist() == [1, 1, 1, accepted]


@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
@pytest.mark.parametrize("bias", [1, 2, 3])
def test_a_shift_inside_one_block_is_a_memmove(kernels, conv_layout, bias):
    m = machine(kernels, layout(3, conv_layout))
    table = np.full((m.max_reqs, COLUMNS), 7, np.int32)
    m.load({"persistent[0]": table, "gathered[0]": table})
    set_slots(m, src_col=1, state_idx=2, src_off=bias)
    old = blocks(m, m.pool_bytes(), 0)[7].copy()
    m.align.precopy(m.slots, m.binding, m.idx([0]), 1)
    new = blocks(m, m.pool_bytes(), 0)[7]
    width, size = m.layout.width, CONV.elem_size
    window = (width, CONV.dim * size) if conv_layout == "SD" else (CONV.dim, width, size)
    axis = 0 if conv_layout == "SD" else 1
    old, new = old.reshape(window), new.reshape(window)
    kept, rest = np.arange(width - bias), np.arange(width - bias, width)
    np.testing.assert_array_equal(new.take(kept, axis), old.take(kept + bias, axis))
    np.testing.assert_array_equal(new.take(rest, axis), old.take(rest, axis))


def test_aligned_indices_start_at_the_last_token_and_cover_padded_rows(kernels):
    m = machine(kernels)
    m.load({"seq_lens": np.array([17, 16, 0, 1], np.int32), "state_indices": np.full((2, 4, 3), -9, np.int32)})
    table = np.arange(40, dtype=np.int32).reshape(4, 10)
    table[2] = 0
    m.load({"gathered[0]": table, "gathered[1]": table + 100, "persistent[0]": table - 50})
    m.align.aligned_indices(m.binding, m.seq_lens, 3, 8, m.state_indices)
    found = m.host(m.state_indices)
    assert found[0, :3].tolist() == [[2, 3, 4], [11, 12, 13], [0, 0, 0]]
    assert found[1, 0].tolist() == [102, 103, 104]
    assert (found[:, 3] == -9).all()


@pytest.mark.parametrize("operation", ["precopy", "postprocess"])
def test_batch_rows_and_slots_differ_exactly_where_the_batch_was_gathered_again(kernels, operation):
    def run(name: str, idx: list[int], regathered: bool) -> np.ndarray:
        m = machine(kernels, name=name)
        set_slots(m, src_col=1, src_off=1, state_idx=2, num_computed=17, num_accepted=3)
        counts = np.full((2, m.max_reqs), COLUMNS, np.int32)
        m.ops.set_num_blocks(m.tables, m.up(counts, "int32"))
        m.ops.gather(m.tables, m.idx(idx), len(idx), len(idx))
        if regathered:
            m.ops.gather(m.tables, m.idx([0, 1]), 2, 2)
        if operation == "precopy":
            m.align.precopy(m.slots, m.binding, m.idx(idx), len(idx))
        else:
            m.align.postprocess(m.slots, m.binding, m.idx(idx), len(idx), 8)
        return m.pool_bytes()

    same = run("batch-row", [3, 2], False) == run("req-idx", [3, 2], False)
    assert same.all(), "the gather belongs to the batch"
    assert (run("batch-row", [3, 2], True) != run("req-idx", [3, 2], True)).any(), "the gather is another batch's"
    same = run("batch-row", [0, 1], True) == run("req-idx", [0, 1], True)
    assert same.all(), "rows are slots"


def test_the_reference_names_the_entry_that_points_outside():
    m = machine(lambda name: kernel_set(f"reference:{name}"))
    table = m.host(m.tables.persistent[1])
    table[2, 4] = 16
    m.load({"persistent[1]": table})
    set_slots(m, src_col=3, state_idx=4, src_off=0)
    with pytest.raises(OutOfBounds, match=r"block_table\[1\]\[2, 4\]: block id 16 is outside 0\.\.15"):
        m.align.precopy(m.slots, m.binding, m.idx([2]), 1)
    set_slots(m, src_col=9, src_off=2)
    with pytest.raises(OutOfBounds, match=r"\[2, 11\]: column is outside 0\.\.9"):
        m.align.precopy(m.slots, m.binding, m.idx([2]), 1)


@st.composite
def cases(draw):
    """A layout and the host arrays of one call of every align kernel; tables alias at random."""
    shape = draw(layouts(attention=False))
    k, bs = shape.num_drafts, shape.recurrent_block_size
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    rows = draw(st.integers(1, 3))
    slots = rng.permutation(4)
    accepted = rng.integers(1, k + 2, 4)
    total = accepted + rng.integers(0, bs * (COLUMNS - k - 1) - k, 4)
    near = np.maximum(total // bs - 1, 0) + rng.integers(0, 2, 4)
    state = {
        "pool": rng.integers(0, 256, shape.pool_bytes, dtype=np.uint8),
        "num_accepted": accepted,
        "num_computed": total,
        "state_idx": np.minimum(near, COLUMNS - 1 - k),
        "src_col": rng.integers(-1, COLUMNS - k, 4),
        "src_off": rng.integers(0, k + 1, 4),
        "seq_lens": rng.integers(0, bs * (COLUMNS - k), 4),
    }
    return shape, rng, rows, slots, state, draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans())


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_triton_equals_the_reference_byte_for_byte(device, case):
    shape, rng, rows, slots, state, tiles, row_is_slot, runner_v1 = case
    count, groups = shape.num_blocks, len(shape.groups)
    if device == "cuda":  # programs of different rows run at once: give each row and group blocks of its own
        count = 1 + groups * 8 * COLUMNS
        shape = msgspec.structs.replace(shape, num_blocks=count)
        state["pool"] = rng.integers(0, 256, shape.pool_bytes, dtype=np.uint8)
    for kind in ("persistent", "gathered"):
        for g in range(groups):
            table = rng.integers(0, count, (4, COLUMNS))
            if device == "cuda":
                base = 1 + (g * 8 + (kind == "gathered") * 4 + np.arange(4)) * COLUMNS
                table = base[:, None] + rng.integers(0, COLUMNS, (4, COLUMNS))
            state[f"{kind}[{g}]"] = table
    state = {name: value.astype(np.uint8 if name == "pool" else np.int32) for name, value in state.items()}

    name = "req-idx" if row_is_slot else "batch-row"
    ours = Machine(shape, triton_set(name, device, tiles), max_blocks=COLUMNS, max_len=4)
    spec = Machine(shape, kernel_set(f"reference:{name}"), max_blocks=COLUMNS, max_len=4)
    slots = np.where(rng.random(4) < 0.25, -1, slots)[:rows]
    lengths = rng.integers(1, 2 * shape.recurrent_block_size, rows)
    for m in (ours, spec):
        m.load(state)
        idx = None if runner_v1 else m.idx(slots)
        m.align.precopy(m.slots, m.binding, idx, rows)
        counts = StepCounts(m.slots.src_off, m.slots.num_computed, m.slots.src_off) if runner_v1 else None
        m.align.postprocess(m.slots, m.binding, idx, rows, shape.recurrent_block_size, counts)
    assert_same(ours.contents(), spec.contents())
    for m in (ours, spec):
        m.align.preprocess(m.slots, m.idx(slots), m.query_start_loc(lengths), rows, shape.recurrent_block_size)
        m.align.aligned_indices(m.binding, m.seq_lens, rows, shape.recurrent_block_size, m.state_indices)
    assert_same(ours.contents(), spec.contents())


@pytest.mark.parametrize(("block_size", "num_drafts", "late"), [(4, 2, True), (5, 4, False), (8, 0, True)])
def test_a_request_goes_through_triton_as_through_the_reference(device, block_size, num_drafts, late):
    shape = Layout(
        (
            GroupSpec("recurrent", block_size, (CONV, TEMPORAL)),
            GroupSpec("attention", 3, kv_bytes=11),
        ),
        1,
        60,
        num_drafts,
        conv_layout="DS" if late else "SD",
    )
    runs = []
    for kernels in (triton_set("req-idx", device), kernel_set("reference:req-idx")):
        m = Machine(shape, kernels, max_blocks=40)
        runs.append(Solo(m, np.random.default_rng(block_size), prompt=11, row=1, late=late))
    for _ in zip(runs[0].run(30), runs[1].run(30)):
        assert not runs[0].damage.any()
        assert_same(runs[0].m.contents(), runs[1].m.contents())
