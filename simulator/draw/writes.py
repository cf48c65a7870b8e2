"""What a launch left in memory, block by block: which bytes changed, whose they are, and which block had them before.

Compares two snapshots of a rank's pool, uint8 [layers, num_blocks, page_bytes], and reads the tags in the bytes.
Nothing is taken from the launch but what it was meant to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.kernels.base.memory import POISON
from stalerow.kernels.base.patterns import salt
from stalerow.simulator.draw.record import How, Move, Write
from stalerow.simulator.oracle.effect import StateCopy, region, window
from stalerow.simulator.oracle.explain.decode import Decoder, Provenance
from stalerow.simulator.oracle.ledger import Owner

NOBODY = "what the null block holds"
Owners = Mapping[int, Sequence[Owner]]


def changed_blocks(before: np.ndarray, now: np.ndarray) -> list[int]:
    """Blocks of which a byte differs on some layer."""
    return [int(b) for b in np.flatnonzero((before != now).any(axis=(0, 2)))]


def filled(blocks: Sequence[int], meant: Sequence[int], byte: int) -> tuple[Write, ...]:
    """Blocks after a fill with `byte`; those that nobody meant to fill are strays."""
    how: How = "poison" if byte == POISON else "zero"
    words = "poison" if byte == POISON else "zeros"
    named = {*meant}
    return tuple(
        Write(block=b, how=how, holds=words)
        if b in named
        else Write(block=b, how="stray", holds="bytes that nobody asked for", asked=False)
        for b in sorted({*blocks, *meant})
    )


def moves_of(copies: Sequence[StateCopy]) -> tuple[Move, ...]:
    """State copies as they were meant, once for a group's blocks where they are asked for once a state tensor."""
    seen: dict[tuple[str, int, int, int], Move] = {}
    for c in copies:
        key = c.request, c.entry.group, c.source, c.target
        bias = max(c.bias, seen[key].bias if key in seen else 0)
        seen[key] = Move(request=c.request, group=c.entry.group, source=c.source, target=c.target, bias=bias)
    return tuple(seen.values())


