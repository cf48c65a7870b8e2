"""From a wrong read to a named violation: what a forward found where a request's own state or KV should have been.

Also what the prefix cache still offers at the end of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from stalerow.kernels.base.layout import StateEntry
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.oracle.explain.decode import Decoder, Provenance
from stalerow.simulator.oracle.explain.evidence import Evidence
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.explain.wording import violation
from stalerow.simulator.oracle.kinds import Kind
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Forward
from stalerow.simulator.truth.plan import PlanRow


def unzeroed(evidence: Evidence, operation: Forward, fresh: Sequence[int]) -> Iterator[Violation]:
    """Newly allocated attention blocks, `fresh`, must be zero when their first forward starts (vLLM #56524)."""
    step = evidence.planner.plans[operation.step].step
    copied = {target for _, target in step.copies}
    for block in fresh:
        if block in copied or not evidence.wanted[:, block].any():
            continue
        layer = int(np.flatnonzero(evidence.wanted[:, block].any(axis=1))[0])
        source = evidence.ledger.describe(block)
        found = _leftover(evidence, layer, block)
        kind: Kind = "use after free" if found.what in ("state", "junk", "KV") else "uninitialised read"
        yield violation(
            evidence.rank,
            operation,
            kind,
            f"attention block {block} ({source}) is not zero when step {operation.step} first uses it on rank "
            f"{evidence.rank}: it holds {found}",
            layer=layer,
            target_block=block,
            target_owner=source,
            bytes_of=str(found),
        )


def _leftover(evidence: Evidence, layer: int, block: int) -> Provenance:
    """What a page that should be zero holds of an earlier owner: a state, or KV of some request."""
    decoder, page = Decoder(evidence.planner, evidence.layout), evidence.wanted[layer, block]
    states = [decoder.state(page, entry) for entry in evidence.layout.states if entry.layer == layer]
    states += [decoder.kv(page, group, layer) for group in evidence.layout.attention_groups]
    for what in ("state", "junk", "KV", "poison", "torn"):
        for found in states:
            if found.what == what:
                return found
    return Provenance("unknown")


def wrong_reads(
    evidence: Evidence, operation: Forward, rows: Sequence[PlanRow], damage: np.ndarray, before: np.ndarray
) -> Iterator[Violation]:
    """Rows whose forward read something else than the state after exactly their tokens, or foreign KV."""
    states = len(evidence.layout.states)
    decoder = None
    for i, row in enumerate(rows):
        bad = np.flatnonzero(damage[i])
        if not bad.size:
            continue
        decoder = decoder or Decoder(evidence.planner, evidence.layout)
        index = int(bad[0])
        if index < states:
            yield _wrong_state(evidence, operation, i, row, evidence.layout.states[index], decoder, before)
        else:
            yield _wrong_kv(evidence, operation, i, row, index - states)


def _wrong_state(
    evidence: Evidence,
    operation: Forward,
    index: int,
    row: PlanRow,
    entry: StateEntry,
    decoder: Decoder,
    before: np.ndarray,
) -> Violation:
    """Batch row `index` took its state from where the rank's own indices say; the ledger says where it should be."""
    ledger = evidence.ledger
    bias = row.accepted_in_forward - 1 if row.is_spec else 0
    column = row.column if entry.conv_width else row.column + bias
    wanted = ledger.block(row.request, entry.group, column)
    taken = _taken_bias(evidence, operation, index) if row.is_spec else 0
    block = _named(evidence, entry, index, 0 if entry.conv_width else taken, wanted)
    shift, meant = (taken, bias) if entry.conv_width else (0, 0)
    found = decoder.state(before[entry.layer, block], entry, shift)
    text = (
        f"forward of step {row.step} on rank {evidence.rank} reads row {index}'s state, {row.request}'s after "
        f"{counted(row.start, 'token')}, from block {block} ({ledger.describe(block)})"
    )
    if shift:
        text += f", shifted by {counted(shift, 'row')}"
    text += f", which holds {found}"
    if block != wanted:
        text += f"; the state is in block {wanted}"
    elif shift != meant:
        text += f"; the shift should be {counted(meant, 'row')}"
    return violation(
        evidence.rank,
        operation,
        _state_kind(evidence, row, entry, block, found),
        text,
        layer=entry.layer,
        group=entry.group,
        source_block=block,
        source_owner=ledger.describe(block),
        request=row.request,
        bytes_of=str(found),
    )


def _taken_bias(evidence: Evidence, operation: Forward, index: int) -> int:
    """The bias that the rank's own count of accepted tokens gives a verification row, within what its inputs have."""
    accepted = evidence.num_accepted[operation.batch.slots[index]]
    return min(max(int(accepted) - 1, 0), evidence.layout.num_drafts)


def _named(evidence: Evidence, entry: StateEntry, index: int, span: int, wanted: int) -> int:
    """The block that the rank's state indices name, `wanted` if that is no block at all."""
    named = int(evidence.state_indices[entry.group_index, index, span])
    return named if 0 <= named < evidence.layout.num_blocks else wanted


def _state_kind(evidence: Evidence, row: PlanRow, entry: StateEntry, block: int, found: Provenance) -> Kind:
    if row.first_after_hit:
        return "poisoned cache"
    if block == 0:
        return "uninitialised read"
    if found.what in ("poison", "null", "zero"):
        return "uninitialised read" if evidence.ledger.owns(row.request, entry.group, block) else "use after free"
    if not evidence.ledger.owners.get(block):
        return "use after free"
    if found.what == "state" and row.request not in found.requests:
        return "cross-request copy"
    if not evidence.ledger.owns(row.request, entry.group, block):
        return "cross-request copy"
    return "torn copy" if found.what == "torn" else "wrong position"


def _wrong_kv(evidence: Evidence, operation: Forward, index: int, row: PlanRow, unit: int) -> Violation:
    """Attention KV of batch row `index` differs: by the block that its table row names, or in a block of its own."""
    group = evidence.layout.attention_groups[unit // evidence.layout.layers]
    layer, size = unit % evidence.layout.layers, evidence.layout.groups[group].block_size
    table = evidence.gathered[group][index]
    own = [evidence.ledger.block(row.request, group, column) for column in range(-(-row.start // size))]
    other = next(((c, int(table[c]), want) for c, want in enumerate(own) if int(table[c]) != want), None)
    text = f"forward of step {row.step} on rank {evidence.rank} reads attention KV of {row.request} (row {index}"
    kind: Kind = "wrong position"
    if other is None:
        text += f", layer {layer}, positions 0 to {row.start - 1}) that something has overwritten in blocks of its own"
    else:
        column, block, want = other
        owner = evidence.ledger.describe(block)
        text += f", layer {layer}) from block {block} ({owner}) in column {column}; its own is block {want}"
        owners = {o.request for o in evidence.ledger.owners.get(block, ())}
        kind = "wrong position" if row.request in owners else "cross-request copy" if owners else "use after free"
    return violation(
        evidence.rank,
        operation,
        "poisoned cache" if row.first_after_hit else kind,
        text,
        layer=layer,
        group=group,
        source_block=other[1] if other else -1,
        request=row.request,
    )


def diverged(rank: int, operation: Forward, row: PlanRow) -> Violation:
    """The last rank's output for a row depends on a wrong read somewhere before."""
    return violation(
        rank,
        operation,
        "output divergence",
        f"{row.request}'s output of step {row.step} differs from the request run alone",
        request=row.request,
    )


def wrong_cache(
    evidence: Evidence, pages: np.ndarray, offered: Iterable[tuple[int, CachedBlock]]
) -> Iterator[Violation]:
    """Recurrent blocks that the prefix cache still offers at the end of the run and that hold something else."""
    layout = evidence.layout
    decoder = Decoder(evidence.planner, layout)
    for block, cached in offered:
        for entry in layout.states:
            if entry.group != cached.group:
                continue
            found = decoder.state(pages[entry.layer, block], entry)
            expected = evidence.planner.streams[cached.request].hash_at(cached.num_tokens)
            right = found.what == "state" and found.tokens == cached.num_tokens
            if right and any(evidence.planner.streams[r].hash_at(found.tokens) == expected for r in found.requests):
                continue
            yield Violation(
                kind="poisoned cache",
                rank=evidence.rank,
                launch="end of run",
                step=max(evidence.planner.plans, default=0),
                during=max(evidence.planner.plans, default=0),
                layer=entry.layer,
                group=cached.group,
                target_block=block,
                target_owner=evidence.ledger.describe(block),
                request=cached.request,
                bytes_of=str(found),
                explanation=f"block {block} is cached as {cached.request}'s state after "
                f"{counted(cached.num_tokens, 'token')} but holds {found} on rank {evidence.rank}",
            )
            break
