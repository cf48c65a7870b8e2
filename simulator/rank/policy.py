"""The decisions of a worker that releases got wrong at one time or another, one small method each.

`RankPolicy` is the correct worker. A fault is a subclass that overrides as little as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from stalerow.kernels.base.binding import Binder, EagerBinder
from stalerow.simulator.engine.step import NewRequest, Step
from stalerow.simulator.rank.device import DeviceQueue
from stalerow.simulator.rank.operations import Operation
from stalerow.simulator.rank.ring import RingEntry
from stalerow.simulator.rank.worker import Worker
from stalerow.simulator.schedule.values import Schedule


class RankPolicy:
    """Decisions of a correct worker. One object per rank.

    schedule: the one that is run; rank: index of the rank; step: number of the engine step that the rank's host is at,
    0 before the first.
    phases: what the host does with a step before it builds the batch, in order (methods of `RankV2`).
    zero_padding: whether the gather zeroes the rows past the batch.
    late_postprocess: whether the boundary copies of an output wait until the next batch has been launched.
    """

    phases: Sequence[str] = ("consume", "free", "admit", "update", "apply")
    zero_padding = True
    late_postprocess = False

    rank = 0
    step = 0

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def binder(self, rank: Worker) -> Binder:
        """What binds the copy kernels to the rank's cache, made once when the rank starts (vLLM #57807)."""
        return EagerBinder(rank.backend, rank.align.reads_slot_tables)

    def enqueue(self, queue: DeviceQueue, operation: Operation) -> None:
        """Put an operation on the rank's main stream: behind everything queued before (vLLM #45357)."""
        queue.push(operation)

    def ring_depth(self, pipeline_parallel_size: int) -> int:
        """Steps after which a non-last rank consumes an output."""
        return pipeline_parallel_size

    def staging_depth(self, steps_in_flight: int) -> int:
        """Buffers per staging pool: at least the number of steps in flight."""
        return self.schedule.limits.staging_depth or steps_in_flight

    def free_order(self, requests: Collection[str]) -> list[str]:
        """Order in which the slots of finished and preempted requests go back to the free list."""
        return sorted(requests)

    def take_slot(self, free: list[int]) -> int:
        """Remove the slot for a new request from the free list: the one freed last."""
        return free.pop()

    def leaving(self, requests: Collection[str], column_of: Callable[[str], int]) -> None:
        """Requests give up their slots; `column_of` is their running column. Nothing of them is kept (vLLM #35157)."""

    def seed_column(self, new: NewRequest, block_size: int) -> int:
        """Running column at admission, in mamba blocks; -1 for a fresh request (vLLM #53142)."""
        return (new.num_computed_tokens - 1) // block_size

    def seed_accepted(self, new: NewRequest) -> int | None:
        """num_accepted at admission; None would leave the previous owner's (vLLM #48132)."""
        return 1

    def excluded(self, entry: RingEntry, generation: np.ndarray) -> np.ndarray:
        """Rows of a deferred output to mask: no sample needed, or the slot was freed since (vLLM #50514)."""
        return ~entry.needs_output | (generation[entry.slots] != entry.generation)

    def rejected(self, num_rejected: np.ndarray, is_last: bool) -> np.ndarray:
        """Rejected drafts to take back from num_computed_tokens (vLLM #44697)."""
        return num_rejected

    def needs_output(self, num_tokens: int, prefill_len: int, capped: bool) -> bool:
        """Whether a row's output is deferred: it reaches its prefill's end, and the request goes on (`capped`: not).

        num_tokens: computed tokens after the step, as the host counts them.
        """
        return num_tokens >= prefill_len and not capped

    def received(self, tokens: np.ndarray, drafted: bool) -> np.ndarray:
        """Sampled tokens as a rank receives them: int64 [rows, K+1]; `drafted`: whether any draft was verified."""
        return tokens

    def blocks_to_zero(self, step: Step) -> Sequence[int]:
        return step.zero

    def runs_as_decode(self, num_computed: np.ndarray, num_drafts: np.ndarray) -> np.ndarray:
        """Which one-token prompt tails run as verification rows.

        All that continue a computed prefix, and all that the scheduler padded with placeholder drafts: a prefill row
        could not take the placeholders back. Releases 0.32 and 0.33 test the first condition only.
        """
        return (num_computed > 0) | (num_drafts > 0)

    def idle_step(self, rank: Worker, step: Step) -> None:
        """A step without rows: other ranks of a data-parallel group may need a dummy run, which writes no state."""

    def padded_rows(self, num_rows: int, uniform_decode: bool) -> int:
        """Rows of the captured decode graph that a uniform decode batch runs in."""
        if uniform_decode:
            for size in sorted(self.schedule.limits.graph_sizes):
                if size >= num_rows:
                    return size
        return num_rows
