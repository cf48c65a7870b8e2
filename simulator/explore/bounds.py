"""What is searched: every workload up to a bound, in a fixed order, the smaller number of requests first.

A workload says for each request when it comes, its prompt and output length, and at which step it is aborted if at all.
How many drafts are accepted is not part of it: that is asked during the run, wherever a verification step happens
(`Acceptances`), so that no two searched schedules differ only in answers to questions that never came up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.order import Order
from stalerow.simulator.schedule.values import Abort, Limits, Pipeline, Request, Schedule, validate

GROUPS = 1
STATES = (StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2))


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """At most `requests` requests of at most `prompt` and `output` tokens, each at most `gap` engine iterations after
    the one before; their first `steps` steps. Sizes in tokens. With `aborts` each may be aborted at any step."""

    requests: int = 2
    pp: int = 2
    drafts: int = 1
    steps: int = 8
    block_size: int = 2
    prompt: int = 4
    output: int = 4
    gap: int = 1
    aborts: bool = False
    staging_depth: int | None = None

    def check(self) -> None:
        """Raises `UsageError` for a bound that holds no schedule."""
        for name in ("requests", "pp", "steps", "block_size", "prompt", "output"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} is {getattr(self, name)}: give at least 1")
        if self.block_size <= self.drafts:
            raise UsageError(
                f"--block-size {self.block_size} with --drafts {self.drafts}: a decode step would span blocks; "
                f"give at least {self.drafts + 1}"
            )

    def __str__(self) -> str:
        aborted = ", aborted at any step or not" if self.aborts else ""
        return (
            f"{_up_to(self.requests, 'request')} of {_up_to(self.prompt, 'prompt token')} and "
            f"{_up_to(self.output, 'output token')}, {self.gap} iterations apart at most{aborted}; "
            f"pp {self.pp}, {self.drafts} drafts, blocks of {self.block_size}, the first {self.steps} steps"
        )


def _up_to(count: int, name: str) -> str:
    return f"1 {name}" if count == 1 else f"1 to {count} {name}s"


class Shape(msgspec.Struct, frozen=True):
    """One request of a workload. `abort` is the step before which it is aborted, 0 for never."""

    gap: int
    prompt: int
    output: int
    abort: int = 0


def shapes(bounds: Bounds) -> list[Shape]:
    """Every request that a workload may have, the simplest first."""
    aborts = range(bounds.steps + 1) if bounds.aborts else (0,)
    options = itertools.product(aborts, range(bounds.gap + 1), range(1, bounds.prompt + 1), range(1, bounds.output + 1))
    return [Shape(gap, prompt, output, abort) for abort, gap, prompt, output in options]


def count(bounds: Bounds, requests: int) -> int:
    """Workloads of exactly so many requests; the first one comes at once."""
    every = len(shapes(bounds))
    return every // (bounds.gap + 1) * every ** (requests - 1)


def total(bounds: Bounds) -> int:
    return sum(count(bounds, n) for n in range(1, bounds.requests + 1))


def workload(bounds: Bounds, index: int) -> tuple[Shape, ...]:
    """Workload number `index`, from 0 to `total` - 1."""
    options = shapes(bounds)
    first = [shape for shape in options if not shape.gap]
    for requests in range(1, bounds.requests + 1):
        if index < count(bounds, requests):
            break
        index -= count(bounds, requests)
    index, digit = divmod(index, len(first))
    chosen = []
    for _ in range(requests - 1):
        index, more = divmod(index, len(options))
        chosen.append(options[more])
    return (first[digit], *reversed(chosen))


def number_of(bounds: Bounds, chosen: Sequence[Shape]) -> int:
    """The number of a workload. ValueError for one that is not within the bounds."""
    options = shapes(bounds)
    index = [shape for shape in options if not shape.gap].index(chosen[0])
    step = count(bounds, 1)
    number = 0
    for shape in chosen[1:]:
        number = number * len(options) + options.index(shape)
    return sum(count(bounds, n) for n in range(1, len(chosen))) + number * step + index


def complete(bounds: Bounds, done: int) -> Bounds | None:
    """The largest bound of the same kind that the first `done` workloads cover; None if they cover none."""
    covered = 0
    while covered < bounds.requests and done >= count(bounds, covered + 1):
        done -= count(bounds, covered + 1)
        covered += 1
    return msgspec.structs.replace(bounds, requests=covered) if covered else None


def schedule(bounds: Bounds, shapes: Sequence[Shape], accepted: Sequence[Sequence[int]]) -> Schedule:
    """The schedule of a workload; `accepted[i]` are request i's accepted drafts by verification step, then none."""
    size = bounds.block_size
    longest = bounds.prompt + bounds.output + bounds.drafts + 1
    per_request = -(-longest // size) + 1 + GROUPS * (-(-longest // size) + bounds.drafts + 4)
    requests, aborts, arrival = [], [], 1
    for i, (shape, counts) in enumerate(zip(shapes, accepted, strict=True)):
        arrival += shape.gap
        padded = (*counts, *[0] * (bounds.steps - len(counts)))
        request = Request(
            id=f"r{i}",
            arrival=arrival,
            prompt_len=shape.prompt,
            max_tokens=shape.output,
            stream=i,
            accepted=tuple(min(c, bounds.drafts) for c in padded),
        )
        requests.append(request)
        if shape.abort:
            aborts.append(Abort(request=request.id, step=shape.abort))
    groups = (
        *[GroupSpec("recurrent", size, states=STATES)] * GROUPS,
        GroupSpec("attention", size, kv_bytes=8),
    )
    return validate(
        Schedule(
            pipeline=Pipeline(pp=bounds.pp, drafts=bounds.drafts),
            layout=Layout(
                groups=groups,
                layers=1,
                num_blocks=1 + per_request * len(requests),
                num_drafts=bounds.drafts,
            ),
            limits=Limits(
                max_model_len=longest + bounds.drafts + 2,
                max_num_seqs=max(bounds.requests, 1),
                max_steps=bounds.steps,
                staging_depth=bounds.staging_depth,
            ),
            requests=tuple(requests),
            aborts=tuple(aborts),
            order=Order(),
        )
    )


class Acceptances:
    """Every answer to how many drafts are accepted, depth first, as far as the questions come up.

    `answers` are those for the next run, as (request, accepted) in the order in which they are asked.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, int]] = []

    def of(self, request: int) -> list[int]:
        """A request's answers for the next run."""
        return [answer for asked, answer in self.answers if asked == request]

    def next(self, asked: Sequence[tuple[int, int]]) -> bool:
        """After a run that asked about `asked`, (request, drafts) in order: go on to the next answers; False once
        every combination has been run. What is asked may depend on earlier answers, not on later ones."""
        known = [request for request, _ in self.answers]
        if [request for request, _ in asked[: len(known)]] != known:
            raise ValueError(f"a run verified requests {list(asked)} where {known} came first before")
        path = [*self.answers, *((request, 0) for request, _ in asked[len(known) :])]
        while path and path[-1][1] >= asked[len(path) - 1][1]:
            path.pop()
        if not path:
            return False
        request, answer = path.pop()
        self.answers = [*path, (request, answer + 1)]
        return True
