"""How much memory a schedule takes, compared with what there is before any of it is taken."""

from __future__ import annotations

import os

from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.values import Schedule

COPIES = 4
"""A rank's pool, the oracle's image of it, and what comparing the two takes."""

TOKEN_BYTES = 256
"""Python's share of a token: ids, hashes and the plan that holds them."""


def needed_bytes(schedule: Schedule, tokens: int | None = None) -> int:
    """Bytes that running the schedule takes, about: pools, tables and `tokens` (default: its own), of all ranks."""
    layout, limits, pp = schedule.layout, schedule.limits, schedule.pipeline.pp
    columns = sum(-(-limits.max_model_len // g.block_size) + layout.num_drafts + 2 for g in layout.groups)
    tables = (limits.max_num_seqs + 1) * columns * 8
    if tokens is None:
        tokens = sum(r.prompt_len + r.max_tokens for r in schedule.requests)
    return pp * (COPIES * layout.pool_bytes + 2 * tables + limits.max_num_seqs * limits.max_model_len * 4) + (
        tokens * TOKEN_BYTES
    )


def check_memory(schedule: Schedule) -> None:
    """Raises `UsageError` for a schedule that cannot fit."""
    names = "layout.num_blocks, layout.layers, pipeline.pp or limits.max_model_len"
    check_bytes(needed_bytes(schedule), "this schedule takes", names)


def check_bytes(needed: int, what: str, names: str) -> None:
    """Raises `UsageError` where there is less memory than needed; `names` are what to lower."""
    free = free_bytes()
    if free is not None and needed > free:
        gib = needed >> 30
        shown = f"{gib:,} GiB" if gib < 10**12 else "more than 10**12 GiB"
        raise UsageError(f"{what} about {shown} and {free / 2**30:,.1f} GiB are free: lower {names}")


def free_bytes() -> int | None:
    """Memory that can be taken without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
