"""From a wrong copy to a named violation: what was meant, what happened, whose bytes went where.

Asked only when a launch's result differs. Everything is found from the pool's bytes, the plan and the
ledger; the rank's tables only say, in words, which row a block was taken from and which step a gathered table held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stalerow.kernels.base.layout import StateEntry
from stalerow.simulator.oracle.effect import StateCopy, region, window
from stalerow.simulator.oracle.explain.decode import Decoder
from stalerow.simulator.oracle.explain.evidence import Evidence
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.explain.wording import copying_row, launch, stray_write, violation
from stalerow.simulator.oracle.kinds import Kind
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.operations import Copying


def wrong_copy(
    evidence: Evidence,
    operation: Copying,
    copies: Sequence[StateCopy],
    before: np.ndarray,
    actual: np.ndarray,
) -> Iterator[Violation]:
    """Violations of a copy launch whose result differs from what it was meant to do."""
    ledger = evidence.ledger
    wrong = np.argwhere((actual != evidence.wanted).any(axis=2))
    intended = _intended(evidence, copies, actual)
    missing = [c for c in copies if _unchanged(evidence, c, before, actual)]
    done: set[tuple[int, int]] = set()
    for layer, block in (map(int, pair) for pair in wrong):
        meant = intended.get((layer, block))
        found = _source(evidence, layer, block, before, actual, -1 if meant is None else meant.source)
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
        yield _copied_wrongly(evidence, operation, meant, source, block, entry, bias, before)
    if not done and missing:
        first = missing[0]
        made = len({(c.entry.group, c.entry.layer, c.entry.state) for c in copies if c not in missing})
        kind: Kind = "torn copy" if made else "wrong position"
        yield violation(
            evidence.rank,
            operation,
            kind,
            f"{launch(operation)} on rank {evidence.rank} left out {len(missing)} of "
            f"{counted(len(copies), 'copy', 'copies')}: {first.request}'s {_state(first.entry)} should have gone "
            f"from block {first.source} to block {first.target}",
            layer=first.entry.layer,
            group=first.entry.group,
            source_block=first.source,
            target_block=first.target,
            source_owner=ledger.describe(first.source),
            target_owner=ledger.describe(first.target),
            request=first.request,
        )
    elif not done:
        yield stray_write(evidence, operation, actual)


def _intended(evidence: Evidence, copies: Sequence[StateCopy], actual: np.ndarray) -> dict[tuple[int, int], StateCopy]:
    """(layer, block) to the copy that should have made it what it is not; one whose own bytes are wrong, if any is."""
    chosen: dict[tuple[int, int], StateCopy] = {}
    for copy in copies:
        page, where = (copy.entry.layer, copy.target), region(evidence.layout, copy.entry)
        if page not in chosen or not np.array_equal(actual[page][where], evidence.wanted[page][where]):
            chosen[page] = copy
    return chosen


def _copied_wrongly(
    evidence: Evidence,
    operation: Copying,
    meant: StateCopy | None,
    source: int,
    block: int,
    entry: StateEntry | None,
    bias: int,
    before: np.ndarray,
) -> Violation:
    ledger, rank = evidence.ledger, evidence.rank
    bytes_of = ""
    if entry is not None and source >= 0:
        bytes_of = str(Decoder(evidence.planner, evidence.layout).state(before[entry.layer, source], entry, bias))
    where = f"block {block} ({ledger.describe(block)})"
    if source >= 0:
        shifted = f", shifted by {counted(bias, 'row')}," if bias else ""
        what = f"block {source} ({ledger.describe(source)}){shifted}"
        text = f"{launch(operation)} on rank {rank} copied {what} to {where}"
        text += _meaning(meant, source, block, entry, bias)
    else:
        text = f"{launch(operation)} on rank {rank} left {where} with bytes of no single block"
        text += _wanted(meant)
    row = copying_row(evidence, operation, entry.group, source, block) if entry is not None and source >= 0 else ""
    if row:
        text += f"; looked up in {row}"
    gathered = evidence.gathered_step
    late = operation.step != operation.batch_step and gathered not in (None, operation.batch_step)
    if late and not evidence.by_slot:
        text += f", and the gathered table held step {gathered} by then"
    return violation(
        evidence.rank,
        operation,
        _copy_kind(evidence, meant, source, block),
        text,
        layer=entry.layer if entry else -1,
        group=entry.group if entry else -1,
        source_block=source,
        target_block=block,
        source_owner=ledger.describe(source) if source >= 0 else "",
        target_owner=ledger.describe(block),
        request=meant.request if meant else "",
        bytes_of=bytes_of,
    )


def _meaning(meant: StateCopy | None, source: int, block: int, entry: StateEntry | None, bias: int) -> str:
    """How what was meant differs from what was done."""
    if meant is None:
        return "; no copy between them was meant"
    if (source, block) != (meant.source, meant.target):
        return f"; it was meant to copy {meant.request}'s block {meant.source} to block {meant.target}"
    if entry is not None and entry.conv_width and bias != meant.bias:
        return f"; {meant.request}'s window was meant to be shifted by {counted(meant.bias, 'row')}"
    return f", as it was meant to, but changed other bytes than {meant.request}'s {_state(meant.entry)}"


def _wanted(meant: StateCopy | None) -> str:
    if meant is None:
        return "; nothing was to be copied there"
    shifted = f", shifted by {counted(meant.bias, 'row')}" if meant.bias else ""
    return f"; {meant.request}'s {_state(meant.entry)} was to be copied there from block {meant.source}{shifted}"


def _state(entry: StateEntry) -> str:
    return f"{entry.spec.kind} state {entry.state} (group {entry.group}, layer {entry.layer})"


def _copy_kind(evidence: Evidence, meant: StateCopy | None, source: int, block: int) -> Kind:
    """A copy crosses requests if no owner of the one block owns the other, or if either is not the request's own."""
    owners = evidence.ledger.owners
    at_source = {o.request for o in owners.get(source, ())}
    at_target = {o.request for o in owners.get(block, ())}
    if meant is not None and at_source and meant.request not in at_source:
        return "cross-request copy"
    if block == 0:
        return "null block write"
    if not at_target:
        return "use after free"
    if meant is not None and meant.request not in at_target:
        return "cross-request copy"
    if source == 0:
        return "uninitialised read"
    if source < 0:
        return "torn copy"
    if not at_source:
        return "use after free"
    return "wrong position" if at_source & at_target else "cross-request copy"


