"""Which blocks a launch touched, before and after it, and who owns the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from stalerow.simulator.draw.finding import Finding, ownership
from stalerow.simulator.draw.record import Executed, Owner, Record, Write

NEVER = "never written"


def before_and_after(record: Record, found: Finding) -> Table:
    """The blocks that were written, read and meant: their owners, and what they held before and after."""
    assert found.event is not None
    assert isinstance(found.event.what, Executed)
    rank, number = found.event.rank, found.event.number
    owners, before = ownership(record, number)[rank], held(record, rank, number - 1)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("block", "group, column", "before", "after"):
        table.add_column(name, overflow="fold")
    writes = {w.block: w for w in found.event.what.writes}
    read = {w.source for w in writes.values() if w.source >= 0}
    meant = {m.target for m in found.event.what.meant}
    for block in sorted(({*writes} | read | meant) - {-1}):
        write = writes.get(block)
        said = "!" if write is not None and not write.asked else "read" if block in read and write is None else ""
        said = "meant" if write is None and block in meant else said
        after = short(write) if write is not None else "unchanged"
        style = "red" if said == "!" else ""
        shown = Text(f"{block} {said}".rstrip(), style=style)
        table.add_row(shown, named(owners.get(block, ())), before.get(block, NEVER), after)
    return table


def owners_line(record: Record, found: Finding) -> Text:
    """All blocks of the rank by owner, on a line each."""
    assert found.event is not None
    owners = ownership(record, found.event.number)[found.event.rank]
    by_request: dict[str, list[int]] = {}
    for block, owned in sorted(owners.items()):
        by_request.setdefault("+".join(dict.fromkeys(o.request for o in owned)), []).append(block)
    by_request.pop("", None)
    taken = {block for blocks in by_request.values() for block in blocks}
    by_request["free"] = [b for b in range(1, record.num_blocks) if b not in taken]
    listed = "; ".join(f"{name} {ranges(blocks)}" for name, blocks in by_request.items() if blocks)
    return Text(f"blocks of rank {found.event.rank}: {listed}")


def held(record: Record, rank: int, until: int) -> dict[int, str]:
    """What each block of a rank held after event `until`, in words."""
    holds: dict[int, str] = {}
    for event in record.events[:until]:
        if event.rank == rank and isinstance(event.what, Executed):
            holds |= {write.block: short(write) for write in event.what.writes}
    return holds


def short(write: Write) -> str:
    """A write's bytes in few words."""
    return write.holds.removeprefix("a ").removesuffix(" (never written since the block changed hands)")


def named(owners: Sequence[Owner]) -> str:
    """Owners of a block: request, group and column."""
    return " and ".join(f"{o.request} g{o.group} c{o.column}" for o in owners) or "nobody"


def ranges(blocks: Iterable[int]) -> str:
    """Sorted block ids with runs joined: 1-4 7 9-10."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][1] + 1:
            runs[-1][1] = block
        else:
            runs.append([block, block])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
