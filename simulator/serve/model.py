"""The closed loop: what the model reads, and what it samples given the state that its forwards found.

A request's tokens and prefix hashes follow what was really sampled. `resolve` fixes a step's rows when the first rank's
device reaches its forward; by then every earlier output of the row's request is known. `sample` decides when the last
rank has run: a row whose activations carry damage has NaN logits, so the sampler emits one constant token and accepts
no draft; any other row continues the request's own stream. Ranks call both; `report` reads the requests afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.simulator.engine.step import NewRequest, ScheduledRow, Step
from stalerow.simulator.errors import InternalError
from stalerow.simulator.serve.acceptance import Acceptance
from stalerow.simulator.serve.workload import STOP_TOKEN, ServeRequest
from stalerow.simulator.truth.model import Sampled
from stalerow.simulator.truth.plan import boundary_copy
from stalerow.simulator.truth.streams import (
    EMPTY_PREFIX,
    FIRST_TOKEN,
    VOCABULARY,
    extend,
    junk_hash,
    mix64,
    stream_token,
)

NAN_TOKEN = 0
"""What sampling NaN logits returns (reported as an endless run of one token). No healthy row emits it."""
COLUMN_STEP = 256
"""Hash tables grow in such steps of columns, so that a compiled kernel meets few shapes."""
_PREFIX_STREAM, _OWN_STREAM = 1 << 40, 1 << 41


class TokenHistory:
    """One request's tokens, as far as they are known, and the hashes of their prefixes."""

    def __init__(self, spec: ServeRequest, seed: int, room: int) -> None:
        self.spec = spec
        self.tokens: list[int] = []
        self.hashes: HostArray = np.zeros(spec.prompt_len + spec.max_tokens + room, dtype=np.uint64)
        self.last_hash = EMPTY_PREFIX
        self.hashes[0] = EMPTY_PREFIX
        base = mix64(seed)
        shared, own = base ^ (_PREFIX_STREAM + spec.prefix_id), base ^ (_OWN_STREAM + spec.index)
        for i in range(spec.prompt_len):
            self.append(stream_token(shared if i < spec.prefix_len else own, i))

    def append(self, token: int) -> None:
        self.tokens.append(token)
        self.last_hash = extend(self.last_hash, token)
        self.hashes[len(self.tokens)] = self.last_hash

    def continuation(self, count: int) -> list[tuple[int, int]]:
        """The next `count` tokens of a healthy model, each with the hash of the prefix that it ends."""
        made, value, position = [], self.last_hash, len(self.tokens) - self.spec.prompt_len
        for i in range(count):
            ends = self.spec.stops and position + i + 1 >= self.spec.output_len
            token = STOP_TOKEN if ends else FIRST_TOKEN + mix64(value) % VOCABULARY
            value = extend(value, token)
            made.append((token, value))
        return made


@dataclass(slots=True)
class Progress:
    """Where a request stands, in its own numbers. `computed`: true num_computed_tokens; `column`: running column.

    `delivered`: output tokens that reached the client. `damaged_at`: output tokens known when a forward of the request
    first met damage, -1 if none did; `inherited`: whether that was the first forward after a prefix hit.
    """

    history: TokenHistory
    computed: int = 0
    column: int = -1
    prefill_len: int = 0
    fresh: bool = True
    hit_tokens: int = 0
    delivered: int = 0
    damaged_at: int = -1
    inherited: bool = False

    @property
    def answer(self) -> list[int]:
        """The output tokens that were delivered."""
        first = self.history.spec.prompt_len
        return self.history.tokens[first : first + self.delivered]


@dataclass(slots=True)
class Row:
    """One request's share of a step. `proposal`: the tokens that a healthy model returns, with their hashes."""

    progress: Progress
    start: int
    num_tokens: int
    num_drafts: int
    samples: bool
    after_hit: bool
    proposal: list[tuple[int, int]]


@dataclass(slots=True)
class ResolvedStep:
    """`table`: int64 [rows, columns], the prefix hashes of every row in batch order. Counts are requests."""

    rows: list[Row]
    table: HostArray
    num_moves: int
    num_saves: int = 0
    sampled: dict[str, list[int]] = field(default_factory=dict)
    num_sampled: list[int] = field(default_factory=list)
    num_rejected: list[int] = field(default_factory=list)


