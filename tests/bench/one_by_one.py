"""Schedules a second and core, one by one, of this tree and of an earlier commit, in turns in one run.

    python tests/bench/one_by_one.py [--before COMMIT] [--kernels SET ...] [--schedules N] [--rounds N]

Every measurement is a process of its own that warms up on its schedules, so that nothing is compiled or imported in
what is timed, and counts its own CPU seconds: other work on the machine is not counted, though it slows what is.
The best of the rounds is printed. A seed's schedule changes with the generator, so steps are printed beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MEASURE = """
import importlib, json, sys, time
sys.meta_path = [f for f in sys.meta_path if "__editable__" not in str(f)]
sys.path.insert(0, sys.argv[1])
kernels, seeds = sys.argv[2], int(sys.argv[3])

def first(*names):
    for name in names:
        try:
            return importlib.import_module("stalerow." + name)
        except ModuleNotFoundError as error:
            if not error.name.startswith("stalerow"):
                raise

from_seed = first("simulator.schedule.generate", "simulator.generate").from_seed
run = first("simulator.run.outcome", "simulator.run").run
began = time.process_time()
kernels = first("kernels.sets").kernel_set(kernels, "cpu")
schedules = [from_seed(seed) for seed in range(seeds)]
outcomes = [run(schedule, kernels) for schedule in schedules]
cold = time.process_time() - began
began = time.process_time()
for schedule in schedules:
    run(schedule, kernels)
warm = time.process_time() - began
steps = sum(outcome.steps for outcome in outcomes)
print(json.dumps({"rate": seeds / warm, "steps": steps / warm, "cold": cold, "backend": kernels.backend.name}))
"""


def measure(tree: Path, kernels: str, schedules: int, cache: Path) -> dict[str, float]:
    """One process over one tree: schedules and steps a CPU second, and CPU seconds of the first pass."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "stalerow")
        package.mkdir()
        for room in ("kernels", "simulator", "scenarios"):
            (package / room).symlink_to(tree / room)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", MEASURE, folder, kernels, str(schedules)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"STALEROW_CACHE": str(cache)},
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="COMMIT", help="measure this commit, too")
    parser.add_argument("--kernels", nargs="+", default=["reference:req-idx", "req-idx"])
    parser.add_argument("--schedules", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trees = {"now": ROOT}
        if options.before:
            trees = {options.before: Path(folder, "before")} | trees
            git = ["git", "-C", str(ROOT), "worktree"]
            add = [*git, "add", "--detach", str(trees[options.before]), options.before]
            subprocess.run(add, check=True, capture_output=True)
        try:
            print(
                "| kernels | tree | backend | schedules a CPU second | steps a CPU second | first pass, CPU seconds |"
            )
            print("| --- | --- | --- | --- | --- | --- |")
            cache = Path(os.environ.get("STALEROW_CACHE", folder))
            for kernels in options.kernels:
                rounds = [
                    {name: measure(tree, kernels, options.schedules, cache) for name, tree in trees.items()}
                    for _ in range(options.rounds)
                ]
                for name in trees:
                    best = max((found[name] for found in rounds), key=lambda found: found["rate"])
                    cold = max(found[name]["cold"] for found in rounds)
                    rates = f"{best['rate']:.1f} | {best['steps']:.0f} | {cold:.1f}"
                    print(f"| {kernels} | {name} | {best['backend']} | {rates} |", flush=True)
        finally:
            if options.before:
                subprocess.run([*git, "remove", "--force", str(trees[options.before])], check=False)


if __name__ == "__main__":
    main()
