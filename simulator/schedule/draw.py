"""A `Draw`: all that decides a generated schedule, as one value.

In: what a campaign or a command line asked for. Out: the command that makes the schedule again, and a name for files;
the schedule itself is made by `generate.from_draw`. A schedule remembers its draw, so whoever fails it can say how to
get it back.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec

Runner = Literal["v1", "v2"]

MAX_PP = 64
"""More pipeline ranks than any schedule has."""

SEEDS = 1 << 63
"""One more than the largest seed: what a JSON integer is sure to carry."""

_Number = Annotated[int, msgspec.Meta(ge=0, le=SEEDS - 1)]


class Named(Protocol):
    """Whom a command runs: `subject.subject.Subject`."""

    @property
    def faithful_by_default(self) -> bool: ...
    def options(self) -> str: ...


class Draw(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A seed and what overrides or narrows its choices.

    pp, runner, profile: instead of what the seed would choose. family: the number that pipeline size, drafts and memory
    layout follow from (`choosers.family`). faithful: without what the modelled engine would never do
    (`schedule.faithful`). swarm: the number that says which features are left out (`choosers.swarm`). interleave: the
    programs of every launch under test are interleaved, and windows are wide enough for several warps.
    """

    seed: _Number
    pp: Annotated[int, msgspec.Meta(ge=1, le=MAX_PP)] | None = None
    runner: Runner | None = None
    faithful: bool = False
    family: _Number | None = None
    profile: str | None = None
    swarm: _Number | None = None
    interleave: bool = False

    def options(self, faithful_by_default: bool = False) -> str:
        """The command-line options beside the seed, each after a blank."""
        parts = (
            ("family", self.family),
            ("pp", self.pp),
            ("runner", self.runner),
            ("profile", self.profile),
            ("swarm", self.swarm),
        )
        told = "".join(f" --{name} {value}" for name, value in parts if value is not None)
        told += " --interleave" * self.interleave
        if self.faithful:
            return f"{told} --only-faithful"
        return f"{told} --no-only-faithful" if faithful_by_default else told

    def command(self, subject: Named, verb: str = "replay") -> str:
        """The command that makes this schedule again and runs it with `subject`, quoted for a shell."""
        return f"stalerow {verb} {self.seed} {subject.options()}{self.options(subject.faithful_by_default)}"

    @property
    def name(self) -> str:
        """A part of a file's name: equal for equal draws, different for different ones."""
        parts = (
            ("family", self.family),
            ("pp", self.pp),
            ("", self.runner),
            ("profile", self.profile),
            ("swarm", self.swarm),
        )
        told = [f"seed{self.seed}", *(f"{name}{value}" for name, value in parts if value is not None)]
        told += ["interleaved"] * self.interleave
        return "-".join([*told, "faithful"] if self.faithful else told)

    def __str__(self) -> str:
        return f"seed {self.seed}{self.options()}"
