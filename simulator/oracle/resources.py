"""Judges what the engine holds and what it lets wait: leaks, starvation, and preemption that goes round in a circle.

In: every step that the engine schedules and every output that it processes. Nothing else of the engine is looked at,
so a released scheduler is judged like ours, from a run or from a recording. What a request may hold follows from its
own tokens: DOMAIN rules of blocks and columns, with the steps that are in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stalerow.simulator.engine.config import EngineConfig
from stalerow.simulator.engine.step import Step
from stalerow.simulator.oracle.kinds import Kind
from stalerow.simulator.oracle.violations import ENGINE, Violation

MAX_FUTILE_PREEMPTIONS = 3
"""Times that one request may be preempted while nobody is given a token before it is called a loop."""


@dataclass(slots=True)
class _Held:
    """What one admitted request has computed.

    `settled` tokens are processed, a prefix hit's among them; `flying` are the rows in flight as (step, end in tokens,
    drafts), oldest first; slots were asked for up to `furthest` tokens, drafts that were rejected later included.
    """

    settled: int
    flying: list[tuple[int, int, int]] = field(default_factory=list)
    furthest: int = 0


class Resources:
    """One run's judge. `found` takes what is found, each kind and request once."""

    def __init__(self, config: EngineConfig, found: list[Violation]) -> None:
        self._config, self._found = config, found
        self._held: dict[str, _Held] = {}
        self._reported: set[tuple[str, str]] = set()
        self._preempted: dict[str, int] = {}
        self._last: Step | None = None

    def scheduled(self, step: Step) -> None:
        """Judge the block lists that the engine holds after scheduling a step."""
        self._last = step
        for request in (*step.finished, *step.preempted):
            self._held.pop(request, None)
        for new in step.new:
            self._held[new.request] = _Held(new.num_computed_tokens)
        for row in step.rows:
            held = self._held[row.request]
            end = row.num_computed_tokens + row.num_tokens
            held.flying.append((step.number, end, row.num_drafts))
            held.furthest = max(held.furthest, end)
            self._judge_lists(step, row.request, held)
        self._judge_strangers(step)
        self._judge_pool(step)
        self._judge_preemptions(step)

    def processed(self, step: Step, sampled: Mapping[str, int]) -> None:
        """Take the output of a step: `sampled` tokens per request, 0 where a row sampled nothing."""
        if any(sampled.values()):
            self._preempted.clear()
        for row in step.rows:
            held = self._held.get(row.request)
            if held is None or not held.flying or held.flying[0][0] != step.number:
                continue
            _, end, drafts = held.flying.pop(0)
            count = sampled.get(row.request, 0)
            rejected = max(drafts + 1 - count, 0) if count else 0
            held.settled = end - rejected
            held.flying = [(number, later - rejected, more) for number, later, more in held.flying]

    def reset(self) -> None:
        """The prefix cache was reset: requests that this preempts are no sign of a loop."""
        self._preempted.clear()

    def starved(self) -> None:
        """Nothing is in flight, nothing can be scheduled, nobody will come or leave, and requests wait."""
        step = self._last
        assert step is not None
        text = (
            f"the engine has requests and schedules nothing at step {step.number}: {step.num_free_blocks} of "
            f"{self._config.num_blocks - 1} blocks are free, too few for the first that waits"
        )
        self._report("starvation", step, "", text)

    def final(self) -> None:
        """Every request has ended: every block must have come back."""
        step = self._last
        if step is None or step.block_lists or any(kind == "leak" for kind, _ in self._reported):
            return
        missing = self._config.num_blocks - 1 - step.num_free_blocks
        if missing > 0:
            text = f"{_blocks(missing)} never came back, though every request has ended by step {step.number}"
            self._report("leak", step, "", text)

    def _judge_lists(self, step: Step, request: str, held: _Held) -> None:
        for index, blocks in enumerate(step.block_lists.get(request, ())):
            group = self._config.groups[index]
            real = {column for column, block in enumerate(blocks) if block}
            if group.kind == "recurrent":
                needed = self._states_needed(held, group.block_size)
            else:
                first = max(held.settled - group.window + 1, 0) // group.block_size if group.window else 0
                needed = set(range(first, self._attention_needed(held, group.block_size)))
            left = sorted(real - needed)
            if not left:
                continue
            what = "states" if group.kind == "recurrent" else "blocks"
            text = (
                f"{request} holds {len(real)} {what} of group {index} after step {step.number} is scheduled, where "
                f"{len(real) - len(left)} are needed: {_columns(left)}, since the outputs of {held.settled} of its "
                f"{held.flying[-1][1]} scheduled tokens are processed"
            )
            self._report("leak", step, request, text, index, blocks[left[0]])

    def _states_needed(self, held: _Held, size: int) -> set[int]:
        """Columns whose state something may still read or write, the running one's speculative columns among them."""
        ends = [end for _, end, _ in held.flying]
        if held.settled:
            ends.insert(0, held.settled)
        running, drafts = _column(ends[-1], size), self._config.num_speculative_tokens
        # An engine may lay its columns out for the drafter's lookahead too, as it does for attention.
        last = _column(held.furthest + drafts, size) + drafts
        written = {_column(tokens, size) for end in ends for tokens in (end, end + drafts)}
        if self._config.prefill_checkpoint_alignment is not None:
            # A chunk that spans blocks may have saved a state in the column before the one it ends in.
            written |= {_column(end, size) - 1 for end in ends}
        return {*written, *range(running, last + 1)}

    def _attention_needed(self, held: _Held, size: int) -> int:
        slots = min(held.furthest + self._config.num_speculative_tokens, self._config.max_model_len)
        return -(-slots // size)

    def _judge_strangers(self, step: Step) -> None:
        """Only requests that are running may have blocks."""
        for request, lists in step.block_lists.items():
            if request not in self._held:
                count = sum(1 for blocks in lists for block in blocks if block)
                text = f"{request} holds {_blocks(count)} after step {step.number} though it does not run"
                self._report("leak", step, request, text)

    def _judge_pool(self, step: Step) -> None:
        """A block is free or in somebody's list."""
        listed = {block for lists in step.block_lists.values() for blocks in lists for block in blocks if block}
        missing = self._config.num_blocks - 1 - step.num_free_blocks - len(listed)
        if missing > 0:
            text = f"{_blocks(missing, ' is', ' are')} neither free nor in any request's list after step {step.number}"
            self._report("leak", step, "", text)

    def _judge_preemptions(self, step: Step) -> None:
        for request in step.preempted:
            count = self._preempted[request] = self._preempted.get(request, 0) + 1
            if count > MAX_FUTILE_PREEMPTIONS:
                text = (
                    f"{request} is preempted for the {count}th time at step {step.number} while no request was given "
                    "a token in between"
                )
                self._report("preemption loop", step, request, text)

    def _report(self, kind: Kind, step: Step, request: str, text: str, group: int = -1, block: int = -1) -> None:
        if (kind, request) in self._reported:
            return
        self._reported.add((kind, request))
        self._found.append(
            Violation(
                kind=kind,
                rank=ENGINE,
                launch="schedule",
                step=step.number,
                during=step.number,
                group=group,
                source_block=block,
                request=request,
                explanation=text,
            )
        )


def _column(tokens: int, size: int) -> int:
    return -(-tokens // size) - 1


def _blocks(count: int, one: str = "", more: str = "") -> str:
    return f"1 block{one}" if count == 1 else f"{count} blocks{more}"


def _columns(columns: Sequence[int]) -> str:
    """Column numbers as ranges, and what should have become of them."""
    ranges = [f"{a}" if a == b else f"{a} to {b}" for a, b in _runs(columns)]
    if len(columns) == 1:
        return f"nothing will read column {ranges[0]} again"
    return f"nothing will read columns {', '.join(ranges)} again"


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield first, previous
            first = number
        previous = number
    yield first, previous
