"""What every explanation needs: a violation of a launch, the launch in words, rows and bytes in words.

Rows are the one thing here that is read from the rank's own tables, once something is wrong, to name who was confused
with whom; no verdict depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stalerow.kernels.base.layout import StateEntry
from stalerow.simulator.oracle.effect import region
from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.violations import Kind, Violation
from stalerow.simulator.rank.operations import Forward, Operation, Postprocess

if TYPE_CHECKING:
    from stalerow.simulator.oracle.judge import RankJudge
    from stalerow.simulator.oracle.watch import Watch
    from stalerow.simulator.rank.operations import Copying


def launch(operation: Operation) -> str:
    deferred = "deferred " if operation.step != operation.batch_step else ""
    return f"{deferred}{operation.kind} of step {operation.batch_step}"


def violation(watch: Watch, operation: Operation, kind: Kind, explanation: str, **fields: Any) -> Violation:
    return Violation(
        kind=kind,
        rank=watch.rank.index,
        launch=operation.kind,
        step=operation.batch_step,
        during=operation.step,
        deferred=operation.step != operation.batch_step,
        explanation=explanation,
        **fields,
    )


def copying_row(judge: RankJudge, operation: Copying, group: int, source: int, block: int) -> str:
    """The row of the table that the kernels look up and that holds both blocks, if there is one: "row 1 (r2)"."""
    rank = judge.rank
    requests: Sequence[str]
    if isinstance(operation, Postprocess):
        requests, kept, slots = operation.output.requests, operation.output.kept, operation.output.slots
    else:
        requests, kept, slots = operation.batch.requests, operation.batch.requests, operation.batch.slots
    by_slot = rank.align.reads_slot_tables
    tables = rank.backend.to_host((rank.tables.persistent if by_slot else rank.tables.gathered)[group])
    for row, (request, slot) in enumerate(zip(requests, slots)):
        ids = tables[int(slot) if by_slot else row]
        if source in ids and block in ids:
            where = f"row {row} ({request}{'' if request in kept else ', masked'})"
            return f"slot {int(slot)} for {where}" if by_slot else where
    return ""


def writing_rows(judge: RankJudge, operation: Forward, block: int) -> Iterator[tuple[int, str]]:
    """(row, request) of the batch whose state indices name a block; "" for a padded row."""
    batch, indices = operation.batch, judge.rank.backend.to_host(judge.rank.state_indices)
    for row in range(max(batch.num_rows, batch.num_padded)):
        if (indices[:, row] == block).any():
            yield row, batch.requests[row] if row < batch.num_rows else ""


def stray_write(judge: RankJudge, operation: Operation, actual: np.ndarray) -> Violation:
    """A launch changed a page that it had no business with, or left one unchanged."""
    differs = actual != judge.shadow
    layer, block = map(int, np.argwhere(differs.any(axis=2))[0])
    offsets = np.flatnonzero(differs[layer, block])
    owners = {o.request for o in judge.ledger.owners.get(block, ())}
    name, entry = _place(judge, layer, block, offsets)
    rows = list(writing_rows(judge, operation, block)) if isinstance(operation, Forward) else []
    kind: Kind = "wrong position" if owners else "use after free"
    if block == 0:
        kind = "null block write"
    elif isinstance(operation, Forward) and owners:
        writers = {request for _, request in rows} or {*operation.batch.requests}
        writers = {""} if "" in writers else writers
        kind = "wrong position" if owners & writers else "cross-request copy"
    span = f"byte {offsets[0]}" if offsets.size == 1 else f"{offsets.size} bytes from {offsets[0]} to {offsets[-1]}"
    text = (
        f"{launch(operation)} on rank {judge.rank.index} left {span} of block {block} "
        f"({judge.ledger.describe(block)}; {name} of layer {layer}) wrong"
    )
    if entry is not None:
        decoder = Decoder(judge.planner, judge.layout)
        found, wanted = (decoder.state(pages[layer, block], entry) for pages in (actual, judge.shadow))
        text += f": it holds {found} and should hold {wanted}" if str(found) != str(wanted) else f", in {found}"
    for row, request in sorted(rows, key=lambda pair: pair[1] in owners)[:1]:
        text += f"; row {row} ({request}) names the block" if request else f"; padded row {row} names the block"
    return violation(
        judge,
        operation,
        kind,
        text,
        layer=layer,
        group=entry.group if entry else -1,
        target_block=block,
        target_owner=judge.ledger.describe(block),
    )


def _place(judge: RankJudge, layer: int, block: int, offsets: np.ndarray) -> tuple[str, StateEntry | None]:
    """What lies at the first of some offsets in a page, by the groups that own the block."""
    groups = {o.group for o in judge.ledger.owners.get(block, ())}
    for entry in judge.layout.states:
        where = region(judge.layout, entry)
        if entry.layer == layer and where.start <= offsets[0] < where.stop and (not groups or entry.group in groups):
            return f"{entry.spec.kind} state {entry.state} of group {entry.group}", entry
    attention = [g for g in sorted(groups) if judge.layout.groups[g].kind == "attention"]
    for group in attention:
        spec = judge.layout.groups[group]
        if offsets[0] < spec.block_size * spec.kv_bytes:
            return f"KV of token {int(offsets[0]) // spec.kv_bytes} of group {group}", None
    return "bytes that belong to no state", None
