"""Violations of the engine's own worker in words: what was found, what should be there, and whose bytes they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.kernels.base.patterns import salt
from stalerow.simulator.oracle.effect import ColumnCopy
from stalerow.simulator.oracle.explain.decode import Decoder, Provenance
from stalerow.simulator.oracle.ledger import Ledger
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.truth.plan import Planner, PlanRow
from stalerow.simulator.worker.inside.metadata import Batch

ROOT_KINDS = {"poison": "uninitialised read", "null": "uninitialised read", "zero": "uninitialised read"}


@dataclass(frozen=True)
class Explainer:
    """Makes the violations of rank `index`. `pages` are as they should be; `numbers` are the worker's for a request."""

    index: int
    layout: Layout
    planner: Planner
    ledger: Ledger
    pages: np.ndarray
    numbers: Callable[[str], dict[str, int] | None]

    def _made(self, **fields: object) -> Violation:
        return Violation(rank=self.index, **fields)  # type: ignore[arg-type]

    def _decoder(self) -> Decoder:
        return Decoder(self.planner, self.layout)

    def _when(self, launch: str, of: int, during: int) -> str:
        when = f"{launch} of step {of}" + (f" during step {during}" if during != of else "")
        return f"{when} on rank {self.index}"

    def wrong_memory(
        self,
        launch: str,
        of: int,
        during: int,
        by: str,
        wanted: np.ndarray,
        actual: np.ndarray,
        copies: Sequence[ColumnCopy],
    ) -> Violation:
        """Pages differ from what the launch was meant to leave.

        A block that a copy hit though nobody asked for it says more than the one that was left without it, and a state
        that it holds now more than a part of it that nobody ever wrote.
        """
        ledger = self.ledger
        differing = np.argwhere(wanted != actual)
        targets = self._targets(copies)
        hit = [place for place in differing if targets and int(place[1]) not in targets]
        layer, block, byte = self._telling(actual, hit or differing)
        left = [targets[int(b)] for b in differing[:, 1] if int(b) in targets]
        worked_for = next(iter([*left, *targets.values()]), "") if hit else ""
        found, entry = self._content(actual[layer, block], layer, block, byte)
        meant, _ = self._content(wanted[layer, block], layer, block, byte)
        owners = ledger.owners.get(block, [])
        names = {owner.request for owner in owners}
        untouched = np.array_equal(actual[layer, block], self._earlier(layer, block))
        missing = block in targets and not untouched
        strays = worked_for and worked_for not in names
        foreign = found.what == "state" and not names & {*found.requests}
        if names and (strays or foreign):
            kind = "cross-request copy"
        elif not owners:
            kind = "use after free"
        elif found.what == "torn":
            kind = "torn copy"
        elif found.what in ROOT_KINDS and not missing:
            kind = ROOT_KINDS[found.what]
        else:
            kind = "wrong position"
        text = (
            f"{self._when(launch, of, during)} ({by}) leaves block {block} of {ledger.describe(block)} "
            f"holding {found}; it was meant to hold {meant}"
        )
        if worked_for:
            text += f"; the copy was to be one of {worked_for}'s"
        return self._made(
            kind=kind,
            launch=launch,
            step=of,
            during=during,
            deferred=of != during,
            layer=layer,
            group=entry.group if entry else -1,
            target_block=block,
            target_owner=ledger.describe(block),
            request=worked_for,
            bytes_of=str(found),
            explanation=text,
        )

    def _targets(self, copies: Sequence[ColumnCopy]) -> dict[int, str]:
        """The request that each block was to be written for."""
        return {c.target_block(self.ledger, e.group): c.request for c in copies for e in self.layout.states}

    def _earlier(self, layer: int, block: int) -> np.ndarray:
        page: np.ndarray = self.pages[layer, block]
        return page

    def _telling(self, actual: np.ndarray, places: Sequence[np.ndarray] | np.ndarray) -> tuple[int, int, int]:
        """Of differing (layer, block, byte) the first in a part that holds somebody's state; else the first of all."""
        parts: dict[tuple[int, int, StateEntry | None], tuple[int, int, int]] = {}
        for layer, block, byte in (tuple(map(int, place)) for place in places):
            parts.setdefault((layer, block, self._part(layer, block, byte)), (layer, block, byte))
        for (layer, block, entry), place in parts.items():
            if entry is not None and self._decoder().state(actual[layer, block], entry).what == "state":
                return place
        return next(iter(parts.values()))

    def _groups(self, block: int) -> list[int]:
        """The groups that a block's page is seen as one of."""
        return [o.group for o in self.ledger.owners.get(block, [])] or list(self.layout.recurrent_groups)

    def _part(self, layer: int, block: int, byte: int) -> StateEntry | None:
        """The state that a byte of a page belongs to; None if it is none's, or a key's."""
        for group in self._groups(block):
            if self.layout.groups[group].kind == "attention":
                return None
            for entry in self.layout.states:
                if (entry.group, entry.layer) == (group, layer) and 0 <= byte - entry.offset < entry.data_bytes:
                    return entry
        return None

    def _content(self, page: np.ndarray, layer: int, block: int, byte: int) -> tuple[Provenance, StateEntry | None]:
        """Whose bytes the part of a page around `byte` is, seen as its owners' kind of page."""
        entry = self._part(layer, block, byte)
        if entry is not None:
            return self._decoder().state(page, entry), entry
        group = next((g for g in self._groups(block) if self.layout.groups[g].kind == "attention"), None)
        if group is None:
            return Provenance("unknown"), None
        size = self.layout.groups[group].kv_bytes
        start = byte // size * size
        return self._decoder().row(page[start : start + size], salt(group, layer, 0)), None

    def no_slot(self, row: PlanRow, of: int, during: int) -> Violation:
        return self._made(
            kind="stale slot",
            launch="postprocess",
            step=of,
            during=during,
            deferred=of != during,
            request=row.request,
            explanation=f"{self._when('postprocess', of, during)}: {row.request} has no slot, though it is running",
        )

    def wrong_number(self, row: PlanRow, of: int, during: int, name: str, found: int, wanted: int) -> Violation:
        return self._made(
            kind="rank divergence",
            launch="postprocess",
            step=of,
            during=during,
            deferred=of != during,
            request=row.request,
            explanation=(
                f"after {self._when('postprocess', of, during)}, {name} of {row.request} is {found}; "
                f"it should be {wanted}"
            ),
        )

    def batch(self, during: int, requests: tuple[str, ...], batch: Batch) -> Iterator[Violation]:
        """Counts, columns and slots that the layers get, against the plan."""
        for i, request in enumerate(requests):
            row = self.planner.plans[during].rows[request]
            tokens = int(batch.query_start_loc[i + 1] - batch.query_start_loc[i])
            found = {"tokens": tokens, "seq_len": int(batch.seq_lens[i])}
            wanted = {"tokens": row.num_tokens, "seq_len": row.start + row.num_tokens}
            numbers = self.numbers(request)
            if numbers is not None:
                found["state_idx"], wanted["state_idx"] = numbers["state_idx"], row.column
            if batch.is_spec[i] and row.is_spec and row.start:
                found["num_accepted"], wanted["num_accepted"] = int(batch.accepted[i]), row.accepted_in_forward
            for name, value in found.items():
                if value != wanted[name]:
                    yield self._forward(
                        "wrong position", during, request, f"gets {name} {value}; it should be {wanted[name]}"
                    )
            # One token after a state that is all accepted: both kinds of row start and end in the running column.
            either = not row.num_drafts and row.accepted_in_forward == 1
            if bool(batch.is_spec[i]) != row.is_spec and not either:
                ran, should = ("verification", "plain") if batch.is_spec[i] else ("plain", "verification")
                yield self._forward(
                    "wrong position",
                    during,
                    request,
                    f"runs as a {ran} row; {row.num_drafts} of its {row.num_tokens} tokens are drafts, so it should "
                    f"run as a {should} row",
                )
            yield from self._starts(during, row, batch, i)
        yield from self._slot_mapping(during, requests, batch)

    def _starts(self, during: int, row: PlanRow, batch: Batch, i: int) -> Iterator[Violation]:
        for g, reads in enumerate(batch.reads[:, i].tolist()):
            if reads == (row.start > 0) or (batch.is_spec[i] and not row.start):
                continue
            told = "start from a state in memory, though it has none" if reads else "start from nothing"
            kind = "uninitialised read" if reads else "wrong position"
            text = f"after {row.start} tokens is told to {told} (recurrent group {g})"
            yield self._forward(kind, during, row.request, text)
            return

    def _slot_mapping(self, during: int, requests: tuple[str, ...], batch: Batch) -> Iterator[Violation]:
        """Where attention writes its tokens, against where its own table says it reads them."""
        for group in self.layout.attention_groups:
            size, mapping, table = self.layout.groups[group].block_size, batch.slot_mapping[group], batch.tables[group]
            assert mapping is not None
            assert table is not None
            for i, request in enumerate(requests):
                first, last = batch.query_start_loc[i : i + 2].tolist()
                position = int(batch.seq_lens[i]) - (last - first) + np.arange(last - first)
                wanted = table[i, position // size].astype(np.int64) * size + position % size
                if not np.array_equal(mapping[first:last], wanted):
                    text = f"writes keys to slots {mapping[first:last].tolist()}; its table says {wanted.tolist()}"
                    yield self._forward("wrong position", during, request, text)

    def _forward(self, kind: str, during: int, request: str, text: str) -> Violation:
        when = self._when("forward", during, during)
        return self._made(
            kind=kind,
            launch="forward",
            step=during,
            during=during,
            request=request,
            explanation=f"{when}: {request} {text}",
        )

    def wrong_input(
        self, row: PlanRow, during: int, found: Sequence[int], wanted: Sequence[int], position: int
    ) -> Violation:
        text = f"gets tokens {list(found)} from position {position}; its own are {list(wanted)} from {row.start}"
        return self._forward("stale slot", during, row.request, text)

    def wrong_reads(
        self, during: int, rows: Sequence[PlanRow], batch: Batch, damage: np.ndarray, before: np.ndarray
    ) -> Iterator[Violation]:
        """Rows whose forward read something else than their own prefix."""
        decoder = None
        for i, row in enumerate(rows):
            for unit in np.flatnonzero(damage[i]).tolist():
                decoder = decoder or self._decoder()
                if unit >= len(self.layout.states):
                    yield self._forward("wrong position", during, row.request, "reads keys that are not its own")
                    break
                entry = self.layout.states[unit]
                offset = int(batch.accepted[i]) - 1 if batch.is_spec[i] else 0
                column = 0 if entry.conv_width else offset
                block = int(batch.columns[entry.group_index, i, column])
                bias = offset if entry.conv_width else 0
                found = decoder.state(before[entry.layer, block], entry, bias)
                yield self._read(during, row, entry, block, found)
                break

    def _read(self, during: int, row: PlanRow, entry: StateEntry, block: int, found: Provenance) -> Violation:
        ledger = self.ledger
        if found.what in ROOT_KINDS:
            kind = ROOT_KINDS[found.what]
        elif found.what == "state" and row.request not in found.requests:
            kind = "use after free" if not ledger.owners.get(block) else "cross-request copy"
        elif found.what == "torn":
            kind = "torn copy"
        else:
            kind = "wrong position"
        text = (
            f"reads block {block} of {ledger.describe(block)} for its state after {row.start} tokens; it holds {found}"
        )
        made = self._forward(kind, during, row.request, text)
        return Violation(
            **{
                **{f: getattr(made, f) for f in Violation.__struct_fields__},
                "source_block": block,
                "source_owner": ledger.describe(block),
                "layer": entry.layer,
                "group": entry.group,
                "bytes_of": str(found),
            }
        )

    def diverged(self, row: PlanRow, during: int) -> Violation:
        made = self._forward("output divergence", during, row.request, "samples from a damaged row")
        return made
