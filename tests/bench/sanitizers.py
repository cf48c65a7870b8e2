"""What checks of single launches find, and in what time: ours, compiled or interleaved, or triton-viz's sanitizer.

    python tests/bench/sanitizers.py compiled|interleaved|interpreter|triton-viz [--launches 24] SET...

A row for each kernel: launches by what was said of them, and seconds (the second pass, with everything compiled).
triton-viz 3.0 needs Triton 3.6, NumPy below 2.4 and its own dependencies; give them an environment of their own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

METHODS = ("compiled", "interleaved", "interpreter", "triton-viz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("sets", nargs="+", metavar="SET", help="a release such as vllm==0.33.0")
    parser.add_argument("--launches", type=int, default=24)
    args = parser.parse_args()
    interpreted = args.method in ("interpreter", "triton-viz")
    os.environ["TRITON_INTERPRET"] = str(int(interpreted))
    sys.path.insert(0, str(Path(__file__).parents[1] / "kernels" / "external"))
    print("| kernels | launch | said | seconds |")
    print("| --- | --- | --- | --- |")
    for name in args.sets:
        check(name, args.method, args.launches, "interpreter" if interpreted else "cpu")


def check(name: str, method: str, launches: int, device: str) -> None:
    from hypothesis import HealthCheck, given, settings
    from single_launch import postprocess_cases, precopy_cases, run, step_cases

    from stalerow.kernels.sets import kernel_set

    kernels = kernel_set(name, device)
    once = settings(
        max_examples=launches, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    of = {"preprocess": step_cases, "precopy": precopy_cases, "postprocess": postprocess_cases}
    for operation, cases in of.items():
        drawn = _drawn(once, given(case=cases(alignment=8)))
        if method == "triton-viz":
            traced(kernels.align._kernels[operation])
        for _ in range(2):
            said: Counter[str] = Counter()
            start = time.perf_counter()
            for case in drawn:
                said[launched(lambda case=case, operation=operation: run(kernels, case, operation), method)] += 1
            seconds = time.perf_counter() - start
        told = ", ".join(f"{what} {count}" for what, count in said.most_common())
        print(f"| {name} | {operation} | {told} | {seconds:.2f} |", flush=True)


def _drawn(once: Callable[..., Any], given: Callable[..., Any]) -> list[Any]:
    found: list[Any] = []

    def keep(case: Any) -> None:
        found.append(case)

    once(given(keep))()
    return found


def launched(launch: Callable[[], object], method: str) -> str:
    """What is said of one launch."""
    within: AbstractContextManager[None] = nullcontext()
    logs = []
    if method == "interleaved":
        from stalerow.kernels.compiled.interleave import Interleaver, interleaved

        listening = Interleaver()
        listening.ran = logs.append
        within = interleaved(listening)
    try:
        with within:
            launch()
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__} {str(error)[:60]}".strip()
    return "race" if any(log.races() for log in logs) else "nothing"


def traced(kernel: object) -> None:
    import triton_viz
    from triton_viz.clients import Sanitizer

    kernel._function = triton_viz.trace(client=Sanitizer(abort_on_error=True))(kernel._function)


if __name__ == "__main__":
    main()
