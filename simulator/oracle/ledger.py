"""Who owns which block, on one rank's own timeline.

The engine's steps say which blocks a request appends to its columns. Ownership changes where the rank takes a step's
frees and admissions, not when the scheduler decides; that difference is the open window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from stalerow.kernels.base.layout import Layout
from stalerow.simulator.engine.step import Step


class Owner(msgspec.Struct, frozen=True, gc=False):
    """A request's column in a group; a block may have several owners after prefix hits."""

    request: str
    group: int
    column: int

    def __str__(self) -> str:
        return f"{self.request} (group {self.group}, column {self.column})"


@dataclass(slots=True)
class Taken:
    """What taking a step's admissions changed: blocks that changed hands, per kind of group, and reuse counts."""

    recurrent: list[int] = field(default_factory=list)
    attention: list[int] = field(default_factory=list)
    reused: int = 0
    relocated: int = 0


class Ledger:
    """Ownership on one rank. `columns[request][group]` lists block ids as the engine appended them."""

    def __init__(self, layout: Layout) -> None:
        self._sizes = [group.block_size for group in layout.groups]
        self._recurrent = [group.kind == "recurrent" for group in layout.groups]
        self.columns: dict[str, list[list[int]]] = {}
        self.incarnation: dict[str, int] = {}
        self.owners: dict[int, list[Owner]] = {}
        self.ever: set[int] = set()

    def take_frees(self, step: Step) -> list[str]:
        """Requests that leave the rank at this step."""
        gone = [r for r in sorted({*step.finished, *step.preempted}) if r in self.columns]
        for request in gone:
            del self.columns[request]
        if gone:
            for block, owners in list(self.owners.items()):
                kept = [o for o in owners if o.request not in gone]
                if kept:
                    self.owners[block] = kept
                else:
                    del self.owners[block]
        return gone

    def take_admissions(self, step: Step) -> Taken:
        """New requests and appended blocks become their requests' columns."""
        taken = Taken()
        for new in step.new:
            self.columns[new.request] = [[] for _ in self._sizes]
            self.incarnation[new.request] = self.incarnation.get(new.request, 0) + 1
            for group, ids in enumerate(new.block_ids):
                hit = new.num_computed_tokens // self._sizes[group]
                self._append(new.request, group, ids, hit, taken)
        for known in step.cached:
            for group, ids in enumerate(known.new_block_ids or ()):
                if ids:
                    self._append(known.request, group, ids, 0, taken)
        return taken

    def _append(self, request: str, group: int, ids: tuple[int, ...], hit: int, taken: Taken) -> None:
        columns, recurrent = self.columns[request][group], self._recurrent[group]
        for block in ids:
            column = len(columns)
            columns.append(block)
            if block == 0:
                continue
            owner = Owner(request, group, column)
            if column < hit:
                self.owners[block] = [*self.owners.get(block, ()), owner]
            elif self.owns(request, group, block):
                taken.relocated += 1
                self.owners[block] = [owner]
            else:
                taken.reused += block in self.ever
                self.owners[block] = [owner]
                (taken.recurrent if recurrent else taken.attention).append(block)
            self.ever.add(block)

    def alive(self, request: str, incarnation: int) -> bool:
        return request in self.columns and self.incarnation.get(request) == incarnation

    def block(self, request: str, group: int, column: int) -> int:
        """Block id at a column, 0 (null) where there is none."""
        columns = self.columns[request][group]
        return columns[column] if 0 <= column < len(columns) else 0

    def owns(self, request: str, group: int, block: int) -> bool:
        return any(o.request == request and o.group == group for o in self.owners.get(block, ()))

    def describe(self, block: int) -> str:
        """The owners of a block in words."""
        if block == 0:
            return "nobody (the null block)"
        owners = self.owners.get(block)
        if not owners:
            return "nobody (a free block)"
        return " and ".join(str(o) for o in owners)
