"""A `Record`: everything about one run that can be shown, as one frozen value of plain numbers and names.

Made by an observer of a run (`recorder` for the project's own ranks); read by the terminal, the trace and the page,
which look at nothing else. It names requests, slots, rows, blocks and steps, and holds no class of a runner, so a run
of an engine's own worker can fill it too. In JSON a field at its default is left out, and what there is most of
(events, writes) is an array of its fields in order.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stalerow.simulator.oracle.violations import Violation

How = Literal["zero", "poison", "copy", "state", "kv", "pad", "stray"]
"""What a write was: pages filled, whole pages or states copied, a forward's states or KV, a padded row's, or none of
these (bytes that no launch was meant to leave there)."""


class _Plain(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class Group(_Plain, frozen=True, kw_only=True):
    """A cache group. `block_size` in tokens."""

    kind: Literal["attention", "recurrent"]
    block_size: int


class Asked(_Plain, frozen=True, kw_only=True):
    """A request as its user sent it. Lengths in tokens."""

    id: str
    prompt: int
    max_tokens: int


class Share(_Plain, frozen=True, kw_only=True):
    """A request's share of a step: `tokens` of which `drafts` are drafts, after `computed` by the host's count.

    `samples` is False for a chunk of a prompt that is not its last.
    """

    request: str
    tokens: int
    drafts: int = 0
    computed: int = 0
    samples: bool = True


class Admission(_Plain, frozen=True, kw_only=True):
    """A request that joins. `hit`: tokens of its prefix that were cached. `resumed`: it had been preempted."""

    request: str
    hit: int = 0
    resumed: bool = False


class Scheduled(_Plain, frozen=True, kw_only=True, tag_field="type", tag="scheduled"):
    """The engine decided a step. `finished` have all their tokens; `aborted` were called off.

    zeroed: block ids; copies: (source, target) blocks copied on write. used: blocks that requests hold after it.
    """

    step: int
    rows: tuple[Share, ...] = ()
    admitted: tuple[Admission, ...] = ()
    finished: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    preempted: tuple[str, ...] = ()
    zeroed: tuple[int, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    used: int = 0


class Output(_Plain, frozen=True, kw_only=True):
    """What a step gave a request: `tokens` delivered, `accepted` of `drafts`."""

    request: str
    tokens: int
    drafts: int = 0
    accepted: int = 0


class Processed(_Plain, frozen=True, kw_only=True, tag_field="type", tag="processed"):
    """The engine took the oldest step's output."""

    step: int
    outputs: tuple[Output, ...] = ()


class Waited(_Plain, frozen=True, kw_only=True, tag_field="type", tag="waited"):
    """The engine had nothing to schedule and turned to its oldest step."""


class Prepared(_Plain, frozen=True, kw_only=True, tag_field="type", tag="prepared"):
    """A rank's host took a step and put its launches, by name, on the rank's streams."""

    step: int
    launches: tuple[str, ...] = ()


class Seat(_Plain, frozen=True, kw_only=True):
    """A row of a launch's batch: the request, its slot (-1 unknown), and whether the launch leaves it out."""

    request: str
    slot: int = -1
    masked: bool = False


class Owner(_Plain, frozen=True, kw_only=True):
    """A request's column in a group's block table."""

    request: str
    group: int
    column: int


class OwnerChange(_Plain, frozen=True, kw_only=True):
    """Who owns a block from here on; nobody if it is free."""

    block: int
    owners: tuple[Owner, ...] = ()


class Move(_Plain, frozen=True, kw_only=True):
    """A state copy as it was meant, by the request's own columns: block to block, `bias` accepted tokens further on."""

    request: str
    group: int
    source: int
    target: int
    bias: int = 0


class Write(_Plain, frozen=True, kw_only=True, array_like=True):
    """Bytes that a launch left in a block of `group`, on `layers` layers.

    holds: whose bytes they are now, in words. source: the block that had them before the launch, -1 if none.
    asked: whether the launch was meant to write this block.
    """

    block: int
    how: How
    holds: str
    group: int = -1
    source: int = -1
    layers: int = 1
    asked: bool = True


class Executed(_Plain, frozen=True, kw_only=True, tag_field="type", tag="executed"):
    """A rank's device ran a launch for the batch of step `of`, enqueued during `step` at event `enqueued` (-1 unknown).

    rows: the batch it works for, row by row; padded: rows past them. table: the step whose batch the gathered block
    table held when it ran, -1 for none yet. meant: the copies that it was to do.
    """

    launch: str
    step: int
    of: int
    enqueued: int = -1
    rows: tuple[Seat, ...] = ()
    padded: int = 0
    table: int = -1
    meant: tuple[Move, ...] = ()
    writes: tuple[Write, ...] = ()
    owners: tuple[OwnerChange, ...] = ()


What = Scheduled | Processed | Waited | Prepared | Executed


class Event(_Plain, frozen=True, kw_only=True, array_like=True):
    """Event number `number` (from 1) of the run's order. Times are integer microseconds of virtual time.

    rank is -1 for the engine. in_flight: steps scheduled and not processed after it. violations: indices in the
    record's list of those found by it.
    """

    number: int
    actor: Literal["engine", "host", "main", "side"]
    rank: int = -1
    start: int
    end: int
    in_flight: int = 0
    violations: tuple[int, ...] = ()
    what: What


class Unwatched(_Plain, frozen=True, kw_only=True):
    """What is known of a run that no oracle watched: whether it came out `clean`, and in words `how` it came out.

    `event`: the number of the event to look at first, 0 if none is.
    """

    clean: bool
    how: str
    event: int = 0


class Record(_Plain, frozen=True, kw_only=True):
    """One run. `lookup` says by what the copy kernels find a block table's row: the request's slot, or the batch row.

    `again` is the command that runs it again, "" if there is none. Where `unwatched` is given, events have no owners,
    writes and violations.
    """

    kernels: str
    pp: int
    drafts: int
    runner: str
    num_blocks: int
    lookup: Literal["slot", "row"]
    groups: tuple[Group, ...]
    requests: tuple[Asked, ...]
    events: tuple[Event, ...]
    seed: int | None = None
    deviations: int = 0
    violations: tuple[Violation, ...] = ()
    marks: dict[str, int] = {}
    steps: int = 0
    stopped: str = ""
    digest: str = ""
    again: str = ""
    unwatched: Unwatched | None = None
