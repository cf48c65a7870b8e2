"""What each launch was meant to do to the pool, in the request's own terms, applied to a shadow of the pool.

Copies are named by request and column; blocks come from the ledger. The shadow is NumPy on the host whatever the
kernels run on, and it is compared with the whole pool, untouched pages included.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.truth.plan import PlanRow


class StateCopy(msgspec.Struct, frozen=True):
    """One intended copy of a state tensor of one layer: block `source` to block `target`, `bias` tokens further on."""

    request: str
    entry: StateEntry
    source: int
    target: int
    bias: int


class ColumnCopy(msgspec.Struct, frozen=True):
    """An intended move of all of a request's states: column `source`, `bias` accepted tokens on, to column `target`."""

    request: str
    source: int
    bias: int
    target: int

    def target_block(self, ledger: Ledger, group: int) -> int:
        return ledger.block(self.request, group, self.target)

    def copies(self, layout: Layout, ledger: Ledger) -> Iterator[StateCopy]:
        """The same by state tensor and block: the bias selects a temporal state's column, a conv state's rows."""
        for entry in layout.states:
            column = self.source if entry.conv_width else self.source + self.bias
            yield StateCopy(
                self.request,
                entry,
                ledger.block(self.request, entry.group, column),
                self.target_block(ledger, entry.group),
                self.bias if entry.conv_width else 0,
            )


def precopy(row: PlanRow) -> ColumnCopy | None:
    """The move of the accepted state when the running column moves."""
    if row.column_before < 0 or row.column_before == row.column:
        return None
    return ColumnCopy(row.request, row.column_before, row.accepted_before - 1, row.column)


def postcopy(row: PlanRow) -> ColumnCopy | None:
    """The save of the state at a block boundary that accepted tokens crossed."""
    copy = row.boundary
    if copy is None or not copy.moves:
        return None
    return ColumnCopy(row.request, copy.source, copy.bias, copy.target)


def region(layout: Layout, entry: StateEntry) -> slice:
    """Bytes of one state inside a page."""
    return slice(entry.offset, entry.offset + entry.data_bytes)


def window(layout: Layout, entry: StateEntry, data: np.ndarray) -> np.ndarray:
    """A conv state's bytes as uint8 [width, dim, elem_size], whatever the layout in memory; a view."""
    spec = entry.spec
    if layout.conv_layout == "SD":
        return data.reshape(entry.conv_width, spec.dim, spec.elem_size)
    return data.reshape(spec.dim, entry.conv_width, spec.elem_size).transpose(1, 0, 2)


def apply_copy(layout: Layout, pages: np.ndarray, copy: StateCopy, source_pages: np.ndarray) -> None:
    """Do to `pages` what the copy means, reading from `source_pages` as they were before the launch."""
    entry, where = copy.entry, region(layout, copy.entry)
    source = source_pages[entry.layer, copy.source, where]
    target = pages[entry.layer, copy.target, where]
    if not entry.conv_width:
        target[:] = source
        return
    moved = window(layout, entry, source)[copy.bias :].copy()
    window(layout, entry, target)[: entry.conv_width - copy.bias] = moved
