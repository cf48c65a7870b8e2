"""How many schedules fuzzing needs to find each fault, over 20 starting seeds and for every kind of order of events.

    python tests/bench/schedules_needed.py [FAULT ...] [--orders KIND ...] [--starts 20] [--limit 100] [--jobs 1]
        [--minutes M] [--results FILE]
    python tests/bench/schedules_needed.py --table [--results FILE ...]  what is in the files, as Markdown
    python tests/bench/schedules_needed.py --write [--results FILE ...]  "mix" into the catalogue's files

A start is a seed far from the others; from there seeds are tried one after the other, without scenario or bias, until
a run's first violation is the one that the fault's reports describe, or `--limit` were tried. Seeds whose schedule
lacks what a fault cannot do without count as tried. A kind of order is one that seeds draw, by itself (canonical, with
holds, uniform, PCT, POS), all of them as seeds draw them (mix), or that with another half of the features left out at
every start (swarm): a seed's workload is the same under every kind but the last.

Every figure is one line of the results file, written as soon as it is known; a second call does what is missing. A
figure holds for the program that it was measured with (a digest of the sources that are imported): after a change of
any of them it is measured again, and what is read is of the last line's program. What depends on no machine and no
load needs no such care, so that parts may come from several machines. Where shares alone have changed, the kinds that
they mix can be measured into a file of their own: of several, the last that has a figure counts.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import msgspec

import stalerow.kernels
import stalerow.simulator
from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.scenarios import FOLDER, Measured, catalogue
from stalerow.scenarios.writer import to_toml
from stalerow.simulator.faults import Faults, builtin_faults, resolve
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.simulation import Simulation
from stalerow.simulator.schedule.choosers import Chooser
from stalerow.simulator.schedule.choosers.family import seeded
from stalerow.simulator.schedule.choosers.swarm import SwarmChooser
from stalerow.simulator.schedule.generate import HOLDS, ORDERS, generate
from stalerow.simulator.schedule.values import Schedule

STRIDE = 1_000_003
KINDS = ("canonical", "holds", "uniform", "pct", "pos", "mix", "swarm")
DRAWN = ("mix", "swarm")
"""Kinds whose figures are those of the shares that seeds draw the others with."""


class Needed(msgspec.Struct, frozen=True):
    """Seeds `tried` from one start; `seed` is the one that found it, None if none did. `program`: `digest`."""

    fault: str
    order: str
    start: int
    tried: int
    seed: int | None
    program: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.fault, self.order, self.start


Task = tuple[str, int, int, str]
"""Arguments of `needed`."""


class Ordered:
    """A seed's chooser, but for the kind of order of events."""

    def __init__(self, seed: int, order: str) -> None:
        self._own, self._order = seeded(seed, None), order

    def pick(self, n: int, label: str) -> int:
        if label == "order kind" and self._order not in DRAWN:
            kind = "planned" if self._order in ("canonical", "holds") else self._order
            return [str(k) for k in ORDERS].index(kind)
        if label == "holds" and self._order == "canonical":
            return 0
        if label == "holds" and self._order == "holds":
            # One hold at least: a plan without any is the canonical order.
            return max(self._own.pick(n, label), HOLDS.index(1))
        return self._own.pick(n, label)


class _Violated(Exception):
    """Ends a run at its first violation."""


def first_violation(faults: Faults, schedule: Schedule, kernels: KernelSet) -> Violation | None:
    found: list[Violation] = []

    def watch(simulation: Simulation, actor: str, done: object) -> None:
        if simulation.found:
            found.append(simulation.found[0])
            raise _Violated

    try:
        violations = faults.run(schedule, kernels, observer=watch).violations
    except _Violated:
        return found[0]
    return violations[0] if violations else None


