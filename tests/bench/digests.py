"""Digests of many schedules, to compare one commit with another: a refactoring changes none.

`save FILE` writes schedules of seeds 0 to N as JSON lines; `run FILE` prints a line per schedule, kernel set and
digest, with the first violation, and the processor time taken. Seeds may be re-mapped by a change of the generator;
files stay.

    python tests/bench/digests.py save /tmp/schedules.jsonl --count 1000
    python tests/bench/digests.py run /tmp/schedules.jsonl > /tmp/before.txt
    (the other commit)  python tests/bench/digests.py run /tmp/schedules.jsonl | diff /tmp/before.txt -
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed
from stalerow.simulator.schedule.values import Schedule


def save(path: Path, count: int) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(from_seed(seed)) + b"\n" for seed in range(count)))


def digest(path: Path, names: list[str]) -> None:
    schedules = [msgspec.json.decode(line, type=Schedule) for line in path.read_bytes().splitlines()]
    for name in names:
        kernels = kernel_set(name)
        began = time.process_time()
        for number, schedule in enumerate(schedules):
            outcome = run(schedule, kernels)
            first = outcome.violations[0].identity() if outcome.violations else "clean"
            print(name, number, outcome.digest, outcome.memory, first)
        print(f"{name}: {time.process_time() - began:.1f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("save", "run"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1000, help="schedules to save")
    parser.add_argument("--kernels", nargs="+", default=["reference:req-idx", "reference:batch-row"])
    options = parser.parse_args()
    if options.verb == "save":
        save(options.file, options.count)
    else:
        digest(options.file, options.kernels)


if __name__ == "__main__":
    main()
