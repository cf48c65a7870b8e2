"""Many universes: schedules per second in packs and one by one, and equal digests with the reference.

    python tests/bench/universes.py [--device cuda] [--schedules 10000] [--universes 4096] [--families 2] [--jobs 16]

Four rates, the same schedules in all: from seeds to verdicts (`end to end`: recording in worker processes, execution in
one, what `fuzz --universes` does), recording alone, execution alone (packs at hand, kernels compiled), and one schedule
at a time in one process. Every schedule's digest is compared with the reference kernels', whose packs run in the worker
processes. On a machine without a GPU give --device cpu: the reference kernels are then measured themselves.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import time
from collections.abc import Iterator
from typing import Any

from stalerow.simulator.campaign.findings import Tally
from stalerow.simulator.campaign.scan import CHUNK, Lockstep, Record, Scan, Universe, do
from stalerow.simulator.campaign.workers import Workers
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject


def seeds(count: int) -> Iterator[Draw]:
    return (Draw(number) for number in range(count))


def end_to_end(subject: Subject, options: argparse.Namespace) -> float:
    """Seconds from the first seed to the last verdict."""
    tally = Tally()
    scan = Scan(subject, seeds(options.schedules), options.universes, options.families, options.jobs, keep_going=True)
    begin = time.perf_counter()
    scan.run(tally, lambda: None)
    return time.perf_counter() - begin


def recorded(subject: Subject, options: argparse.Namespace, universes: int | None) -> tuple[list[Any], float]:
    """What worker processes make of the seeds, recordings or with `universes` verdicts, and the seconds it took them.

    The processes are started and warm before the clock is.
    """
    tasks = [
        Record(
            tuple(_family(n, options) for n in range(first, min(first + CHUNK, options.schedules))), subject, universes
        )
        for first in range(0, options.schedules, CHUNK)
    ]
    with Workers(options.jobs, do) as workers:
        for _ in workers.map(iter([Record(tasks[0].draws[:1], subject, universes)] * options.jobs)):
            pass
        begin = time.perf_counter()
        made = [one for done in workers.map(iter(tasks)) for one in _value(done)]
        return made, time.perf_counter() - begin


def _family(number: int, options: argparse.Namespace) -> Draw:
    # Chunks do not cross families.
    chunks = max(options.universes // CHUNK, 1)
    return Draw(number, runner="v2", family=number // CHUNK // chunks % options.families)


def _value(done: Any) -> list[Any]:
    if done.error is not None or done.died:
        raise SystemExit(f"{done.task}: {done.error or done.died}")
    return list(done.value)


def in_packs(subject: Subject, recordings: list[Any], universes: int) -> tuple[list[Universe], float, float]:
    """Verdicts, and the seconds of a first run, which compiles, and of a second."""
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        found = Lockstep(recordings, subject, universes).do()
        times.append(time.perf_counter() - begin)
    return found, times[0], times[1]


def alone(subject: Subject, options: argparse.Namespace) -> float:
    """Seconds of one schedule of the first family by itself, kernels compiled."""
    schedules = [from_draw(Draw(number, runner="v2", family=0)) for number in range(options.alone)]
    for schedule in schedules[:2]:
        subject.run(schedule)
    begin = time.perf_counter()
    for schedule in schedules:
        subject.run(schedule)
    return (time.perf_counter() - begin) / len(schedules)


def measure(name: str, options: argparse.Namespace) -> None:
    """One table."""
    reference = Subject(kernels=f"reference:{name}")
    subject = reference if options.device == "cpu" else Subject(kernels=name, device="cuda")
    spec, _ = recorded(reference, options, options.universes)
    recordings, recording = recorded(reference, options, None)
    found, first, second = in_packs(subject, recordings, options.universes)
    spec.sort(key=lambda universe: universe.draw.seed)
    equal = sum(a.memory == b.memory for a, b in zip(found, spec, strict=True))
    same = sum(a.flagged == b.flagged for a, b in zip(found, spec, strict=True))
    single, whole, count = alone(subject, options), end_to_end(subject, options), options.schedules
    what = f"{count} schedules of {options.families} families, {options.universes} universes"
    print(f"\n{subject} on {options.device}, {what}\n")
    print("| what | schedules per second | times one by one |")
    print("| --- | --- | --- |")
    rates = {
        "one by one": 1 / single,
        "end to end": count / whole,
        f"recording, {options.jobs} processes": count / recording,
        "execution in packs": count / second,
        "execution in packs, kernels compiled on the way": count / first,
    }
    for what, rate in rates.items():
        print(f"| {what} | {rate:.1f} | {rate * single:.1f} |")
    flagged = sum(universe.flagged for universe in found)
    print(f"\nequal digests {equal} of {count}, equal verdicts {same} of {count}, flagged {flagged}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--kernels", nargs="+", default=["req-idx", "batch-row"], help="without 'reference:'")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--universes", type=int, default=4096)
    parser.add_argument("--families", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--alone", type=int, default=12, help="schedules to run one by one")
    options = parser.parse_args()
    print(f"{datetime.date.today()}, {machine(options.device)}, {options.jobs} processes")
    for name in options.kernels:
        measure(name, options)


def machine(device: str) -> str:
    if device == "cpu":
        return f"{platform.machine()}, {os.cpu_count()} cores"
    import torch
    import triton

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}"


if __name__ == "__main__":
    main()
