"""How many schedules plain fuzzing needs to find each fault, over 20 starting seeds; optionally into the catalogue.

    python tests/bench/schedules_needed.py [FAULT ...] [--starts 20] [--limit 2000] [--jobs 2] [--write]

A start is a seed far from the others; from there seeds are tried one after the other, without scenario or bias, until
a run's first violation is the one that the fault's reports describe. Seeds whose schedule lacks what a fault cannot do
without count as tried. `--write` stores the figures in the catalogue's files.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec

from stalerow.kernels.sets import kernel_set
from stalerow.scenarios import FOLDER, Measured, catalogue
from stalerow.scenarios.writer import to_toml
from stalerow.simulator.faults import builtin_faults, resolve
from stalerow.simulator.schedule.generate import from_seed

STRIDE = 1_000_003


@dataclass(frozen=True, slots=True)
class Needed:
    """Seeds tried from one start; `seed` is the one that found it, None if none did."""

    tried: int
    seed: int | None


def needed(fault: str, start: int, limit: int) -> Needed:
    """Try seeds from a start until the fault shows, at most `limit`."""
    faults = resolve([fault])
    (only,) = faults.faults
    kernels = kernel_set("reference:req-idx")
    for tried in range(1, limit + 1):
        seed = start * STRIDE + tried - 1
        schedule = from_seed(seed)
        if not faults.needs(schedule):
            continue
        outcome = faults.run(schedule, kernels)
        if outcome.violations and only.shows(outcome.violations[0]):
            return Needed(tried, seed)
    return Needed(limit, None)


def measure(faults: list[str], starts: int, limit: int, jobs: int) -> Iterator[tuple[str, list[Needed]]]:
    """Every fault with what each start needed."""
    with ProcessPoolExecutor(jobs) as pool:
        for fault in faults:
            futures = [pool.submit(needed, fault, start, limit) for start in range(starts)]
            yield fault, [future.result() for future in futures]


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
    args = parser.parse_args()
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