def _unchanged(evidence: Evidence, copy: StateCopy, before: np.ndarray, actual: np.ndarray) -> bool:
    """Whether the target still holds what it held, though the copy should have changed it."""
    where = region(evidence.layout, copy.entry)
    page = (copy.entry.layer, copy.target)
    now = actual[page][where]
    return np.array_equal(now, before[page][where]) and not np.array_equal(now, evidence.wanted[page][where])


def _source(
    evidence: Evidence, layer: int, block: int, before: np.ndarray, actual: np.ndarray, meant: int
) -> tuple[int, StateEntry, int] | None:
    """(source block, state, bias) of what changed a page: a block that held the page's new bytes before the launch.

    States of several groups overlap in a page, so those of the group that owns the block go first, then the largest
    state that is explained; temporal ones before others, since they are copied whole.
    """
    changed = (actual[layer, block] != before[layer, block]) & (actual[layer, block] != evidence.wanted[layer, block])
    if not changed.any():
        return None
    entries = [e for e in evidence.layout.states if e.layer == layer and changed[region(evidence.layout, e)].any()]
    groups = {owner.group for owner in evidence.ledger.owners.get(block, ())}
    for entry in sorted(entries, key=lambda e: (e.group not in groups, e.conv_width > 0, -e.data_bytes)):
        found = _origin(evidence, entry, block, before, actual, meant)
        if found is not None:
            return found[0], entry, found[1]
    return None


def _origin(
    evidence: Evidence, entry: StateEntry, block: int, before: np.ndarray, actual: np.ndarray, meant: int
) -> tuple[int, int] | None:
    """(block, bias) whose state, shifted by bias rows, is what the page holds now; the block that was meant, if any."""
    layout, where = evidence.layout, region(evidence.layout, entry)
    now, pages = actual[entry.layer, block][where], before[entry.layer][:, where]
    hits = []
    if not entry.conv_width:
        hits = [(int(found), 0) for found in np.flatnonzero((pages == now).all(axis=1))]
    else:
        new = window(layout, entry, now)
        windows = np.stack([window(layout, entry, page) for page in pages])
        for bias in range(layout.num_drafts + 1):
            same = (windows[:, bias:] == new[: entry.conv_width - bias]).all(axis=(1, 2, 3))
            hits += [(int(found), bias) for found in np.flatnonzero(same)]
    return next((hit for hit in hits if hit[0] == meant), hits[0] if hits else None)


def unowned(evidence: Evidence, operation: Copying, copy: StateCopy, block: int) -> Violation:
    """The engine no longer lets the request have a block that its step still needs."""
    side = "from" if block == copy.source else "to"
    kind: Kind = "use after free"
    if block == 0:
        kind = "uninitialised read" if block == copy.source else "null block write"
    return violation(
        evidence.rank,
        operation,
        kind,
        f"{launch(operation)} on rank {evidence.rank} must copy {copy.request}'s state {side} block {block}, "
        f"which belongs to {evidence.ledger.describe(block)} by now",
        layer=copy.entry.layer,
        group=copy.entry.group,
        source_block=copy.source,
        target_block=copy.target,
        source_owner=evidence.ledger.describe(copy.source),
        target_owner=evidence.ledger.describe(copy.target),
        request=copy.request,
    )
