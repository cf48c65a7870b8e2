"""How fast the state copies run on a GPU: own kernels, a release's and a plain copy, measured in one run.

    python tests/bench/copy_kernels.py [--release vllm==0.33.0] [--rows 1 8 32 64]

The shapes are those of a 27B hybrid on one of two pipeline ranks: 24 layers, a temporal state of 48 x 128 x 128 and
a conv window of 8 x 10240. Kernels are measured in CUDA graphs, so that no host time is in it. A graph in which rows
move holds launches over 64 requests of their own, together gigabytes, so that nothing is found in the L2 cache: 64
launches of one row, 8 of eight, and so on. Bytes are counted as read plus written.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from stalerow.kernels.base.binding import Binding, bind
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.sets import KernelSet, kernel_set

LAYERS, DRAFTS, REQUESTS = 24, 5, 64
BLOCK_SIZE = 16
STREAM_WORDS = 512
TARGET = DRAFTS + 1
"""Table column that states are moved to; column 0 to DRAFTS is where they come from."""


def hybrid(elem_size: int) -> Layout:
    """The rank's layout with temporal states of 2 (bf16) or 4 (fp32) bytes an element."""
    states = (StateSpec("conv", 10240, 2), StateSpec("temporal", 48 * 128 * 128, elem_size))
    return Layout((GroupSpec("recurrent", BLOCK_SIZE, states),), LAYERS, 1 + 3 * REQUESTS, DRAFTS)


