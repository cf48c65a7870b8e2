"""From a mismatch to a named violation: what was meant, what happened, whose bytes went where.

Called by the judge only when something is wrong. Everything is found from the pool's bytes, the plan and the ledger;
the one thing taken from the rank is which step its gathered table held, to say so in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stalerow.kernels.layout import StateEntry
from stalerow.simulator.oracle.decode import Decoder, Provenance
from stalerow.simulator.oracle.effect import StateCopy, region, window
from stalerow.simulator.oracle.plan import PlanRow
from stalerow.simulator.oracle.violations import Violation

if TYPE_CHECKING:
    from stalerow.simulator.oracle.judge import RankJudge
    from stalerow.simulator.rank.batch import Batch
    from stalerow.simulator.rank.device import Operation


def _launch(operation: Operation, of: int) -> str:
    if operation.step != of:
        return f"deferred {operation.kind} of step {of}"
    return f"{operation.kind} of step {of}"


def _make(judge: RankJudge, operation: Operation, of: int, kind: str, explanation: str, **fields: Any) -> Violation:
    return Violation(
        kind=kind,
        rank=judge.rank.index,
        launch=operation.kind,
        step=of,
        during=operation.step,
        deferred=operation.step != of,
        explanation=explanation,
        **fields,
    )


def wrong_copy(
    judge: RankJudge,
    operation: Operation,
    of: int,
    copies: Sequence[StateCopy],
    before: np.ndarray,
    actual: np.ndarray,
) -> Iterator[Violation]:
    """Violations of a copy launch whose result differs from what it was meant to do."""
    ledger = judge.ledger
    wrong = np.argwhere((actual != judge.shadow).any(axis=2))
    intended = _intended(judge, copies, actual)
    missing = [c for c in copies if _unchanged(judge, c, before, actual)]
    done: set[tuple[int, int]] = set()
    for layer, block in (map(int, pair) for pair in wrong):
        meant = intended.get((layer, block))
        found = _source(judge, layer, block, before, actual)
        if found is None and meant is not None and meant in missing:
            continue
        source, entry, bias = found if found else (-1, None, 0)
        if (source, block) in done:
            continue
        done.add((source, block))
        if meant is None:
            meant = next((c for c in missing if entry is None or c.entry == entry), None) or next(
                (c for c in missing), None
            )
        yield _copied_wrongly(judge, operation, of, meant, source, block, entry, bias, before)
    if not done and missing:
        first = missing[0]
        made = len({(c.entry.group, c.entry.layer, c.entry.state) for c in copies if c not in missing})
        kind = "torn copy" if made else "wrong position"
        yield _make(
            judge,
            operation,
            of,
            kind,
            f"{_launch(operation, of)} on rank {judge.rank.index} left {len(missing)} of {len(copies)} copies of "
            f"{first.request}'s state out: block {first.source} should have been copied to block {first.target}",
            layer=first.entry.layer,
            group=first.entry.group,
            source_block=first.source,
            target_block=first.target,
            source_owner=ledger.describe(first.source),
            target_owner=ledger.describe(first.target),
            request=first.request,
        )
    elif not done:
        yield stray_write(judge, operation, actual, of)


def _intended(
    judge: RankJudge, copies: Sequence[StateCopy], actual: np.ndarray
) -> dict[tuple[int, int], StateCopy]:
    """(layer, block) to the copy that should have made it what it is not; one whose own bytes are wrong, if any is."""
    chosen: dict[tuple[int, int], StateCopy] = {}
    for copy in copies:
        page, where = (copy.entry.layer, copy.target), region(judge.layout, copy.entry)
        if page not in chosen or not np.array_equal(actual[page][where], judge.shadow[page][where]):
            chosen[page] = copy
    return chosen


def _copied_wrongly(
    judge: RankJudge,
    operation: Operation,
    of: int,
    meant: StateCopy | None,
    source: int,
    block: int,
    entry: StateEntry | None,
    bias: int,
    before: np.ndarray,
) -> Violation:
    ledger, rank = judge.ledger, judge.rank
    bytes_of = ""
    if entry is not None and source >= 0:
        bytes_of = str(Decoder(judge.planner, judge.layout).state(before[entry.layer, source], entry, bias))
    request = meant.request if meant else ""
    kind = _copy_kind(judge, meant, source, block, request)
    what = f"block {source} ({ledger.describe(source)})" if source >= 0 else "bytes of no single block"
    text = f"{_launch(operation, of)} on rank {rank.index} copied {what} to block {block} ({ledger.describe(block)})"
    if meant is not None:
        text += f"; it was meant to copy {request}'s block {meant.source} to block {meant.target}"
    gathered = rank.gathered_step
    if operation.step != of and gathered not in (None, of):
        text += f", and the gathered table held step {gathered} by then"
    return _make(
        judge,
        operation,
        of,
        kind,
        text,
        layer=entry.layer if entry else -1,
        group=entry.group if entry else -1,
        source_block=source,
        target_block=block,
        source_owner=ledger.describe(source) if source >= 0 else "",
        target_owner=ledger.describe(block),
        request=request,
        bytes_of=bytes_of,
    )


def _copy_kind(judge: RankJudge, meant: StateCopy | None, source: int, block: int, request: str) -> str:
    owners = judge.ledger.owners
    if meant is not None and all(o.request != request for o in owners.get(source, ())) and source in owners:
        return "cross-request copy"
    if block == 0 or block not in owners:
        return "use after free"
    if source == 0 and meant is None:
        return "uninitialised read"
    if all(o.request != request for o in owners[block]):
        return "cross-request copy"
    if source == 0:
        return "uninitialised read"
    if source >= 0 and source not in owners:
        return "use after free"
    if source < 0:
        return "torn copy"
    return "wrong position"


def _unchanged(judge: RankJudge, copy: StateCopy, before: np.ndarray, actual: np.ndarray) -> bool:
    """Whether the target still holds what it held, though the copy should have changed it."""
    where = region(judge.layout, copy.entry)
    page = (copy.entry.layer, copy.target)
    now = actual[page][where]
    return np.array_equal(now, before[page][where]) and not np.array_equal(now, judge.shadow[page][where])


def _source(
    judge: RankJudge, layer: int, block: int, before: np.ndarray, actual: np.ndarray
) -> tuple[int, StateEntry, int] | None:
    """(source block, state, bias) of what changed a page: a block that held the page's new bytes before the launch.

    States of several groups overlap in a page, so the largest state that is explained wins; temporal ones first, since
    they are copied whole.
    """
    changed = (actual[layer, block] != before[layer, block]) & (actual[layer, block] != judge.shadow[layer, block])
    if not changed.any():
        return None
    entries = [e for e in judge.layout.states if e.layer == layer and changed[region(judge.layout, e)].any()]
    for entry in sorted(entries, key=lambda e: (e.conv_width > 0, -e.data_bytes)):
        found = _origin(judge, entry, block, before, actual)
        if found is not None:
            return found[0], entry, found[1]
    return None


def _origin(
    judge: RankJudge, entry: StateEntry, block: int, before: np.ndarray, actual: np.ndarray
) -> tuple[int, int] | None:
    """(block, bias) whose state, shifted by bias rows, is what the page holds now."""
    where = region(judge.layout, entry)
    now = actual[entry.layer, block][where]
    if not entry.conv_width:
        hits = np.flatnonzero((before[entry.layer][:, where] == now).all(axis=1))
        return (int(hits[0]), 0) if hits.size else None
    new = window(judge.layout, entry, now)
    for bias in range(judge.layout.num_drafts + 1):
        for candidate in range(judge.layout.num_blocks):
            old = window(judge.layout, entry, before[entry.layer, candidate][where])
            if np.array_equal(new[: entry.conv_width - bias], old[bias:]):
                return candidate, bias
    return None


def stray_write(judge: RankJudge, operation: Operation, actual: np.ndarray, of: int | None = None) -> Violation:
    """A launch changed a page that it had no business with, or left one unchanged."""
    step = operation.step if of is None else of
    layer, block = map(int, np.argwhere((actual != judge.shadow).any(axis=2))[0])
    owners = judge.ledger.owners.get(block)
    kind = "wrong position" if owners else "use after free"
    if operation.kind == "forward" and owners:
        batch = operation.about["batch"]
        kind = "wrong position" if {o.request for o in owners} & {*batch.requests} else "cross-request copy"
    return _make(
        judge,
        operation,
        step,
        kind,
        f"{_launch(operation, step)} on rank {judge.rank.index} left block {block} ({judge.ledger.describe(block)}) "
        "with bytes that it should not hold",
        layer=layer,
        target_block=block,
        target_owner=judge.ledger.describe(block),
    )


def unowned(judge: RankJudge, operation: Operation, of: int, copy: StateCopy, block: int) -> Violation:
    """The engine no longer lets the request have a block that its step still needs."""
    side = "from" if block == copy.source else "to"
    return _make(
        judge,
        operation,
        of,
        "uninitialised read" if block == 0 and block == copy.source else "use after free",
        f"{_launch(operation, of)} on rank {judge.rank.index} must copy {copy.request}'s state {side} block {block}, "
        f"which belongs to {judge.ledger.describe(block)} by now",
        layer=copy.entry.layer,
        group=copy.entry.group,
        source_block=copy.source,
        target_block=copy.target,
        source_owner=judge.ledger.describe(copy.source),
        target_owner=judge.ledger.describe(copy.target),
        request=copy.request,
    )


def wrong_slots(judge: RankJudge, batch: Batch, rows: Sequence[PlanRow]) -> Iterator[Violation]:
    """Per-slot numbers that differ from the request's own, just before the forward uses them."""
    rank, host = judge.rank, judge.rank.backend.to_host
    slots = rank.slots
    columns, accepted, computed = host(slots.state_idx), host(slots.num_accepted), host(slots.num_computed)
    last, total = host(slots.last_token), host(slots.total_len)
    for slot, row in zip(batch.slots, rows):
        known = row.start + row.num_tokens - row.num_drafts
        stream = judge.planner.streams[row.request]
        checks = [
            ("stale slot", "running column", columns[slot], row.column),
            ("stale slot", "num_accepted", accepted[slot], row.accepted_in_forward),
            ("rank divergence", "num_computed_tokens", computed[slot], row.start),
        ]
        if row.previous is not None and row.previous.num_sampled:
            checks.append(("rank divergence", "token count", total[slot], known))
            checks.append(("rank divergence", "last token", last[slot], stream.slice(known - 1, known)[0]))
        for kind, name, got, expected in checks:
            if int(got) != int(expected):
                yield Violation(
                    kind=kind,
                    rank=rank.index,
                    launch="forward",
                    step=row.step,
                    during=row.step,
                    request=row.request,
                    explanation=f"rank {rank.index} holds {name} {int(got)} for {row.request} at step {row.step}; "
                    f"the request's own value is {int(expected)}",
                )


