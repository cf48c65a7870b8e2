"""The order of events of a schedule: which kind it is, and single deviations from the canonical order.

A generated schedule names a kind of order and a seed for it. Once it fails, what that kind picked is written down as
deviations (`Order.picks`, `Order.holds`), which replay without it and can be taken away one by one.
"""

from __future__ import annotations

import msgspec

from stalerow.simulator.schedule.rules import AnyRule


class Hold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From decision `at` on, `actor` is passed over for `decisions` decisions unless nothing else can happen."""

    at: int
    actor: str
    decisions: int = 1


class Interleaving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of every launch of a kernel under test, where its programs and their warps lag is drawn with `seed`."""

    seed: int


class ThreadLag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In the launch of `kernel` by `rank` during `step`, one warp of one program falls behind all others.

    program: its number in the grid, x fastest. access: before so many of its own memory accesses, counted from 0.
    """

    rank: int
    step: int
    kernel: str
    program: int
    warp: int = 0
    access: int = 0


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deviations from the canonical order of events: holds, and single picks as (decision, choice).

    With a `rule`, that decides at every decision for which nothing is picked. `threads` and `lags` are for kernels that
    are compiled for a CPU: with either, launches of kernels under test run as warps that can be interleaved.
    """

    holds: tuple[Hold, ...] = ()
    picks: tuple[tuple[int, int], ...] = ()
    rule: AnyRule | msgspec.UnsetType = msgspec.UNSET
    threads: Interleaving | msgspec.UnsetType = msgspec.UNSET
    lags: tuple[ThreadLag, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def deviations(self) -> int:
        rules = (self.rule is not msgspec.UNSET) + (self.threads is not msgspec.UNSET)
        return len(self.holds) + len(self.picks) + rules + len(self.lags or ())

    @property
    def interleaves(self) -> bool:
        """Whether launches run as warps that can be interleaved."""
        return self.threads is not msgspec.UNSET or self.lags is not msgspec.UNSET
