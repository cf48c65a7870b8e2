"""Every kind of operation that a rank's host enqueues: what the host meant by it, as typed fields.

The device queue runs them; the oracle, the recorder, drawings, costs and faults all read the same structs. A new kind
is a struct here and a member of `Operation`; whoever judges operations matches on the union exhaustively, so mypy
names every place that does not know the new kind yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import msgspec
import numpy as np

from stalerow.simulator.engine.step import NewRequest, Step
from stalerow.simulator.rank.batch import Batch


class _Operation(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What all kinds have.

    step: the engine step whose host work enqueued it. run: executes it on the device, once. ready: whether what it
    waits for from another rank has come; None if it waits for nothing.
    """

    kind: ClassVar[str]

    step: int
    run: Callable[[], None]
    ready: Callable[[], bool] | None = None

    @property
    def batch_step(self) -> int:
        """The step whose batch it works for: an earlier one than `step` for a deferred output."""
        return self.step


class _OfBatch(_Operation, frozen=True, eq=False, kw_only=True):
    batch: Batch


class Seat(NamedTuple):
    """An admitted request's place: its slot (-1 under runner V1) and the step at which the slot was freed before."""

    slot: int
    new: NewRequest
    freed_at: int | None


class Seeded(NamedTuple):
    """What the launch that seeds was handed for one request; fields as in `kernels.own.update.seed_slots`."""

    slot: int
    state_idx: int
    num_accepted: int
    num_computed: int
    total_len: int


class TableWrite(NamedTuple):
    """Block ids for columns `start` and following of a slot's row in a group's table."""

    group: int
    slot: int
    start: int
    ids: Sequence[int]


class Free(_Operation, frozen=True, eq=False, kw_only=True):
    """The rank takes the step's frees: the slots of finished and preempted requests."""

    kind = "free"
    taken: Step


class Admit(_Operation, frozen=True, eq=False, kw_only=True):
    """The rank takes the step's admissions: blocks change hands."""

    kind = "admit"
    taken: Step
    seats: Sequence[Seat]


class Seed(_Operation, frozen=True, eq=False, kw_only=True):
    """Per-slot state of newly admitted requests is set."""

    kind = "seed"
    seats: Sequence[Seat]


class Zero(_Operation, frozen=True, eq=False, kw_only=True):
    """Whole pages become zero: newly allocated attention blocks."""

    kind = "zero"
    blocks: Sequence[int]


class CopyBlocks(_Operation, frozen=True, eq=False, kw_only=True):
    """Whole pages are copied, (source, target), every source read before any target is written (copy-on-write)."""

    kind = "copy_blocks"
    pairs: Sequence[tuple[int, int]]


class Writes(_Operation, frozen=True, eq=False, kw_only=True):
    """Staged block ids go to the persistent tables."""

    kind = "writes"
    writes: Sequence[TableWrite]


class BlockCounts(_Operation, frozen=True, eq=False, kw_only=True):
    """The number of blocks of every group and slot, whole."""

    kind = "block_counts"
    counts: Sequence[Sequence[int]]


class CommitRows(_OfBatch, frozen=True, eq=False, kw_only=True):
    """Runner V1: the per-row numbers and tokens of the batch, as the host holds them."""

    kind = "rows"


class Gather(_OfBatch, frozen=True, eq=False, kw_only=True):
    """The batch's rows of the persistent tables go to the gathered tables, its lengths to `seq_lens`."""

    kind = "gather"


class Preprocess(_OfBatch, frozen=True, eq=False, kw_only=True):
    """The running columns move on to where the batch's tokens end."""

    kind = "preprocess"


class Precopy(_OfBatch, frozen=True, eq=False, kw_only=True):
    """Accepted states move from the old running columns to the new ones."""

    kind = "precopy"


class Indices(_OfBatch, frozen=True, eq=False, kw_only=True):
    """The aligned state indices for the forward."""

    kind = "indices"


class Forward(_OfBatch, frozen=True, eq=False, kw_only=True):
    """The stand-in forward over the batch."""

    kind = "forward"


class Sample(_OfBatch, frozen=True, eq=False, kw_only=True):
    """Last rank: the batch's tokens are sampled."""

    kind = "sample"


class Broadcast(_Operation, frozen=True, eq=False, kw_only=True):
    """Side stream of the last rank: the step's sampled tokens reach the other ranks."""

    kind = "broadcast"


class Taken(msgspec.Struct, frozen=True, eq=False):
    """The output that a rank takes: of step `of`, batch rows in order.

    kept: requests whose rows are not masked. slots: int64 [rows], the batch mapping of that step. held: requests by
    slot when the host enqueued the operation.
    """

    of: int
    requests: tuple[str, ...]
    kept: tuple[str, ...]
    slots: np.ndarray
    held: Mapping[int, str]


class _OfOutput(_Operation, frozen=True, eq=False, kw_only=True):
    output: Taken

    @property
    def batch_step(self) -> int:
        return self.output.of


class PostUpdate(_OfOutput, frozen=True, eq=False, kw_only=True):
    """Token bookkeeping of an output: tokens, counts and accepted drafts of its rows."""

    kind = "post_update"


class ScatterAccepted(_OfOutput, frozen=True, eq=False, kw_only=True):
    """Runner V1: the accepted counts of an output, whose other numbers the host keeps."""

    kind = "scatter_accepted"


class Postprocess(_OfOutput, frozen=True, eq=False, kw_only=True):
    """States at block boundaries that the output's accepted tokens crossed are saved."""

    kind = "postprocess"


class Advance(_OfBatch, frozen=True, eq=False, kw_only=True):
    """Non-last rank: num_computed_tokens grows by the scheduled counts, before the output is known."""

    kind = "advance"


class FillAccepted(_OfBatch, frozen=True, eq=False, kw_only=True):
    """Non-last rank: num_accepted of the batch becomes 1, since some row needs no sample."""

    kind = "fill_accepted"


class Dummy(_Operation, frozen=True, eq=False, kw_only=True):
    """An idle rank's dummy run, which is to write no state."""

    kind = "dummy"


Operation: TypeAlias = (
    Free
    | Admit
    | Seed
    | Zero
    | CopyBlocks
    | Writes
    | BlockCounts
    | CommitRows
    | Gather
    | Preprocess
    | Precopy
    | Indices
    | Forward
    | Sample
    | Broadcast
    | PostUpdate
    | ScatterAccepted
    | Postprocess
    | Advance
    | FillAccepted
    | Dummy
)
"""Everything that can be on a rank's streams."""

Copying: TypeAlias = Precopy | Postprocess
"""The launches that move states between columns."""
