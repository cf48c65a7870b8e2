"""Random single launches of one align kernel, and the bytes that a kernel set makes of them.

A `Case` is plain host data, drawn by Hypothesis; `run` gives it to any kernel set and returns every array
that a launch may write. Two sets agree on a case if these are equal, the whole pool included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from stalerow.kernels.align.kernels import StepCounts
from stalerow.kernels.base.binding import Cache, bind_cache
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.sets import KernelSet

MAX_REQS = 4
BLOCK_SIZE = 4
_BOUNDARIES = 3


@dataclass(frozen=True)
class Row:
    """One batch row: its slot (-1 to be skipped) and that slot's state before the launch.

    `same_block` puts one block id into both columns of the copy, as when a boundary lies in the running block.
    """

    slot: int
    state_idx: int = 0
    src_col: int = -1
    src_off: int = 0
    num_accepted: int = 1
    num_computed: int = 0
    query_len: int = 1
    same_block: bool = False


@dataclass(frozen=True)
class Case:
    layout: Layout
    rows: tuple[Row, ...]
    seed: int = 0

    @property
    def columns(self) -> int:
        return columns(self.layout.num_drafts)


def columns(num_drafts: int) -> int:
    # One column more than any copy touches, so that a kernel that is one off still reads a block id.
    return _BOUNDARIES + num_drafts + 3


@st.composite
def layouts(
    draw: st.DrawFn, conv_layout: str | None = None, least_drafts: int = 0, alignment: int | None = None
) -> Layout:
    """Small caches of one or two recurrent groups.

    States are aligned to their element size, as tensors are and as kernels since 0.29.0 take for granted; that
    leaves source and destination apart by any number of bytes modulo 8. With `alignment`, to that many bytes.
    """
    num_drafts = draw(st.integers(least_drafts, 3), label="K")
    recurrent = []
    for _ in range(draw(st.integers(1, 2), label="groups")):
        states = draw(st.lists(_states(alignment), min_size=1, max_size=2), label="states")
        # Packed in this order, every state starts at a multiple of its own element size.
        states.sort(key=lambda state: -state.elem_size)
        recurrent.append(GroupSpec("recurrent", BLOCK_SIZE, tuple(states)))
    step = alignment or max(state.elem_size for group in recurrent for state in group.states)
    groups = (GroupSpec("attention", BLOCK_SIZE), *recurrent)
    layout = Layout(
        groups=groups,
        layers=draw(st.integers(1, 2), label="layers"),
        num_blocks=len(groups) * 2 * MAX_REQS * columns(num_drafts) + 2,
        num_drafts=num_drafts,
        conv_layout=conv_layout or draw(st.sampled_from(["SD", "DS"])),  # type: ignore[arg-type]
        base_offset=draw(st.integers(0, 3), label="offset") * step,
    )
    padding = -layout.page_bytes % step + draw(st.integers(0, 3), label="padding") * step
    return msgspec.structs.replace(layout, page_padding=padding)


@st.composite
def _states(draw: st.DrawFn, alignment: int | None) -> StateSpec:
    size = draw(st.sampled_from([1, 2, 4, 8]))
    least = max(1, 8 // size)
    dim = least * draw(st.integers(1, 3)) if alignment else draw(st.integers(least, least + 5))
    return StateSpec(draw(st.sampled_from(["conv", "temporal"])), dim, size)


def _slots(draw: st.DrawFn) -> list[int]:
    slots = draw(st.permutations(range(MAX_REQS)), label="slots")[: draw(st.integers(1, 3), label="rows")]
    return [slot if draw(st.integers(0, 5)) else -1 for slot in slots]


@st.composite
def precopy_cases(draw: st.DrawFn, /, **given: Any) -> Case:
    layout = draw(layouts(**given))
    column = st.integers(0, _BOUNDARIES)
    rows = [
        Row(
            slot=slot,
            src_col=draw(st.one_of(st.just(-1), column)),
            state_idx=draw(column),
            src_off=draw(st.integers(0, layout.num_drafts)),
            same_block=draw(st.booleans()),
        )
        for slot in _slots(draw)
    ]
    return Case(layout, tuple(rows), draw(st.integers(0, 99), label="seed"))


@st.composite
def postprocess_cases(draw: st.DrawFn, /, **given: Any) -> Case:
    layout = draw(layouts(**given))
    rows = []
    for slot in _slots(draw):
        boundary = draw(st.integers(1, _BOUNDARIES))
        beyond = draw(st.integers(0, BLOCK_SIZE - 1))
        rows.append(
            Row(
                slot=slot,
                num_computed=boundary * BLOCK_SIZE + beyond,
                num_accepted=draw(st.integers(1, layout.num_drafts + 1)),
                state_idx=draw(st.sampled_from([boundary - 1, boundary, draw(st.integers(0, _BOUNDARIES))])),
                same_block=draw(st.booleans()),
            )
        )
    return Case(layout, tuple(rows), draw(st.integers(0, 99), label="seed"))


@st.composite
def step_cases(draw: st.DrawFn, /, **given: Any) -> Case:
    """For preprocess and the aligned indices: rows with a query, none of them -1."""
    layout = draw(layouts(**given))
    rows = [
        Row(
            slot=slot,
            state_idx=draw(st.integers(-1, _BOUNDARIES)),
            num_accepted=draw(st.integers(0, layout.num_drafts + 1)),
            num_computed=draw(st.integers(0, _BOUNDARIES * BLOCK_SIZE - layout.num_drafts)),
            query_len=draw(st.integers(0, layout.num_drafts + 1)),
        )
        for slot in draw(st.permutations(range(MAX_REQS)))[: draw(st.integers(1, MAX_REQS))]
    ]
    return Case(layout, tuple(rows), draw(st.integers(0, 99), label="seed"))


def run(kernels: KernelSet, case: Case, operation: str, runner_v1: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """Launch `operation` of `kernels` on `case` once: every array that it may have written, on the host.

    With `runner_v1` a row's slot is the row itself, there is no `idx_mapping`, and the postprocess gets the step's
    counts instead of the total.
    """
    if runner_v1:
        case = replace(case, rows=tuple(replace(row, slot=index) for index, row in enumerate(case.rows)))
    layout, backend = case.layout, kernels.backend
    rng = np.random.default_rng(case.seed)
    pool = Pool(layout, backend)
    backend.write(pool.array, rng.integers(0, 256, layout.pool_bytes, dtype=np.uint8))
    tables = BlockTables(layout, MAX_REQS, case.columns, backend)
    for table, values in zip((*tables.persistent, *tables.gathered), _block_ids(case, rng)):
        backend.write(table, values)
    slots = SlotState(MAX_REQS, 1, backend)
    for name in ("state_idx", "src_col", "src_off", "num_accepted", "num_computed"):
        values = backend.to_host(getattr(slots, name)).copy()
        for row in case.rows:
            if row.slot >= 0:
                values[row.slot] = getattr(row, name)
        backend.write(getattr(slots, name), values)
    rows = len(case.rows)
    idx_mapping = None if runner_v1 else backend.from_host(np.array([row.slot for row in case.rows], np.int64))
    starts = np.zeros(MAX_REQS + 1, np.int32)
    starts[1 : rows + 1] = np.cumsum([row.query_len for row in case.rows])
    query_start_loc = backend.from_host(starts)
    seq_lens = np.zeros(MAX_REQS, np.int32)
    seq_lens[:rows] = [row.num_computed + row.query_len for row in case.rows]
    out = backend.alloc((len(layout.recurrent_groups), MAX_REQS, layout.num_drafts + 1), "int32", -7)
    binding = bind_cache(Cache(layout, pool, tables), kernels.align.reads_slot_tables, backend)
    if operation == "preprocess":
        kernels.align.preprocess(slots, idx_mapping, query_start_loc, rows, BLOCK_SIZE)
    elif operation == "precopy":
        kernels.align.precopy(slots, binding, idx_mapping, rows)
    elif operation == "postprocess":
        counts = _counts(case, kernels) if runner_v1 else None
        kernels.align.postprocess(slots, binding, idx_mapping, rows, BLOCK_SIZE, counts)
    else:
        kernels.align.aligned_indices(binding, backend.from_host(seq_lens), MAX_REQS, BLOCK_SIZE, out)
    backend.synchronize()
    written = {"pool": pool.array, "out": out}
    written |= {name: getattr(slots, name) for name in ("state_idx", "num_accepted", "src_col", "src_off")}
    return {name: backend.to_host(array).copy() for name, array in written.items()}


def _counts(case: Case, kernels: KernelSet) -> StepCounts:
    """Counts of a step of K drafts and one more token that led to the rows' totals."""
    drafts = [case.layout.num_drafts for _ in case.rows]
    computed = [row.num_computed - row.num_accepted for row in case.rows]
    values = ([count + 1 for count in drafts], computed, drafts)
    return StepCounts(*(kernels.backend.from_host(np.array(value, np.int32)) for value in values))


