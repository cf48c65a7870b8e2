"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stalerow.simulator.errors import UsageError
from stalerow.simulator.files import read_bounded

if TYPE_CHECKING:
    from stalerow.simulator.conform.engine import ReleasedEngines
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.schedule.values import Schedule
    from stalerow.simulator.subject.subject import Subject

MOST_SEEDS = 1_000_000
"""In a list, which is kept; a single range may have any number."""

MAX_JOBS = 1024
"""More worker processes than any machine here has cores."""

DRAW_OPTIONS = ("family", "pp", "runner", "profile", "swarm", "only_faithful", "interleave")


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "interpreter", "cuda"),
        default="auto",
        help="where Triton kernels run: compiled for CUDA or for this processor, or interpreted (default: %(default)s)",
    )


def add_worker(parser: argparse.ArgumentParser, python: bool = True, several: bool = False) -> None:
    parser.add_argument(
        "--worker",
        metavar="vllm==RELEASE|DIR",
        nargs="+" if several else None,
        default=[] if several else "",
        help="run a release's own scheduler, worker and kernels, or a checkout's (see 'stalerow worker')",
    )
    if python:
        parser.add_argument("--python", metavar="PATH", default="", help="Python of an environment for --worker")


def add_fault(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME",
        help="put a fault in: a name from 'stalerow scenarios list', or FILE.py:NAME (repeatable)",
    )


def add_draw(parser: argparse.ArgumentParser, family: bool = True) -> None:
    """What overrides a seed's choices: `draw_of` reads it."""
    group = parser.add_argument_group("instead of what a seed would choose")
    group.add_argument("--pp", type=ranks, default=None, metavar="P", help="pipeline size")
    group.add_argument("--runner", choices=("v1", "v2"), default=None, help="model runner")
    group.add_argument("--profile", default=None, metavar="V", help="release whose scheduling rules hold")
    if family:
        group.add_argument(
            "--family",
            type=number,
            default=None,
            metavar="F",
            help="for a seed that ran among many universes: the number that decides pipeline size, drafts and layout",
        )
    group.add_argument(
        "--swarm",
        type=number,
        default=None,
        metavar="N",
        help="leave out some features of schedules, which ones being decided by N: another N for each campaign",
    )
    group.add_argument(
        "--interleave",
        action="store_true",
        default=None,
        help="interleave the programs and warps of every launch under test, as a GPU may (--device cpu)",
    )
    add_only_faithful(group)


def add_only_faithful(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--only-faithful",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="keep seeds to what the modelled engine may do (default: for an engine's own kernels)",
    )


def draw_of(args: argparse.Namespace, seed: int, subject: Subject) -> Draw:
    """The seed under the options of `add_draw`. Raises `UsageError`."""
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.schedule.values import PROFILES

    if args.profile is not None and args.profile not in PROFILES:
        raise UsageError(f"--profile {args.profile}: known are {', '.join(PROFILES)}")
    faithful = subject.faithful_by_default if args.only_faithful is None else args.only_faithful
    family = getattr(args, "family", None)
    return Draw(
        seed,
        pp=args.pp,
        runner=args.runner,
        faithful=faithful,
        family=family,
        profile=args.profile,
        swarm=args.swarm,
        interleave=bool(args.interleave),
    )


def add_ray(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        default=None,
        metavar="ADDRESS",
        help="run on a Ray cluster (extra stalerow[ray]): 'auto' for this machine's, HOST:PORT, or a new one without",
    )


def refuse_here_and_there(args: argparse.Namespace) -> None:
    """Raises `UsageError` for options of this machine's processes beside a cluster."""
    if args.ray is None:
        return
    if args.jobs is not None:
        raise UsageError(f"--jobs {args.jobs} with --ray: a cluster runs as many as its cores; leave one of them out")
    if getattr(args, "universes", None):
        raise UsageError("--universes with --ray: packs run on this machine; leave one of them out")


def add_json(parser: argparse.ArgumentParser, command: str, instead: bool = False) -> None:
    """`--json FILE`. Where the answer is all that a command has to say, `--json` alone prints it `instead` of text."""
    schema = f"schema stalerow.{command}/1"
    if instead:
        text = f"print JSON instead, {schema}, or write it to FILE"
        parser.add_argument("--json", nargs="?", const="-", default=None, metavar="FILE", help=text)
    else:
        parser.add_argument("--json", default=None, metavar="FILE", help=f"write what came of it to FILE, {schema}")


def add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let the file run the Python, or fetch the release, that it names (only files whose author you trust)",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=count_of(1, MAX_JOBS), default=None, metavar="J", help="worker processes (default: one per core)"
    )


