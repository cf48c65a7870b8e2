"""Random single launches of a kernel set, one digest each: run in two processes, they say whether two forms agree.

    python launches.py DEVICE EXAMPLES SET [SET ...]

prints a JSON object of digests by "SET operation".
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1" if sys.argv[1] == "interpreter" else "0"
    sys.path.insert(0, str(Path(__file__).parents[1] / "external"))

from hypothesis import HealthCheck, given, settings
from single_launch import Case, postprocess_cases, precopy_cases, run, step_cases

from stalerow.kernels.sets import KernelSet, kernel_set

CASES = {
    "preprocess": step_cases,
    "precopy": precopy_cases,
    "postprocess": postprocess_cases,
    "aligned_indices": step_cases,
}


def digests(name: str, device: str, examples: int) -> dict[str, list[str]]:
    """A digest of everything that each launch may write, by operation. States are aligned as every release wants it."""
    kernels = kernel_set(name, device)
    return {f"{name} {operation}": launched(kernels, operation, examples) for operation in CASES}


def launched(kernels: KernelSet, operation: str, examples: int) -> list[str]:
    found: list[str] = []

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=CASES[operation](alignment=8))
    def one(case: Case) -> None:
        digest = hashlib.blake2b(repr(case).encode(), digest_size=8)
        for array in run(kernels, case, operation).values():
            digest.update(array.tobytes())
        found.append(digest.hexdigest())

    one()
    return found


if __name__ == "__main__":
    device, examples, *names = sys.argv[1:]
    print(json.dumps({key: value for name in names for key, value in digests(name, device, int(examples)).items()}))
