"""From a wrong number to a named violation: what a launch left in a slot or among indices, what a forward finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from stalerow.simulator.oracle.expected import Held, before_forward
from stalerow.simulator.oracle.explain.evidence import Evidence
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.explain.wording import launch, violation
from stalerow.simulator.oracle.kinds import Kind
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.slots import WrongNumber
from stalerow.simulator.oracle.tables import WrongEntry
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.base import Rank
from stalerow.simulator.rank.batch import Batch
from stalerow.simulator.rank.operations import Indices, Operation, PostUpdate
from stalerow.simulator.truth.plan import Planner, PlanRow

TOLD: dict[str, tuple[Kind, str]] = {
    "state_idx": ("stale slot", "running column"),
    "num_accepted": ("stale slot", "num_accepted"),
    "num_computed": ("rank divergence", "num_computed_tokens"),
    "total_len": ("rank divergence", "token count"),
    "last_token": ("rank divergence", "last token"),
    "token_ids": ("rank divergence", "token"),
    "src_col": ("wrong position", "source column"),
    "src_off": ("wrong position", "source offset"),
}
"""How each array is called, and which kind of violation a wrong number in it is."""


def wrong_number(rank: int, operation: Operation, wrong: WrongNumber) -> Violation:
    """A launch has left another number than the request's own, or changed one that it was not to touch."""
    kind, name = TOLD[wrong.name]
    if not wrong.meant:
        what = f"{launch(operation)} on rank {rank} changed {name} of {wrong.request}, in slot {wrong.slot}, from "
        text = f"{what}{wrong.wanted} to {wrong.got}"
    elif isinstance(operation, PostUpdate):
        text = f"the output of step {operation.output.of} for {wrong.request} on rank {rank} left {name} {wrong.got}"
    else:
        text = f"{launch(operation)} on rank {rank} left {name} {wrong.got} for {wrong.request}"
    if wrong.meant:
        text += f"; the request's own value is {wrong.wanted}"
    return violation(rank, operation, kind, text, request=wrong.request)


def wrong_entry(rank: int, operation: Operation, wrong: WrongEntry) -> Violation:
    """A launch has left another entry in a table than it was to, or changed one that it was not to touch."""
    where = f"{wrong.array}, row {wrong.row}, column {wrong.column}"
    if wrong.array == "lengths":
        where = f"the length of row {wrong.column}"
    whose = f" ({wrong.request})" if wrong.request else ""
    did = "left" if wrong.meant else "changed"
    text = f"{launch(operation)} on rank {rank} {did} {where}{whose}: {wrong.got} where it is to be {wrong.wanted}"
    return violation(rank, operation, "wrong position", text, request=wrong.request)


def wrong_slots(
    rank: int,
    held: Held,
    planner: Planner,
    batch: Batch,
    rows: Sequence[PlanRow],
    told: Collection[tuple[str, str]],
) -> Iterator[Violation]:
    """Numbers that differ from the request's own just before the forward uses them, `told` (request, array) apart."""
    for slot, row in zip(batch.slots, rows):
        meant = before_forward(planner, row)
        checks = {"state_idx": row.column, "num_accepted": row.accepted_in_forward, "num_computed": meant.num_computed}
        if meant.total_len is not None and meant.last_token is not None:
            checks |= {"total_len": meant.total_len, "last_token": meant.last_token}
        for array, expected in checks.items():
            got = int(getattr(held, array)[slot])
            if got == expected or (row.request, array) in told:
                continue
            kind, name = TOLD[array]
            yield Violation(
                kind=kind,
                rank=rank,
                launch="forward",
                step=row.step,
                during=row.step,
                request=row.request,
                explanation=f"rank {rank} holds {name} {got} for {row.request} at step {row.step}; "
                f"the request's own value is {expected}",
            )


def wrong_indices(
    rank: Rank, ledger: Ledger, evidence: Callable[[], Evidence], operation: Indices, rows: Sequence[PlanRow]
) -> Iterator[Violation]:
    """State indices that name another block than the request's own, though the gathered table has the right one.

    Asks for evidence only once it has found one.
    """
    host, places = rank.backend.to_host, {request: i for i, request in enumerate(operation.batch.requests)}
    indices = host(rank.state_indices)
    for row in rows:
        i = places[row.request]
        for index, group in enumerate(rank.layout.recurrent_groups):
            own = ledger.columns[row.request][group][row.column : row.column + indices.shape[2]]
            named = indices[index, i, : len(own)].tolist()
            if named == own:
                continue
            gathered = host(rank.tables.gathered[group])[i, row.column : row.column + len(own)]
            if gathered.tolist() == own:
                span = next(j for j, (block, mine) in enumerate(zip(named, own)) if block != mine)
                yield _named_wrongly(evidence(), operation, row, group, i, span)


def _named_wrongly(
    evidence: Evidence, operation: Indices, row: PlanRow, group: int, index: int, span: int
) -> Violation:
    ledger = evidence.ledger
    block = int(evidence.state_indices[evidence.layout.recurrent_groups.index(group), index, span])
    own = ledger.columns[row.request][group][row.column + span]
    owners = {o.request for o in ledger.owners.get(block, ())}
    kind: Kind = "wrong position" if row.request in owners else "cross-request copy" if owners else "use after free"
    return violation(
        evidence.rank,
        operation,
        "uninitialised read" if block == 0 else kind,
        f"{launch(operation)} on rank {evidence.rank} names block {block} ({ledger.describe(block)}) for row {index} "
        f"({row.request}) after {counted(span, 'draft')}; its own is block {own}",
        group=group,
        source_block=block,
        source_owner=ledger.describe(block),
        request=row.request,
    )