def unzeroed(judge: RankJudge, operation: Operation) -> Iterator[Violation]:
    """Newly allocated attention blocks must be zero when their first forward starts (vLLM #56524)."""
    step = judge.planner.plans[operation.step].step
    copied = {target for _, target in step.copies}
    for block in judge.fresh_attention:
        if block in copied or not judge.shadow[:, block].any():
            continue
        layer = int(np.flatnonzero(judge.shadow[:, block].any(axis=1))[0])
        source = judge.ledger.describe(block)
        found = _kv_provenance(judge, layer, block)
        kind = "use after free" if found.what in ("state", "junk") else "uninitialised read"
        yield _make(
            judge,
            operation,
            operation.step,
            kind,
            f"attention block {block} ({source}) is not zero when step {operation.step} first uses it on rank "
            f"{judge.rank.index}: it holds {found}",
            layer=layer,
            target_block=block,
            target_owner=source,
            bytes_of=str(found),
        )


def _kv_provenance(judge: RankJudge, layer: int, block: int) -> Provenance:
    decoder = Decoder(judge.planner, judge.layout)
    page = judge.shadow[layer, block]
    for entry in judge.layout.states:
        if entry.layer == layer:
            found = decoder.state(page, entry)
            if found.what in ("state", "junk", "torn"):
                return found
    return Provenance("unknown")