class Rank:
    """One rank's memory on the device, shared by all kernel sets."""

    def __init__(self, layout: Layout, backend: Any) -> None:
        self.layout, self.backend = layout, backend
        # `Pool` fills host memory first, which takes minutes at this size.
        self.pool = Pool.__new__(Pool)
        self.pool.layout = layout
        words = torch.empty(layout.pool_bytes // 8, dtype=torch.int64, device="cuda").random_()
        self.pool.array = words.view(torch.uint8)
        self.pool.address = self.pool.array.data_ptr()
        self.tables = BlockTables(layout, REQUESTS, TARGET + 1, backend)
        self.slots = SlotState(REQUESTS, 1, backend)
        self.idx = torch.arange(REQUESTS, device="cuda")
        self.prepare(False)

    def prepare(self, in_place: bool) -> None:
        """Accepted drafts of the slots, and three blocks for each; `in_place`: conv windows stay in their block."""
        self.drafts = 1 + self.idx % DRAFTS if in_place else self.idx % (DRAFTS + 1)
        self.slots.src_off.copy_(self.drafts)
        block = 1 + 3 * self.idx.to(torch.int32)
        table = self.tables.persistent[0]
        table[:, 0] = block
        table[:, 1:TARGET] = (block + 1)[:, None]
        table[:, TARGET] = block if in_place else block + 2

    def moving(self, moves: bool) -> None:
        """Set the slots so that every row crosses a boundary, or none does."""
        self.slots.src_col.fill_(0)
        self.slots.state_idx.fill_(TARGET if moves else 0)
        self.slots.num_computed.fill_(BLOCK_SIZE // 2)

    def moved_bytes(self) -> int:
        """Bytes read and written when all slots move."""
        total = 0
        for state in self.layout.states:
            for drafts in self.drafts.tolist():
                kept = (state.conv_width - drafts) * state.spec.row_bytes
                total += 2 * (kept if state.conv_width else state.data_bytes)
        return total

    def check(self, copy: Callable[[], None]) -> None:
        """Move every slot with `copy` once and compare with slices of the pool."""
        pages = self.pool.array.view(self.layout.layers, self.layout.num_blocks, -1)
        conv, temporal = self.layout.states[:2]
        row, end = conv.spec.row_bytes, temporal.offset + temporal.data_bytes
        pages[:, 3::3].fill_(0xCB)
        copy()
        for slot, drafts in enumerate(self.drafts.tolist()):
            window, state, target = (pages[:, 1 + 3 * slot + i] for i in (0, min(drafts, 1), 2))
            kept = conv.data_bytes - drafts * row
            if not (
                torch.equal(target[:, :kept], window[:, drafts * row : conv.data_bytes])
                and torch.equal(target[:, temporal.offset : end], state[:, temporal.offset : end])
                and bool((target[:, kept : conv.data_bytes] == 0xCB).all())
            ):
                raise AssertionError(f"slot {slot} with {drafts} drafts was not copied right")


def graph_time(launches: Callable[[], object], count: int, repeats: int = 20) -> float:
    """Median microseconds of one of `count` launches in a captured graph."""
    launches()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launches()
    times = []
    for _ in range(repeats + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / count)
    return statistics.median(times[3:])


def copy_rate(rank: Rank) -> float:
    """TB/s of a device-to-device copy of about as many bytes as 64 requests move, read plus written.

    Not from a graph: a copy node there ran at two thirds of this rate.
    """
    size = min(rank.pool.array.numel() // 2, rank.moved_bytes() // 2)
    first, second = rank.pool.array[:size], rank.pool.array[-size:]
    millis = triton.testing.do_bench(lambda: second.copy_(first), warmup=20, rep=40, return_mode="median")
    return 2 * size / millis / 1e9


class Measured(NamedTuple):
    """`micros` of a launch; `rate` in TB/s, 0 where nothing moves."""

    micros: float
    rate: float


@triton.jit
def stream_kernel(source, target, words, WORDS: tl.constexpr):
    """`target[:] = source[:]`, one program for `WORDS` 8-byte words: nothing to decide and nothing to look up."""
    i = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    tl.store(target + i, tl.load(source + i, mask=i < words), mask=i < words)


def streamed(rank: Rank, rows: int) -> Measured:
    """The bytes of a launch in which `rows` rows move, by `stream_kernel`: what Triton gives without the decisions."""
    rank.prepare(False)
    count = REQUESTS // rows
    words = rank.moved_bytes() // 2 // 8 // count // 2 * 2
    pool = rank.pool.array.view(torch.int64)
    half = len(pool) // 2

    def launches() -> None:
        for first in range(0, count * words, words):
            source, target = pool[first : first + words], pool[half + first : half + first + words]
            stream_kernel[(triton.cdiv(words, STREAM_WORDS),)](source, target, words, WORDS=STREAM_WORDS)

    micros = graph_time(launches, count)
    return Measured(micros, 16 * words / micros / 1e6)


def batches(rank: Rank, kernels: KernelSet, rows: int) -> list[tuple[torch.Tensor, Binding]]:
    """All slots in batches of `rows`, each with what the kernel set would be bound to."""
    found = []
    for first in range(0, REQUESTS, rows):
        # Batch rows count from 0 in every batch, so each batch has gathered tables of its own.
        table = rank.tables.persistent[0]
        copied = table if kernels.align.reads_slot_tables else table[first : first + rows]
        binding = bind(rank.layout, rank.pool, [copied], [copied], rank.backend)
        found.append((rank.idx[first : first + rows], binding))
    return found


def moving(rank: Rank, kernels: KernelSet, rows: int, in_place: bool = False) -> Measured:
    """Precopy where every row moves."""
    rank.prepare(in_place)
    rank.moving(True)
    todo = batches(rank, kernels, rows)

    def launches() -> None:
        for idx, binding in todo:
            kernels.align.precopy(rank.slots, binding, idx, rows)

    micros = graph_time(launches, len(todo))
    return Measured(micros, rank.moved_bytes() / len(todo) / micros / 1e6)


def still(rank: Rank, kernels: KernelSet, rows: int, after: bool, count: int = 50) -> Measured:
    """Precopy, or with `after` postprocess and its snapshot, where no row crosses a boundary."""
    rank.moving(False)
    idx, binding = batches(rank, kernels, rows)[0]

    def launches() -> None:
        for _ in range(count):
            if after:
                kernels.align.postprocess(rank.slots, binding, idx, rows, BLOCK_SIZE)
            else:
                kernels.align.precopy(rank.slots, binding, idx, rows)

    return Measured(graph_time(launches, count), 0.0)


def check(rank: Rank, kernels: KernelSet) -> None:
    """A copy of every slot is right before anything is timed."""
    rank.prepare(False)
    rank.moving(True)
    (idx, binding), *_ = batches(rank, kernels, REQUESTS)
    rank.check(lambda: kernels.align.precopy(rank.slots, binding, idx, REQUESTS))


def measure(elem_size: int, sets: dict[str, KernelSet], row_counts: list[int]) -> Iterator[str]:
    """Lines of the table for one element size."""
    rank = Rank(hybrid(elem_size), next(iter(sets.values())).backend)
    for kernels in sets.values():
        check(rank, kernels)
    dtype = {2: "bf16", 4: "fp32"}[elem_size]
    peak = copy_rate(rank)
    for what, in_place in (("moved", False), ("shifted in place", True)):
        for rows in row_counts:
            found = {name: moving(rank, kernels, rows, in_place) for name, kernels in sets.items()}
            cells = [f"{m.micros:.1f} us, {m.rate:.2f} TB/s ({m.rate / peak:.1%})" for m in found.values()]
            yield line(dtype, what, rows, cells)
    for after, what in ((False, "precopy, none moves"), (True, "postprocess, none moves")):
        for rows in row_counts:
            found = {name: still(rank, kernels, rows, after) for name, kernels in sets.items()}
            yield line(dtype, what, rows, [f"{m.micros:.2f} us" for m in found.values()])
    for rows in row_counts:
        m = streamed(rank, rows)
        cell = f"{m.micros:.1f} us, {m.rate:.2f} TB/s ({m.rate / peak:.1%})"
        yield line(dtype, "plain Triton copy of as much", rows, [cell, *[""] * (len(sets) - 1)])
    yield line(dtype, "plain copy", "", [f"{peak:.2f}, then {copy_rate(rank):.2f} TB/s", *[""] * (len(sets) - 1)])


def line(dtype: str, what: str, rows: object, cells: list[str]) -> str:
    return f"| {dtype} | {what} | {rows} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", default="vllm==0.33.0", help="the released kernels to compare with, '' for none")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 64], help="batch sizes; they divide 64")
    options = parser.parse_args()
    names = [name for name in (options.release, "batch-row", "req-idx") if name]
    sets = {name: kernel_set(name, "cuda") for name in names}
    card = torch.cuda.get_device_name()
    print(f"{datetime.date.today()}, {card}, torch {torch.__version__}, triton {triton.__version__}\n")
    print(line("state", "launch", "rows", list(sets)))
    print("| --- " * (3 + len(sets)) + "|")
    for elem_size in (2, 4):
        for text in measure(elem_size, sets, options.rows):
            print(text, flush=True)


if __name__ == "__main__":
    main()
