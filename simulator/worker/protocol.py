"""What goes between the parent and the child that holds the engine: one struct a message, framed by its length.

The parent sends `Run`s and gets a `Ran`, a `Refused` or a `Lost` for each; the child says `Hello` once the engine is
imported. Imported by both sides, so it imports nothing but values.
"""

from __future__ import annotations

from typing import BinaryIO, Literal, TypeAlias

import msgspec

from stalerow.simulator.draw.record import Event
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.choosers.recording import Decision
from stalerow.simulator.schedule.values import Schedule

LENGTH_BYTES = 4


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The child is warm. `version` is the engine's, `seconds` what importing it took."""

    version: str
    torch: str
    seconds: float


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The child cannot serve; `reason` is one line for the user."""

    reason: str


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run one schedule in a fork of the child. `first_only` ends it at the first violation; `seconds` bounds it.

    record: what happened is wanted as screens draw it; rank_steps: what each rank held at each forward is.
    """

    schedule: Schedule
    first_only: bool = True
    record: bool = False
    rank_steps: bool = False
    seconds: float = 120.0


class RankStep(msgspec.Struct, frozen=True):
    """What one rank held when the forward of one step ran. Lists are by batch row, in batch order.

    tokens: scheduled for each row; seq_lens: with those before them; verifies: whether it runs as a verification row;
    accepted: the tokens that such a row's columns begin at, 1 for others.
    tables: block ids of each group and row, as gathered; columns: block ids for recurrent state, by recurrent group
    and row (K + 1 of them on a verification row, one on a plain row). memory: digest after the forward of all that is
    owned.
    """

    rank: int
    step: int
    requests: tuple[str, ...]
    tokens: tuple[int, ...]
    seq_lens: tuple[int, ...]
    verifies: tuple[bool, ...]
    slots: tuple[int, ...]
    computed: tuple[int, ...]
    state_idx: tuple[int, ...]
    accepted: tuple[int, ...]
    tables: tuple[tuple[tuple[int, ...], ...], ...]
    columns: tuple[tuple[tuple[int, ...], ...], ...]
    memory: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The engine would not be set up for the schedule; `reason` is its own word."""

    reason: str


class Ran(msgspec.Struct, frozen=True, tag=True):
    """What one run showed. `digest` (32 hex digits) covers all pages after every forward and the violations found.

    building, seconds: wall time spent to set the engine up, and in all. events: the run as screens draw it, if it was
    asked for. lookup: by what the worker's copy kernels find a block table's row.
    """

    violations: tuple[Violation, ...]
    marks: dict[str, int]
    digest: str
    steps: int
    taken: tuple[Decision, ...]
    rank_steps: int
    building: float
    seconds: float
    stopped: str = ""
    ranks: tuple[RankStep, ...] = ()
    events: tuple[Event, ...] = ()
    lookup: Literal["slot", "row"] = "slot"


class Lost(msgspec.Struct, frozen=True, tag=True):
    """The fork did not answer: `how` its process ended, or that it was stopped after `Run.seconds`."""

    how: str


Question: TypeAlias = Run
Answer: TypeAlias = Hello | Failed | Refused | Ran | Lost


def write(stream: BinaryIO, message: Question | Answer) -> None:
    data = msgspec.msgpack.encode(message)
    stream.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """One message's bytes; None at the end of the stream."""
    head = _exactly(stream, LENGTH_BYTES)
    return None if head is None else _exactly(stream, int.from_bytes(head, "big"))


def _exactly(stream: BinaryIO, count: int) -> bytes | None:
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
