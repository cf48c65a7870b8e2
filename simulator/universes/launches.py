"""A frame of a rank of all universes: its launches, in the order in which its hosts made them."""

from __future__ import annotations

from collections.abc import Callable

from stalerow.simulator.rank import operations
from stalerow.simulator.universes.group import RankGroup

FILLS = (operations.Admit.kind, operations.Zero.kind, operations.CopyBlocks.kind, operations.Seed.kind)
"""What may come between two fills of pages without changing one."""

LAUNCHES: dict[str, Callable[[RankGroup], None]] = {
    operations.Free.kind: RankGroup.free,
    operations.Admit.kind: RankGroup.admit,
    operations.Seed.kind: RankGroup.seed,
    operations.Zero.kind: RankGroup.zero,
    operations.CopyBlocks.kind: RankGroup.copy_blocks,
    operations.Writes.kind: RankGroup.writes,
    operations.BlockCounts.kind: RankGroup.block_counts,
    operations.Gather.kind: RankGroup.gather,
    operations.Preprocess.kind: RankGroup.preprocess,
    operations.Precopy.kind: RankGroup.precopy,
    operations.Indices.kind: RankGroup.indices,
    operations.Forward.kind: RankGroup.forward,
    operations.Sample.kind: RankGroup.sample,
    operations.PostUpdate.kind: RankGroup.post_update,
    operations.Postprocess.kind: RankGroup.postprocess,
    operations.Advance.kind: RankGroup.advance,
    operations.FillAccepted.kind: RankGroup.fill_accepted,
}
"""How all universes run each kind of operation of a main stream; kinds of runner V1 and dummy runs are not recorded."""


def run_frame(group: RankGroup, frame: int) -> None:
    """Everything that the universes' hosts enqueued for one step."""
    group.begin(frame)
    for kind in group.pack.orders[group.rank][frame]:
        if kind not in FILLS:
            group.settle()
        LAUNCHES[kind](group)
    group.settle()
