"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from stalerow.simulator.conform.engine import ReleasedEngines
    from stalerow.simulator.schedule.values import Schedule


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where Triton kernels run: compiled on CUDA, or interpreted on the CPU (default: %(default)s)",
    )


def add_fault(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME",
        help="put a fault in: a name from 'stalerow scenarios list', or FILE.py:NAME (repeatable)",
    )


def add_only_faithful(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only-faithful",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="keep seeds to what the modelled engine may do (default: for an engine's own kernels)",
    )


def only_faithful(args: argparse.Namespace, kernels: list[str]) -> bool:
    """As asked; if nothing was asked, whether any of the kernel sets comes from an engine."""
    from stalerow.kernels.sets import KERNEL_SETS

    if args.only_faithful is not None:
        return bool(args.only_faithful)
    return any(name not in KERNEL_SETS and ":" not in name for name in kernels)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=positive, default=None, metavar="J", help="worker processes (default: one per core)"
    )


def add_family(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--family",
        type=number,
        default=None,
        metavar="F",
        help="for a seed that ran among many universes: the number that decides pipeline size, drafts and layout",
    )


def number(text: str) -> int:
    """An integer of at least 0, for argparse."""
    if not re.fullmatch(r"\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number: give an integer of at least 0")
    return int(text)


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: give an integer of at least 1")
    return int(text)


def seed_range(text: str) -> range:
    """'A:B' as the seeds A..B-1, for argparse."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds: give A:B with A < B, for seeds A to B-1")
    return range(int(match[1]), int(match[2]))


def job_count(jobs: int | None) -> int:
    """The number of worker processes: as asked, else one per usable core."""
    import os

    if jobs is not None:
        return jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def schedule_source(
    text: str, pp: int | None = None, runner: str | None = None, faithful: bool = False, family: int | None = None
) -> Schedule:
    """A schedule from a seed or from a file, as `run` and `replay` take it."""
    from stalerow.simulator.schedule.generate import from_seed
    from stalerow.simulator.schedule.values import load

    if re.fullmatch(r"\d+", text):
        return from_seed(int(text), pp, runner, faithful, family)  # type: ignore[arg-type]
    if pp is not None or runner is not None or family is not None:
        raise UsageError(f"--pp, --runner and --family apply to seeds; {text} is a file and says all of it itself")
    return load(text)


def add_engine(parser: argparse.ArgumentParser, several: bool = False) -> None:
    parser.add_argument(
        "--engine",
        choices=("own", "vllm"),
        nargs="+" if several else None,
        default=["own"] if several else "own",
        help="who schedules: the project's own engine, or the scheduler of an installed vLLM (default: own)",
    )
    parser.add_argument("--python", metavar="PATH", default=None, help="Python of an environment that has vLLM")


@contextmanager
def released_engines(python: str | None) -> Iterator[ReleasedEngines]:
    """The scheduler of an installed vLLM as an engine factory; whatever vLLM says is one line."""
    from stalerow.simulator.conform.child import LiveError, last_words
    from stalerow.simulator.conform.engine import ReleasedEngines

    if python is None:
        raise UsageError("--engine vllm needs --python PATH: the Python of an environment that has vLLM")
    try:
        with ReleasedEngines(python) as engines:
            yield engines
    except LiveError as error:
        raise UsageError(f"{last_words(str(error))} (--python {python})") from None
