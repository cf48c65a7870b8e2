"""One mutant's trial, in a process of its own: run until something is wrong, and say what.

    python trial.py healthy|faults|packs|triton SEEDS SCENARIOS WORDS [RUNNER]

SCENARIOS is the catalogue's folder, WORDS the file with its sentences. Prints one line: "caught WHERE HOW" or "survived
SEEDS". A violation of a correct system, a missed or mistold one, another memory, a refused schedule, an exception and a
run that never ends by itself all count as caught.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stalerow.simulator.oracle.ledger import Ledger
    from stalerow.simulator.run.simulation import Simulation

FAMILIES, UNIVERSES = 4, 10
TRITON_SEEDS = (376, 39, 332, 71, 152, 259, 163, 175, 4, 261)
"""Short ones with both window layouts, several groups, states and layers, odd sizes and offsets."""

Findings = Iterator[str]


def healthy(seeds: int, scenarios: Path, words: Path, runner: str | None) -> Findings:
    from stalerow.kernels.sets import kernel_set
    from stalerow.simulator.run.outcome import run
    from stalerow.simulator.schedule.generate import from_seed

    kernels = kernel_set("reference:req-idx")
    for seed in range(seeds):
        outcome = run(from_seed(seed, None, runner), kernels)  # type: ignore[arg-type]
        if outcome.violations:
            yield f"{seed} {outcome.violations[0].kind} at {outcome.violations[0].launch}"
        if outcome.stopped:
            yield f"{seed} stopped: {outcome.stopped}"


def faults(seeds: int, scenarios: Path, words: Path, runner: str | None) -> Findings:
    from stalerow.kernels.sets import kernel_set
    from stalerow.scenarios.loader import catalogue
    from stalerow.simulator.run.outcome import run

    told = words.read_text(encoding="utf-8")
    for name, scenario in catalogue(scenarios).items():
        if scenario.schedule is None:
            continue
        found = scenario.resolve().run(scenario.schedule, kernel_set(scenario.kernels)).violations
        if not found:
            yield f"{name} is missed"
        elif f"[{name}]\n{found[0].kind}: {found[0].explanation}\n" not in told:
            yield f"{name} is told as {found[0].kind} at {found[0].launch}"
        ledgers: list[Ledger] = []
        healthy = run(scenario.schedule, kernel_set("reference:req-idx"), observer=partial(_keep, ledgers))
        if healthy.violations:
            yield f"{name} {healthy.violations[0].kind} at {healthy.violations[0].launch} without its fault"
        if any(
            o.request not in ledger.columns for ledger in ledgers for owners in ledger.owners.values() for o in owners
        ):
            yield f"{name}: blocks belong to a request that has left"
    yield from healthy_all(seeds, scenarios, words, runner)


def _keep(ledgers: list[Ledger], simulation: Simulation, actor: str, done: object) -> None:
    ledgers[:] = [judge.ledger for judge in simulation.judges]


def healthy_all(seeds: int, scenarios: Path, words: Path, runner: str | None) -> Findings:
    yield from healthy(min(seeds, 40), scenarios, words, runner)


def packs(seeds: int, scenarios: Path, words: Path, runner: str | None) -> Findings:
    from stalerow.kernels.sets import kernel_set
    from stalerow.simulator.run.outcome import run
    from stalerow.simulator.schedule.draw import Draw
    from stalerow.simulator.schedule.generate import from_draw
    from stalerow.simulator.universes.execute import execute
    from stalerow.simulator.universes.pack import pack
    from stalerow.simulator.universes.record import record

    for family in range(FAMILIES):
        schedules = [from_draw(Draw(seed, runner="v2", family=family)) for seed in range(UNIVERSES)]
        for name in ("reference:req-idx", "reference:batch-row"):
            kernels = kernel_set(name)
            verdicts = execute(pack(schedules[0].layout, [record(s, kernels.align) for s in schedules]), kernels)
            for seed, (schedule, verdict) in enumerate(zip(schedules, verdicts)):
                alone = run(schedule, kernels)
                if (verdict.first is not None) != bool(alone.violations):
                    yield f"family {family} seed {seed} {name}: {verdict.check or 'clean'} in a pack"
                if not alone.violations and verdict.memory != alone.memory:
                    yield f"family {family} seed {seed} {name}: other memory"


def triton(seeds: int, scenarios: Path, words: Path, runner: str | None) -> Findings:
    from stalerow.kernels.sets import kernel_set
    from stalerow.scenarios.loader import catalogue
    from stalerow.simulator.run.outcome import run
    from stalerow.simulator.schedule.generate import from_seed

    short = [(n, s.schedule) for n, s in catalogue(scenarios).items() if s.schedule and not n.startswith("seed-units-")]
    for name, schedule in [*short, *((f"seed {seed}", from_seed(seed, runner="v2")) for seed in TRITON_SEEDS)]:
        ours, spec = (run(schedule, kernel_set(*which)) for which in (("req-idx", "cpu"), ("reference:req-idx",)))
        if ours.violations:
            yield f"{name} {ours.violations[0].kind} at {ours.violations[0].launch}"
        if ours.digest != spec.digest:
            yield f"{name}: other bytes than the reference"


TRIALS: dict[str, Callable[[int, Path, Path, str | None], Findings]] = {
    "healthy": healthy,
    "faults": faults,
    "packs": packs,
    "triton": triton,
}


def main() -> None:
    trial, seeds, scenarios, words, *runner = sys.argv[1:]
    try:
        found = next(TRIALS[trial](int(seeds), Path(scenarios), Path(words), runner[0] if runner else None), None)
    except Exception as error:
        found = f"- {type(error).__name__}: {' '.join(str(error).split())[:80]}"
    print(f"survived {seeds}" if found is None else f"caught {found}")


if __name__ == "__main__":
    main()
