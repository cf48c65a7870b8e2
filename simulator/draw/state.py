"""The state of a simulation in plain lines: tables, slots, rows and blocks of every rank as they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stalerow.simulator.oracle.ledger import Ledger
    from stalerow.simulator.rank.base import Rank
    from stalerow.simulator.run.simulation import Simulation

VALUES = ("state_idx", "num_accepted", "num_computed", "total_len")


def state(simulation: Simulation) -> list[str]:
    """Everything that a copy kernel could look up at this moment, and who owns what by the oracle's ledger.

    One text for the engine, then one for each rank.
    """
    engine = simulation.engine
    core = engine.core
    waiting = ", waiting for the oldest step's output" if engine.awaited else ""
    parts = [f"engine   {engine.steps} steps scheduled, in flight {list(core.inflight)}{waiting}"]
    for rank, judge in zip(simulation.ranks, simulation.judges):
        parts.append("\n".join(_rank(rank, judge.ledger)))
    return parts


def _rank(rank: Rank, ledger: Ledger) -> Iterator[str]:
    pending: dict[int, list[str]] = {}
    for operation in rank.queue.pending():
        pending.setdefault(operation.step, []).append(operation.kind)
    yield f"rank {rank.index}   device has to do: {'nothing' if not pending else ''}".rstrip()
    for step, kinds in pending.items():
        yield f"    step {step}: {', '.join(kinds)}"
    if rank.inbox:
        yield f"    host has to take steps {', '.join(str(s.number) for s in rank.inbox)}"
    host = rank.backend.to_host
    names = {rank.slot_index(r): r for r in ledger.columns if rank.slot_index(r) is not None}
    values = {name: host(getattr(rank.slots, name)) for name in VALUES}
    persistent = [host(t) for t in rank.tables.persistent]
    counts = host(rank.tables.num_blocks)
    for slot in range(rank.max_reqs):
        if slot not in names:
            continue
        numbers = ", ".join(f"{name} {int(values[name][slot])}" for name in VALUES)
        yield f"  slot {slot} {names[slot]}: {numbers}"
        yield f"    table   {_rows([t[slot, : counts[g, slot]] for g, t in enumerate(persistent)])}"
    gathered = [host(t) for t in rank.tables.gathered]
    yield f"  gathered table: {'never' if rank.gathered_step is None else f'batch of step {rank.gathered_step}'}"
    for row in range(rank.max_reqs):
        if any(t[row].any() for t in gathered):
            yield f"    row {row}   {_rows([_trimmed(t[row]) for t in gathered])}"
    yield "  blocks by owner (request: one list of columns per group)"
    for request, columns in sorted(ledger.columns.items()):
        yield f"    {request}: {_rows(columns)}"


def _trimmed(row: Any) -> Sequence[int]:
    used = row.nonzero()[0]
    trimmed: Sequence[int] = row[: used[-1] + 1] if used.size else row[:0]
    return trimmed


def _rows(groups: Sequence[Any]) -> str:
    return " | ".join(" ".join(str(int(b)) for b in blocks) or "-" for blocks in groups)
