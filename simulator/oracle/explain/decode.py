"""Whose bytes are these? Provenance of state and KV bytes, asked only once something is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.kernels.base.memory import NULL_POISON, POISON
from stalerow.kernels.base.patterns import decode, salt
from stalerow.simulator.oracle.effect import region, window
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.truth.plan import Planner

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a piece of memory holds. `what`: state, junk, KV, poison, null, zero, torn or unknown.

    tokens: those that a state has absorbed; the position of junk and of KV.
    """

    what: str
    requests: tuple[str, ...] = ()
    tokens: int = 0

    def __str__(self) -> str:
        if self.what == "state":
            return f"{' / '.join(self.requests)} after {counted(self.tokens, 'token')}"
        if self.what == "KV":
            return f"attention KV of {' / '.join(self.requests)} (position {self.tokens})"
        if self.what == "junk":
            return f"a rejected draft of {self.requests[0]} (position {self.tokens})"
        return {
            "poison": "poison (never written since the block changed hands)",
            "null": "what the null block holds",
            "zero": "zeros",
            "torn": "a torn mixture",
        }.get(self.what, "damaged or unknown bytes")


class Decoder:
    """Maps hashes back to (request, tokens). Built from the streams as far as the run has come."""

    def __init__(self, planner: Planner, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[int, tuple[list[str], int]] = {}
        for name, stream in planner.streams.items():
            for tokens, value in enumerate(stream.hashes):
                owners, _ = self._known.setdefault(value, ([], tokens))
                owners.append(name)
        self._junk: dict[int, tuple[str, int]] = {}
        for plan in planner.plans.values():
            for row in plan.rows.values():
                if row.num_rejected:
                    good = row.start + row.num_tokens - row.num_rejected
                    for j, value in enumerate(planner.hashes(row)[good + 1 :]):
                        self._junk[value] = (row.request, good + 1 + j)

    def row(self, data: np.ndarray, row_salt: int) -> Provenance:
        """Provenance of one tagged row of bytes."""
        data = np.ascontiguousarray(data)
        if (data == POISON).all():
            return Provenance("poison")
        if (data == NULL_POISON).all():
            return Provenance("null")
        if not data.any():
            return Provenance("zero")
        value, mismatches = decode(data, row_salt)
        value &= _MASK
        if mismatches:
            return Provenance("torn")
        if value in self._known:
            owners, tokens = self._known[value]
            return Provenance("state", tuple(owners), tokens)
        if value in self._junk:
            request, tokens = self._junk[value]
            return Provenance("junk", (request,), tokens)
        return Provenance("unknown")

    def kv(self, page: np.ndarray, group: int, layer: int) -> Provenance:
        """The first token in a page whose attention KV is some request's."""
        spec, key = self._layout.groups[group], salt(group, layer, 0)
        for row in page[: spec.block_size * spec.kv_bytes].reshape(spec.block_size, spec.kv_bytes):
            found = self.row(row, key)
            if found.what == "state":
                return Provenance("KV", found.requests, found.tokens - 1)
        return Provenance("unknown")

    def state(self, page: np.ndarray, entry: StateEntry, bias: int = 0) -> Provenance:
        """Provenance of one state in a page; a conv window is read `bias` rows in."""
        data = np.ascontiguousarray(page[region(self._layout, entry)])
        key = salt(entry.group, entry.layer, entry.state)
        if not entry.conv_width:
            return self.row(data, key)
        rows = window(self._layout, entry, data)[bias : bias + self._layout.window]
        found = [self.row(r.reshape(-1), key) for r in rows]
        last = found[-1]
        if last.what != "state":
            return last
        for back, item in enumerate(reversed(found)):
            expected = last.tokens - back
            if expected <= 0:
                continue
            if item.what != "state" or item.tokens != expected or not {*item.requests} & {*last.requests}:
                return Provenance("torn")
        return last
