"""What every explanation needs: a violation of a launch, the launch in words, rows and bytes in words.

Rows are the one thing here that is read from the rank's own tables, once something is wrong, to name who was confused
with whom; no verdict depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stalerow.kernels.base.layout import StateEntry
from stalerow.simulator.oracle.effect import region
from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.explain.evidence import Evidence
from stalerow.simulator.oracle.kinds import Kind
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Copying, Forward, Operation, Postprocess


def launch(operation: Operation) -> str:
    deferred = "deferred " if operation.step != operation.batch_step else ""
    return f"{deferred}{operation.kind} of step {operation.batch_step}"


def violation(rank: int, operation: Operation, kind: Kind, explanation: str, **fields: Any) -> Violation:
    return Violation(
        kind=kind,
        rank=rank,
        launch=operation.kind,
        step=operation.batch_step,
        during=operation.step,
        deferred=operation.step != operation.batch_step,
        explanation=explanation,
        **fields,
    )


def copying_row(evidence: Evidence, operation: Copying, group: int, source: int, block: int) -> str:
    """The row of the table that the kernels look up and that holds both blocks, if there is one: "row 1 (r2)"."""
    requests: Sequence[str]
    if isinstance(operation, Postprocess):
        requests, kept, slots = operation.output.requests, operation.output.kept, operation.output.slots
    else:
        requests, kept, slots = operation.batch.requests, operation.batch.requests, operation.batch.slots
    by_slot = evidence.by_slot
    table = (evidence.persistent if by_slot else evidence.gathered)[group]
    for row, (request, slot) in enumerate(zip(requests, slots)):
        ids = table[int(slot) if by_slot else row]
        if source in ids and block in ids:
            where = f"row {row} ({request}{'' if request in kept else ', masked'})"
            return f"slot {int(slot)} for {where}" if by_slot else where
    return ""


def writing_rows(evidence: Evidence, operation: Forward, block: int) -> Iterator[tuple[int, str]]:
    """(row, request) of the batch whose state indices name a block; "" for a padded row."""
    batch, indices = operation.batch, evidence.state_indices
    for row in range(max(batch.num_rows, batch.num_padded)):
        if (indices[:, row] == block).any():
            yield row, batch.requests[row] if row < batch.num_rows else ""


def stray_write(evidence: Evidence, operation: Operation, actual: np.ndarray) -> Violation:
    """A launch changed a page that it had no business with, or left one unchanged."""
    differs = actual != evidence.wanted
    layer, block = map(int, np.argwhere(differs.any(axis=2))[0])
    offsets = np.flatnonzero(differs[layer, block])
    owners = {o.request for o in evidence.ledger.owners.get(block, ())}
    name, entry = _place(evidence, layer, block, offsets)
    rows = list(writing_rows(evidence, operation, block)) if isinstance(operation, Forward) else []
    kind: Kind = "wrong position" if owners else "use after free"
    if block == 0:
        kind = "null block write"
    elif isinstance(operation, Forward) and owners:
        writers = {request for _, request in rows} or {*operation.batch.requests}
        writers = {""} if "" in writers else writers
        kind = "wrong position" if owners & writers else "cross-request copy"
    span = f"byte {offsets[0]}" if offsets.size == 1 else f"{offsets.size} bytes from {offsets[0]} to {offsets[-1]}"
    text = (
        f"{launch(operation)} on rank {evidence.rank} left {span} of block {block} "
        f"({evidence.ledger.describe(block)}; {name} of layer {layer}) wrong"
    )
    if entry is not None:
        decoder = Decoder(evidence.planner, evidence.layout)
        found, wanted = (decoder.state(pages[layer, block], entry) for pages in (actual, evidence.wanted))
        text += f": it holds {found} and should hold {wanted}" if str(found) != str(wanted) else f", in {found}"
    for row, request in sorted(rows, key=lambda pair: pair[1] in owners)[:1]:
        text += f"; row {row} ({request}) names the block" if request else f"; padded row {row} names the block"
    return violation(
        evidence.rank,
        operation,
        kind,
        text,
        layer=layer,
        group=entry.group if entry else -1,
        target_block=block,
        target_owner=evidence.ledger.describe(block),
    )


def _place(evidence: Evidence, layer: int, block: int, offsets: np.ndarray) -> tuple[str, StateEntry | None]:
    """What lies at the first of some offsets in a page, by the groups that own the block."""
    groups = {o.group for o in evidence.ledger.owners.get(block, ())}
    for entry in evidence.layout.states:
        where = region(evidence.layout, entry)
        if entry.layer == layer and where.start <= offsets[0] < where.stop and (not groups or entry.group in groups):
            return f"{entry.spec.kind} state {entry.state} of group {entry.group}", entry
    attention = [g for g in sorted(groups) if evidence.layout.groups[g].kind == "attention"]
    for group in attention:
        spec = evidence.layout.groups[group]
        if offsets[0] < spec.block_size * spec.kv_bytes:
            return f"KV of token {int(offsets[0]) // spec.kv_bytes} of group {group}", None
    return "bytes that belong to no state", None