class ClosedLoop:
    """Every request's progress. `block_size` (tokens) and `num_drafts` are the engine's.

    `digest` covers which rows left the last rank damaged and every token sampled. `first_damage`: the first step that
    read damage, and whose row did.
    """

    def __init__(
        self, requests: Sequence[ServeRequest], block_size: int, num_drafts: int, acceptance: Acceptance, seed: int
    ) -> None:
        room = 4 * (num_drafts + 1)
        self.progress = {r.id: Progress(TokenHistory(r, seed, room)) for r in requests}
        self.steps: dict[int, ResolvedStep] = {}
        self.announced: dict[int, Step] = {}
        self._block_size, self._num_drafts = block_size, num_drafts
        self._acceptance, self._seed = acceptance, seed
        self.digest = hashlib.blake2b(digest_size=16)
        self.first_damage: tuple[int, str] | None = None

    def resolve(self, number: int, order: Sequence[ScheduledRow]) -> ResolvedStep:
        """The step's rows in batch order, fixed at the first call."""
        known = self.steps.get(number)
        if known is not None:
            return known
        for new in self.announced.pop(number).new:
            self._admit(new)
        rows, moves = [], 0
        for scheduled in order:
            row, moved = self._row(number, scheduled)
            rows.append(row)
            moves += moved
        resolved = self.steps[number] = ResolvedStep(rows, self._table(number, rows), moves)
        return resolved

    def _admit(self, new: NewRequest) -> None:
        progress = self.progress[new.request]
        progress.computed = progress.hit_tokens = new.num_computed_tokens
        progress.column = (new.num_computed_tokens - 1) // self._block_size
        progress.prefill_len = len(new.prefill_token_ids)
        progress.fresh = True

    def _row(self, number: int, scheduled: ScheduledRow) -> tuple[Row, bool]:
        progress = self.progress[scheduled.request]
        history, start = progress.history, progress.computed
        known = start + scheduled.num_tokens - scheduled.num_drafts
        if known > len(history.tokens):
            raise InternalError(f"step {number}: {scheduled.request} computes {known} of {len(history.tokens)} tokens")
        prefilling = scheduled.num_computed_tokens < progress.prefill_len
        proposal: list[tuple[int, int]] = []
        if scheduled.is_final_or_decode:
            accepted = 0
            if scheduled.num_drafts and not prefilling:
                accepted = self._acceptance.draw(self._seed, history.spec.index, known, scheduled.num_drafts)
            proposal = history.continuation(1 + accepted)
        column = -(-(start + scheduled.num_tokens) // self._block_size) - 1
        moved = progress.column >= 0 and progress.column != column
        after_hit = progress.fresh and progress.hit_tokens > 0
        progress.column, progress.fresh = column, False
        progress.computed = start + scheduled.num_tokens
        return (
            Row(
                progress,
                start,
                scheduled.num_tokens,
                scheduled.num_drafts,
                scheduled.is_final_or_decode,
                after_hit,
                proposal,
            ),
            moved,
        )

    def _table(self, number: int, rows: Sequence[Row]) -> HostArray:
        """Drafts that a healthy model would accept are its own next tokens; the others end in junk hashes."""
        longest = max(r.start + r.num_tokens for r in rows) + 1
        table = np.zeros((len(rows), -(-longest // COLUMN_STEP) * COLUMN_STEP), dtype=np.uint64)
        for line, row in zip(table, rows):
            known = row.start + row.num_tokens - row.num_drafts
            line[: known + 1] = row.progress.history.hashes[: known + 1]
            last = int(line[known])
            for j in range(row.num_drafts):
                good = j + 1 < len(row.proposal)
                line[known + 1 + j] = row.proposal[j][1] if good else junk_hash(last, number, j)
        return table.view(np.int64)

    def hash_table(self, step: int, rows: tuple[ScheduledRow, ...], width: int) -> HostArray:
        return self.resolve(step, rows).table

    def known_tokens(self, step: int, row: ScheduledRow) -> list[int]:
        return self.progress[row.request].history.tokens

    def sample(self, number: int, rows: tuple[ScheduledRow, ...], leaving: Callable[[], HostArray]) -> Sampled:
        """Decide a step's outcome from what left the last rank, int64 [rows] in batch order; 0 is a healthy row."""
        step, damage = self.resolve(number, rows), leaving()
        made: list[list[int]] = []
        for row, poisoned in zip(step.rows, (damage != 0).tolist()):
            progress = row.progress
            if poisoned and progress.damaged_at < 0:
                progress.damaged_at = len(progress.history.tokens) - progress.history.spec.prompt_len
                progress.inherited = row.after_hit
                self.first_damage = self.first_damage or (number, progress.history.spec.id)
            tokens: list[int] = []
            if row.samples:
                tokens = [NAN_TOKEN] if poisoned else [token for token, _ in row.proposal]
                for token in tokens:
                    progress.history.append(token)
            rejected = row.num_drafts + 1 - len(tokens) if tokens else 0
            if row.samples:
                progress.computed = row.start + row.num_tokens - rejected
                step.sampled[progress.history.spec.id] = tokens
                step.num_saves += self._saves(progress.computed, len(tokens), row)
            step.num_sampled.append(len(tokens))
            step.num_rejected.append(rejected)
            made.append(tokens)
        padded = np.zeros((len(made), self._num_drafts + 1), dtype=np.int64)
        for line, tokens in zip(padded, made):
            line[: len(tokens)] = tokens
        self.digest.update((damage != 0).tobytes() + padded.tobytes())
        return Sampled(made, step.num_sampled, step.num_rejected)

    def _saves(self, end: int, accepted: int, row: Row) -> bool:
        """Whether the output asks for a copy of the state at a block boundary (DOMAIN: postprocess)."""
        size = self._block_size
        copy = boundary_copy(end, accepted, -(-(row.start + row.num_tokens) // size) - 1, size)
        return copy is not None and copy.moves

    def forget(self, number: int) -> None:
        """No rank will ask for the step any more."""
        self.steps.pop(number, None)
