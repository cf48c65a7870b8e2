"""An engine's kernels, loaded as users load them: one that damages memory is blamed itself, as our own are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.simulator.rank.operations import Indices, Postprocess, Precopy, Preprocess
from stalerow.simulator.subject.subject import Subject

from ...simulator.oracle.damaging import blamed, flip_one, schedules
from .synthetic import BATCH_ROW, KERNEL_FILE, write_engine
from .test_releases import released

UNDER_TEST = (Preprocess, Precopy, Indices, Postprocess)
WRITTEN = [
    ("preprocess", "state_idx"),
    ("preprocess", "num_accepted"),
    ("preprocess", "src_col"),
    ("preprocess", "src_off"),
    ("precopy", "pool"),
    ("aligned_indices", "state_indices"),
    ("postprocess", "pool"),
    ("postprocess", "num_accepted"),
]
RELEASES = ("0.28.0", "0.30.0", "0.32.0", "0.33.0", "0.34.0")
"""Of both calling conventions, before and after the fix."""


def every_one_is_named(kernels: KernelSet, seeds: range, places: tuple[float, ...]) -> None:
    """Each launch under test flips a byte of the pool, and each kernel writes a wrong byte into what it writes."""
    wrong = []
    for kind in UNDER_TEST:
        for place in places:
            operation, found = flip_one(kernels, kind, int(place * 3), place)
            if [(v.launch, v.during) for v in found[:1]] != [(operation.kind, operation.step)]:
                wrong.append((kind, place, found[:1]))
    for call, array in WRITTEN:
        for seed in seeds:
            operation, found = blamed(kernels, call, array, seed)
            if [(v.launch, v.during) for v in found[:1]] != [(operation.kind, operation.step)]:
                wrong.append((call, array, seed, found[:1]))
    assert wrong == []


@pytest.mark.parametrize("choices", [{}, BATCH_ROW], ids=["slot", "row"])
def test_a_checkout_whose_kernels_damage_a_byte(tmp_path: Path, choices: dict[str, str]) -> None:
    every_one_is_named(kernel_set(str(write_engine(tmp_path, **choices)), "cpu"), range(2), (0.0, 0.4, 1.0))


@pytest.mark.network
@pytest.mark.parametrize("version", RELEASES)
def test_a_release_whose_kernels_damage_a_byte(version: str) -> None:
    every_one_is_named(kernel_set(released(version), "cpu"), range(6), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


EDITS = {
    "preprocess": ("tl.store(state_idx_ptr + slot, new,", "tl.store(state_idx_ptr + slot, new + 1,"),
    "precopy": ("tl.program_id(1), req_idx, source,", "tl.program_id(1), req_idx, target,"),
    "postprocess": ("state, table_row, running, target, bias,", "state, table_row, running, target, 0,"),
}
"""One line of each of the engine's kernels, and what is wrong in its place."""


@pytest.mark.parametrize("launch", EDITS)
def test_a_kernel_that_is_wrong_in_its_source(tmp_path: Path, launch: str) -> None:
    file = write_engine(tmp_path) / "vllm" / KERNEL_FILE
    right, wrong = EDITS[launch]
    text = file.read_text()
    assert text.count(right) == 1
    file.write_text(text.replace(right, wrong))
    subject = Subject(kernels=str(tmp_path), device="cpu")
    first = None
    for schedule in schedules(subject.load(), 0):
        found = subject.run(schedule).violations
        if found:
            first = found[0]
            break
    assert first is not None
    assert first.launch == launch