@cache
def digest() -> str:
    """Of the Python files of the packages that a figure depends on."""
    sha = hashlib.sha256()
    for package in (stalerow.kernels, stalerow.simulator):
        root = Path(package.__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            sha.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return sha.hexdigest()[:12]


def needed(fault: str, start: int, limit: int, order: str = "mix") -> Needed:
    """Try seeds from a start until the fault shows, at most `limit`."""
    faults = resolve([fault])
    (only,) = faults.faults
    kernels = kernel_set("reference:req-idx")
    for tried in range(1, limit + 1):
        seed = start * STRIDE + tried - 1
        chooser: Chooser = Ordered(seed, order)
        schedule = generate(SwarmChooser(chooser, start) if order == "swarm" else chooser)
        if not faults.needs(schedule):
            continue
        violation = first_violation(faults, schedule, kernels)
        if violation is not None and only.shows(violation):
            return Needed(fault, order, start, tried, seed, digest())
    return Needed(fault, order, start, limit, None, digest())


def measure(tasks: Sequence[Task], jobs: int, minutes: float, path: Path) -> None:
    """Add the tasks' figures to the file, for at most so many minutes but for what has begun by then."""
    end = time.monotonic() + 60 * minutes
    waiting: Iterator[Task] = iter(tasks)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool, path.open("ab") as file:
        running: set[Future[Needed]] = set()
        while True:
            room = 2 * jobs - len(running) if time.monotonic() < end else 0
            running |= {pool.submit(needed, *task) for task in islice(waiting, room)}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                file.write(msgspec.json.encode(future.result()) + b"\n")
            file.flush()


def missing(faults: Sequence[str], orders: Sequence[str], starts: int, limit: int, path: Path) -> list[Task]:
    """What the file lacks for the program as it is; where nothing was found, again if the limit is higher now."""
    known = {n.key: n for n in read(path) if n.program == digest()}
    lacks = []
    for fault in faults:
        for order in orders:
            for start in range(starts):
                had = known.get((fault, order, start))
                if had is None or (had.seed is None and had.tried < limit):
                    lacks.append((fault, start, limit, order))
    return lacks


def read(*paths: Path) -> list[Needed]:
    """The figures of the program that a file's last line is of, the last of each."""
    known: dict[tuple[str, str, int], Needed] = {}
    for path in paths:
        lines = path.read_bytes().splitlines() if path.exists() else []
        found = [msgspec.json.decode(line, type=Needed) for line in lines if line.endswith(b"}")]
        known |= {n.key: n for n in found if n.program == found[-1].program}
    return list(known.values())


def _of(found: Iterable[Needed], fault: str, order: str) -> list[Needed]:
    return [n for n in found if (n.fault, n.order) == (fault, order)]


def _cell(found: Sequence[Needed]) -> str:
    """The median, the mean where it differs, and how many starts found nothing if any did."""
    if not found:
        return ""
    missed = sum(n.seed is None for n in found)
    median, mean = statistics.median(n.tried for n in found), statistics.fmean(n.tried for n in found)
    if missed * 2 >= len(found):
        return f"over {max(n.tried for n in found)} ({missed} of {len(found)})"
    return f"{median:g} ({mean:.1f})" if not missed else f"{median:g} ({missed} of {len(found)} none)"


def table(found: Sequence[Needed]) -> str:
    """Markdown: a row a fault, a column a kind of order; last, the geometric mean over the faults of every column."""
    faults = sorted({n.fault for n in found})
    orders = [order for order in KINDS if any(n.order == order for n in found)]
    whole = [fault for fault in faults if all(_of(found, fault, order) for order in orders)]
    rows = [f"| fault | {' | '.join(orders)} |", "| --- |" + " --- |" * len(orders)]
    for fault in faults:
        rows.append(f"| `{fault}` | {' | '.join(_cell(_of(found, fault, order)) for order in orders)} |")
    means = []
    for order in orders:
        tried = [statistics.fmean(n.tried for n in _of(found, fault, order)) for fault in whole]
        means.append(f"{statistics.geometric_mean(tried):.2f}" if tried else "")
    return "\n".join([*rows, f"| geometric mean of the means | {' | '.join(means)} |"])


def summary(found: Sequence[Needed]) -> Measured:
    """Figures for the catalogue."""
    tried = [n.tried for n in found]
    return Measured(
        date=datetime.date.today(),
        starts=len(found),
        found=sum(n.seed is not None for n in found),
        median=round(statistics.median(tried)),
        worst=max(tried),
    )


def write(found: Sequence[Needed]) -> None:
    """Store the figures of "mix" in the scenarios of one fault alone that every start found; others keep theirs."""
    for scenario in catalogue().values():
        mine = _of(found, scenario.faults[0], "mix") if len(scenario.faults) == 1 else []
        if mine and all(n.seed is not None for n in mine):
            text = to_toml(msgspec.structs.replace(scenario, measured=summary(mine)))
            (FOLDER / f"{scenario.name}.toml").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*")
    parser.add_argument("--orders", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, nargs="+", default=[Path("schedules_needed.jsonl")])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if not args.table and not args.write:
        faults = args.faults or list(builtin_faults())
        *_, path = args.results
        tasks = missing(faults, args.orders, args.starts, args.limit, path)
        measure(tasks, args.jobs, args.minutes, path)
        left = len(missing(faults, args.orders, args.starts, args.limit, path))
        print(f"{len(tasks) - left} figures measured, {left} are missing")
        return
    if args.write:
        write(read(*args.results))
    if args.table:
        print(table(read(*args.results)))


if __name__ == "__main__":
    main()
