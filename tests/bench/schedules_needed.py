"""How many schedules plain fuzzing needs to find each fault, over 20 starting seeds; optionally into the catalogue.

    python tests/bench/schedules_needed.py [FAULT ...] [--starts 20] [--limit 2000] [--jobs 2] [--write]
    python tests/bench/schedules_needed.py [FAULT ...] --orders [--limit 100]       a row per fault, a column per order

A start is a seed far from the others; from there seeds are tried one after the other, without scenario or bias, until
a run's first violation is the one that the fault's reports describe. Seeds whose schedule lacks what a fault cannot do
without count as tried. `--write` stores the figures in the catalogue's files. `--orders` has the same seeds draw each
kind of order of events instead of their own: canonical, with holds, uniform, PCT, POS; "mix" is what seeds draw.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec

from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.scenarios import FOLDER, Measured, catalogue
from stalerow.scenarios.writer import to_toml
from stalerow.simulator.faults import Faults, builtin_faults, resolve
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.loop import Simulation
from stalerow.simulator.schedule.choosers.family import seeded
from stalerow.simulator.schedule.generate import HOLDS, ORDERS, generate
from stalerow.simulator.schedule.values import Schedule

STRIDE = 1_000_003
KINDS = ("canonical", "holds", "uniform", "pct", "pos", "mix")


@dataclass(frozen=True, slots=True)
class Needed:
    """Seeds tried from one start; `seed` is the one that found it, None if none did."""

    tried: int
    seed: int | None


class Ordered:
    """A seed's chooser, but for the kind of order of events."""

    def __init__(self, seed: int, order: str) -> None:
        self._own, self._order = seeded(seed, None), order

    def pick(self, n: int, label: str) -> int:
        if label == "order kind" and self._order != "mix":
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


def needed(fault: str, start: int, limit: int, order: str = "mix") -> Needed:
    """Try seeds from a start until the fault shows, at most `limit`."""
    faults = resolve([fault])
    (only,) = faults.faults
    kernels = kernel_set("reference:req-idx")
    for tried in range(1, limit + 1):
        seed = start * STRIDE + tried - 1
        schedule = generate(Ordered(seed, order))
        if not faults.needs(schedule):
            continue
        violation = first_violation(faults, schedule, kernels)
        if violation is not None and only.shows(violation):
            return Needed(tried, seed)
    return Needed(limit, None)


def measure(faults: list[str], starts: int, limit: int, jobs: int) -> Iterator[tuple[str, list[Needed]]]:
    """Every fault with what each start needed."""
    with ProcessPoolExecutor(jobs) as pool:
        for fault in faults:
            futures = [pool.submit(needed, fault, start, limit) for start in range(starts)]
            yield fault, [future.result() for future in futures]


def by_order(faults: list[str], starts: int, limit: int, jobs: int) -> None:
    """Print the table: the median over the starts, and how many found nothing if any did."""
    print(f"{'fault':22}" + "".join(f"{order:>14}" for order in KINDS), flush=True)
    with ProcessPoolExecutor(jobs) as pool:
        for fault in faults:
            row = [[pool.submit(needed, fault, start, limit, order) for start in range(starts)] for order in KINDS]
            cells = []
            for futures in row:
                found = [future.result() for future in futures]
                missed = sum(n.seed is None for n in found)
                median = statistics.median(n.tried for n in found)
                shown = f">{limit}" if missed > starts / 2 else f"{median:g}"
                cells.append(shown + (f" ({missed} no)" if missed else ""))
            print(f"{fault:22}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def summary(found: list[Needed]) -> Measured:
    """Figures for the catalogue. A start that never found it counts with the limit."""
    tried = [n.tried for n in found]
    hits = sum(n.seed is not None for n in found)
    return Measured(
        date=datetime.date.today(),
        starts=len(found),
        found=hits,
        median=round(statistics.median(tried)),
        worst=max(tried),
    )


def write(fault: str, measured: Measured) -> None:
    """Store the figures in the scenarios that consist of this fault alone."""
    for scenario in catalogue().values():
        if scenario.faults == (fault,):
            text = to_toml(msgspec.structs.replace(scenario, measured=measured))
            (FOLDER / f"{scenario.name}.toml").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--orders", action="store_true")
    args = parser.parse_args()
    if args.orders:
        by_order(args.faults or list(builtin_faults()), args.starts, args.limit, args.jobs)
        return
    for fault, found in measure(args.faults or list(builtin_faults()), args.starts, args.limit, args.jobs):
        measured = summary(found)
        first = next((n.seed for n in found if n.seed is not None), None)
        print(
            f"{fault:22} found {measured.found}/{measured.starts}, median {measured.median}, "
            f"worst {measured.worst}, first seed {first}",
            flush=True,
        )
        if args.write:
            write(fault, measured)


if __name__ == "__main__":
    main()