def number(text: str) -> int:
    """An integer from 0 to 2**63-1, for argparse."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number: give an integer of at least 0, below 2**63")
    return int(text)


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a count: give an integer of at least 1")
    return int(text)


def count_of(least: int, most: int = 1 << 24) -> Callable[[str], int]:
    """Reads an integer from `least` to `most`, for argparse."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{shown(text)} is not a count: give an integer from {least} to {most}")
        return int(text)

    return read


def ranks(text: str) -> int:
    """A pipeline size, for argparse."""
    from stalerow.simulator.schedule.draw import MAX_PP

    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_PP:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a pipeline size: give 1 to {MAX_PP} ranks")
    return int(text)


def seed_range(text: str) -> range:
    """'A:B' as the seeds A..B-1, for argparse."""
    match = re.fullmatch(r"([0-9]{1,18}):([0-9]{1,18})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is not a range of seeds: give A:B with A < B, for seeds A to B-1"
        )
    return range(int(match[1]), int(match[2]))


def seed_list(text: str) -> Sequence[int]:
    """Seeds for argparse: 'A:B' for A..B-1, several of those and single ones as '3,7,9:40', or a file of such lines.

    Each once, in the order given. What follows a '#' in a file is a comment.
    """
    parts, where = text.split(","), ""
    if not re.fullmatch(r"[0-9:,]+", text):
        try:
            lines = read_bounded(text).decode("utf-8").splitlines()
        except UnicodeDecodeError:
            raise argparse.ArgumentTypeError(f"{shown(text)} is no file of seeds: not text") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise argparse.ArgumentTypeError(
                f"{shown(text)} is neither seeds (A:B, or a list as 3,7,9:40) nor a file of them ({why})"
            ) from None
        parts = [part for line in lines for part in line.partition("#")[0].replace(",", " ").split()]
        where = f"{text}: "
    if len(parts) == 1 and ":" in parts[0]:
        return seed_range(parts[0])
    seeds: dict[int, None] = {}
    for part in parts:
        try:
            few = seed_range(part) if ":" in part else (number(part),)
            if len(seeds) + len(few) > MOST_SEEDS:
                raise argparse.ArgumentTypeError(f"more than {MOST_SEEDS:,} seeds in a list: give one range A:B")
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{where}{error}") from None
        seeds.update(dict.fromkeys(few))
    if not seeds:
        raise argparse.ArgumentTypeError(f"{where or text}no seeds: give A:B, or a list as 3,7,9:40")
    return tuple(seeds)


def shown(text: str) -> str:
    """A value as an error quotes it: not longer than a line."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def job_count(jobs: int | None) -> int:
    """The number of worker processes: as asked, else one per usable core."""
    import os

    if jobs is not None:
        return jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def schedule_source(args: argparse.Namespace, text: str, subject: Subject) -> Schedule:
    """A schedule from a seed or from a file, as `run` and `replay` take it."""
    from stalerow.simulator.schedule.file import load
    from stalerow.simulator.schedule.generate import from_draw

    if re.fullmatch(r"[0-9]+", text):
        return from_draw(draw_of(args, number_or_error(text), subject))
    refuse_draw_options(args, f"{text} is a file and says all of it itself")
    return load(text)


def refuse_draw_options(args: argparse.Namespace, why: str) -> None:
    """An option that would be ignored is an error."""
    given = [f"--{n.replace('_', '-')}" for n in DRAW_OPTIONS if getattr(args, n) is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: for seeds only; {why}")


def number_or_error(text: str) -> int:
    try:
        return number(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"seed {error}") from None


def add_engine(parser: argparse.ArgumentParser, several: bool = False) -> None:
    parser.add_argument(
        "--engine",
        choices=("own", "vllm"),
        nargs="+" if several else None,
        default=["own"] if several else "own",
        help="who schedules: the project's own engine, or the scheduler of an installed vLLM (default: own)",
    )
    parser.add_argument("--python", metavar="PATH", default=None, help="Python of an environment that has vLLM")


def _known(engines: ReleasedEngines) -> None:
    try:
        _ = engines.profile
    except ValueError as error:
        raise UsageError(f"vLLM {engines.version}: {' '.join(str(error).split())}") from None


@contextmanager
def released_engines(python: str | None) -> Iterator[ReleasedEngines]:
    """The scheduler of an installed vLLM as an engine factory; whatever vLLM says is one line."""
    from stalerow.simulator.conform.child import LiveError, last_words
    from stalerow.simulator.conform.engine import ReleasedEngines

    if python is None:
        raise UsageError("--engine vllm needs --python PATH: the Python of an environment that has vLLM")
    try:
        with ReleasedEngines(python) as engines:
            _known(engines)
            yield engines
    except LiveError as error:
        raise UsageError(f"{last_words(str(error))} (--python {python})") from None
