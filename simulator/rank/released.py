"""What a released kernel set expects of its caller, as a worker policy.

`stalerow.kernels.external` reads it from the engine's source; this turns it into the decisions of a rank: when the copy
kernels are bound, what the gather zeroes, in which blocks the running column is seeded. The rest of the worker is the
project's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from stalerow.kernels.base.binding import Binder, EagerBinder, LazyBinder
from stalerow.kernels.base.layout import Layout
from stalerow.simulator.errors import UsageError
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.worker import Worker
from stalerow.simulator.schedule.values import Schedule

if TYPE_CHECKING:
    from stalerow.kernels.external import CallingConvention
    from stalerow.simulator.engine.step import NewRequest


class RefusedLayout(UsageError):
    """The release's runner refuses to start with such a memory layout."""


class ReleasedTails(RankPolicy):
    """A prompt of one token that was padded runs as a plain row, as in 0.31 to 0.34 (0.30 asks for nothing computed).

    Prefill keeps only the state after its last position, so it absorbs the placeholder drafts.
    """

    def runs_as_decode(self, num_computed: np.ndarray, num_drafts: np.ndarray) -> np.ndarray:
        made: np.ndarray = num_computed > 0
        return made


def worker_policy(base: Callable[[Schedule], RankPolicy], align: Any) -> Callable[[Schedule], RankPolicy]:
    """`base`, on top of what the kernel set's own runner does; `base` itself for the project's kernels."""
    caller: CallingConvention | None = getattr(align, "caller", None)
    if caller is None:
        return base
    if base is RankPolicy:
        return type("Released", (_Released,), {"caller": caller})
    return type("ReleasedWithFault", (base, _Released), {"caller": caller})  # type: ignore[arg-type]


def check_layout(layout: Layout, align: Any) -> None:
    """Raises `RefusedLayout` where the release asserts that it cannot serve the layout."""
    caller: CallingConvention | None = getattr(align, "caller", None)
    if caller is None:
        return
    if layout.conv_layout == "DS" and layout.num_drafts and not caller.ds_conv_with_drafts:
        raise RefusedLayout(f"{align.name} refuses the DS conv layout with drafts: use conv_layout 'SD'")
    unit = caller.temporal_alignment
    places = [layout.base_offset, layout.page_bytes]
    for entry in layout.states:
        if not entry.conv_width:
            places += [entry.offset, entry.data_bytes]
    if unit > 1 and any(p % unit for p in places):
        raise RefusedLayout(f"{align.name} refuses temporal states that are not aligned to {unit} bytes")


def corrected(base: Callable[[Schedule], RankPolicy], align: Any) -> Callable[[Schedule], RankPolicy] | None:
    """`worker_policy`, but padded prompts of one token run as the project's runner runs them.

    None where that changes nothing: for the project's own kernels, and under a fault that decides it.
    """
    made = worker_policy(base, align)
    if not (isinstance(made, type) and issubclass(made, RankPolicy)):
        return None
    if made.runs_as_decode is not ReleasedTails.runs_as_decode:
        return None
    return type(f"{made.__name__}Corrected", (made,), {"runs_as_decode": RankPolicy.runs_as_decode})


class _Released(ReleasedTails):
    caller: CallingConvention

    @property
    def zero_padding(self) -> bool:  # type: ignore[override]
        return self.caller.zero_padding

    def binder(self, rank: Worker) -> Binder:
        made = EagerBinder if self.caller.binds_when == "cache_init" else LazyBinder
        return made(rank.backend, rank.align.reads_slot_tables)

    def seed_column(self, new: NewRequest, block_size: int) -> int:
        if self.caller.seed_unit == "scheduler":
            block_size = min(g.block_size for g in self.schedule.layout.groups)
        return (new.num_computed_tokens - 1) // block_size