def differences(a: dict[str, np.ndarray[Any, Any]], b: dict[str, np.ndarray[Any, Any]]) -> str:
    """The arrays that differ, with the first differing index of each; empty where the sets agree."""
    found = []
    for name, values in a.items():
        unequal = np.argwhere(values != b[name])
        if len(unequal):
            found.append(f"{name}: {len(unequal)} differ, first at {unequal[0].tolist()}")
    return "; ".join(found)


def _block_ids(case: Case, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Persistent tables, then gathered ones: every block id once, so that no two rows touch one block.

    Block 0 stays the null block, and the last one stays unused: a copy that runs past its page remains in the
    pool.
    """
    groups = len(case.layout.groups)
    ids = rng.permutation(np.arange(1, case.layout.num_blocks - 1, dtype=np.int32))
    shape = (2 * groups, MAX_REQS, case.columns)
    tables = list(ids[: np.prod(shape)].reshape(shape))
    for number, table in enumerate(tables):
        for index, row in enumerate(case.rows):
            table_row = row.slot if number < groups else index
            if row.same_block and row.slot >= 0:
                source, target = _copy_columns(row)
                table[table_row, target] = table[table_row, source]
    return tables


def _copy_columns(row: Row) -> tuple[int, int]:
    if row.src_col >= 0:
        return row.src_col, row.state_idx
    return row.state_idx, max(row.num_computed // BLOCK_SIZE - 1, 0)