def wrong_reads(
    judge: RankJudge, operation: Operation, rows: Sequence[PlanRow], damage: np.ndarray, before: np.ndarray
) -> Iterator[Violation]:
    """Rows whose forward read something else than the state after exactly their tokens, or foreign KV."""
    states = len(judge.layout.states)
    decoder = None
    for i, row in enumerate(rows):
        bad = np.flatnonzero(damage[i])
        if not bad.size:
            continue
        decoder = decoder or Decoder(judge.planner, judge.layout)
        index = int(bad[0])
        if index < states:
            yield _wrong_state(judge, operation, row, judge.layout.states[index], decoder, before)
        else:
            yield _wrong_kv(judge, operation, row, index - states)


def _wrong_state(
    judge: RankJudge,
    operation: Operation,
    row: PlanRow,
    entry: StateEntry,
    decoder: Decoder,
    before: np.ndarray,
) -> Violation:
    bias = row.accepted_in_forward - 1 if row.is_spec else 0
    column = row.column if entry.conv_width else row.column + bias
    block = judge.ledger.block(row.request, entry.group, column)
    found = decoder.state(before[entry.layer, block], entry, bias if entry.conv_width else 0)
    kind = {
        "poison": "uninitialised read",
        "null": "uninitialised read",
        "zero": "uninitialised read",
        "junk": "wrong position",
        "torn": "torn copy",
    }.get(found.what, "wrong position")
    if found.what == "state" and row.request not in found.requests:
        kind = "cross-request copy"
    if not judge.ledger.owns(row.request, entry.group, block):
        kind = "use after free"
    if row.first_after_hit:
        kind = "poisoned cache"
    return _make(
        judge,
        operation,
        row.step,
        kind,
        f"forward of step {row.step} on rank {judge.rank.index} needs {row.request}'s state after {row.start} tokens "
        f"in block {block}, which holds {found}",
        layer=entry.layer,
        group=entry.group,
        source_block=block,
        source_owner=judge.ledger.describe(block),
        request=row.request,
        bytes_of=str(found),
    )