class Reader:
    """Reads the changed blocks of one rank's pool."""

    def __init__(self, layout: Layout, decoder: Decoder) -> None:
        self._layout, self._decoder = layout, decoder

    def pages_copied(self, now: np.ndarray, blocks: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Iterator[Write]:
        """Whole pages after `pairs` (source, target) were copied."""
        sources = {target: source for source, target in pairs}
        for block in blocks:
            yield Write(
                block=block,
                how="copy" if block in sources else "stray",
                holds=self.holds(now, block, ()),
                source=sources.get(block, -1),
                layers=self._layout.layers,
                asked=block in sources,
            )

    def states_copied(
        self, before: np.ndarray, now: np.ndarray, meant: Sequence[StateCopy], owners: Owners
    ) -> Iterator[Write]:
        """Blocks after a launch of state copies, each with the block that held its new bytes before."""
        targets = {(c.entry.group, c.target) for c in meant}
        found: dict[tuple[int, int, int, str], set[int]] = {}
        for layer, block in map(tuple, np.argwhere((before != now).any(axis=2)).tolist()):
            entry, source, holds = self._copy_into(before, now, layer, block, meant, owners)
            group = entry.group if entry is not None else -1
            found.setdefault((block, group, source, holds), set()).add(layer)
        for (block, group, source, holds), layers in found.items():
            yield Write(
                block=block,
                how="copy" if source >= 0 else "stray",
                holds=holds,
                group=group,
                source=source,
                layers=len(layers),
                asked=(group, block) in targets,
            )

    def _copy_into(
        self,
        before: np.ndarray,
        now: np.ndarray,
        layer: int,
        block: int,
        meant: Sequence[StateCopy],
        owners: Owners,
    ) -> tuple[StateEntry | None, int, str]:
        """The state that was copied into a page, the block it came from (-1: none), and whose it is."""
        changed = before[layer, block] != now[layer, block]
        asked = {c.entry: c for c in meant if c.entry.layer == layer and c.target == block}
        entries = [e for e in self._layout.states if e.layer == layer and changed[region(self._layout, e)].any()]
        groups = {o.group for o in owners.get(block, ())}
        entries.sort(key=lambda e: (e not in asked, e.group not in groups, e.conv_width > 0, -e.data_bytes))
        for entry in entries:
            copy = asked.get(entry)
            origin = self._origin(entry, block, before, now, copy, owners)
            if origin is not None:
                source, bias = origin
                return entry, source, str(self._decoder.state(before[layer, source], entry, bias))
        return None, -1, "bytes of no single block"

    def _origin(
        self,
        entry: StateEntry,
        block: int,
        before: np.ndarray,
        now: np.ndarray,
        meant: StateCopy | None,
        owners: Owners,
    ) -> tuple[int, int] | None:
        """(block, bias) whose state, shifted by bias rows, is what the page holds now.

        Equal bytes may stand in several blocks: the block that was meant comes first, then those of the target's owner.
        """
        where, layout = region(self._layout, entry), self._layout
        old, new = before[entry.layer][:, where], now[entry.layer, block][where]
        theirs = {o.request for o in owners.get(block, ()) if o.group == entry.group}
        likely = {b for b, owned in owners.items() for o in owned if o.group == entry.group and o.request in theirs}
        blocks = sorted(range(layout.num_blocks), key=lambda b: b not in likely)
        biases = range(layout.num_drafts + 1) if entry.conv_width else range(1)
        pairs = [(b, bias) for bias in biases for b in blocks]
        if meant is not None:
            pairs.insert(0, (meant.source, meant.bias))
        for candidate, bias in pairs:
            if not entry.conv_width:
                if np.array_equal(old[candidate], new):
                    return candidate, 0
                continue
            rows = window(layout, entry, new)[: entry.conv_width - bias]
            if np.array_equal(rows, window(layout, entry, old[candidate])[bias:]):
                return candidate, bias
        return None

    def forwarded(
        self, now: np.ndarray, blocks: Sequence[int], owners: Owners, batch: Sequence[str]
    ) -> Iterator[Write]:
        """Blocks after a forward of `batch`: states and KV of the requests that own them."""
        for block in blocks:
            owned = owners.get(block, ())
            group = owned[0].group if owned else -1
            kind = self._layout.groups[group].kind if owned else ""
            asked = any(o.request in batch for o in owned)
            how: How = "kv" if kind == "attention" else "state" if kind else "pad" if block == 0 else "stray"
            yield Write(
                block=block,
                how=how,
                holds=self.holds(now, block, owned),
                group=group,
                layers=self._layout.layers,
                asked=asked,
            )

    def holds(self, pages: np.ndarray, block: int, owned: Sequence[Owner]) -> str:
        """Whose bytes a block holds on its first layer, read as its owner's group reads them."""
        groups = [o.group for o in owned] or [*self._layout.recurrent_groups]
        page = pages[0, block]
        for group in groups:
            if self._layout.groups[group].kind == "attention":
                return self._kv(page, group)
            state = self._state(page, group)
            if state is not None:
                return str(state)
        return NOBODY if block == 0 else "damaged or unknown bytes"

    def _state(self, page: np.ndarray, group: int) -> Provenance | None:
        entries = [e for e in self._layout.states if e.group == group and e.layer == 0]
        entries.sort(key=lambda e: e.conv_width > 0)
        entry = entries[0]
        biases = range(self._layout.num_drafts, -1, -1) if entry.conv_width else range(1)
        read = [self._decoder.state(page, entry, bias) for bias in biases]
        return next((p for p in read if p.what == "state"), read[-1])

    def _kv(self, page: np.ndarray, group: int) -> str:
        spec = self._layout.groups[group]
        rows = page[: spec.block_size * spec.kv_bytes].reshape(spec.block_size, spec.kv_bytes)
        tags = [self._decoder.row(row, salt(group, 0, 0)) for row in rows]
        good = [t for t in tags if t.what == "state"]
        if not good:
            return str(tags[0])
        return f"KV of {' / '.join(good[-1].requests)}, positions {good[0].tokens - 1} to {good[-1].tokens - 1}"
