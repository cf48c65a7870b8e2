"""One mutant's trial, in a process of its own: run schedules until something is wrong, and say what.

    python trial.py SEEDS [RUNNER]

Prints one line: "caught SEED HOW" or "survived SEEDS". A violation, a refused schedule, an exception and a run that
never ends by itself all count as caught.
"""

from __future__ import annotations

import sys


def main() -> None:
    from stalerow.kernels.sets import kernel_set
    from stalerow.simulator.run.outcome import run
    from stalerow.simulator.schedule.generate import from_seed

    seeds, runner = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    kernels = kernel_set("reference:req-idx")
    for seed in range(seeds):
        schedule = from_seed(seed, None, runner)  # type: ignore[arg-type]
        try:
            outcome = run(schedule, kernels)
        except Exception as error:
            print(f"caught {seed} {type(error).__name__}: {' '.join(str(error).split())[:80]}")
            return
        if outcome.violations:
            first = outcome.violations[0]
            print(f"caught {seed} {first.kind} at {first.launch}")
            return
        if outcome.stopped:
            print(f"caught {seed} stopped: {outcome.stopped}")
            return
    print(f"survived {seeds}")


if __name__ == "__main__":
    main()