def _wrong_kv(judge: RankJudge, operation: Operation, row: PlanRow, index: int) -> Violation:
    group = judge.layout.attention_groups[index // judge.layout.layers]
    layer = index % judge.layout.layers
    return _make(
        judge,
        operation,
        row.step,
        "poisoned cache" if row.first_after_hit else "cross-request copy",
        f"forward of step {row.step} on rank {judge.rank.index} reads attention KV of {row.request} that is not its "
        f"own (layer {layer}, positions 0 to {row.start - 1})",
        layer=layer,
        group=group,
        request=row.request,
    )


def diverged(judge: RankJudge, operation: Operation, row: PlanRow) -> Violation:
    """The last rank's output for a row depends on a wrong read somewhere before."""
    return _make(
        judge,
        operation,
        row.step,
        "output divergence",
        f"{row.request}'s output of step {row.step} differs from the request run alone",
        request=row.request,
    )


def wrong_cache(judge: RankJudge, hashed: Any) -> Iterator[Violation]:
    """Recurrent blocks that the prefix cache still offers at the end of the run and that hold something else."""
    layout, pages = judge.layout, judge.pages()
    decoder = Decoder(judge.planner, layout)
    pending = {
        (row.request, row.boundary.target)
        for number in judge.unconsumed
        for row in judge.planner.plans[number].rows.values()
        if row.boundary is not None
    }
    for block, cached in sorted(hashed.items()):
        group = layout.groups[cached.group]
        if group.kind != "recurrent" or cached.num_tokens % group.block_size:
            continue
        if (cached.request, cached.num_tokens // group.block_size - 1) in pending:
            continue
        for entry in layout.states:
            if entry.group != cached.group:
                continue
            found = decoder.state(pages[entry.layer, block], entry)
            expected = judge.planner.streams[cached.request].hash_at(cached.num_tokens)
            if found.what == "state" and found.tokens == cached.num_tokens:
                if any(judge.planner.streams[r].hash_at(found.tokens) == expected for r in found.requests):
                    continue
            yield Violation(
                kind="poisoned cache",
                rank=judge.rank.index,
                launch="end of run",
                step=max(judge.planner.plans, default=0),
                during=max(judge.planner.plans, default=0),
                layer=entry.layer,
                group=cached.group,
                target_block=block,
                target_owner=judge.ledger.describe(block),
                request=cached.request,
                bytes_of=str(found),
                explanation=f"block {block} is cached as {cached.request}'s state after {cached.num_tokens} tokens but "
                f"holds {found} on rank {judge.rank.index}",
            )
            break
