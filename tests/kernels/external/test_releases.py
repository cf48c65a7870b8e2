"""Published vLLM releases: what is found in each, agreement with the project's kernels, and edits that are caught.

Needs a package index, so these tests run only where STALEROW_NETWORK_TESTS is set and the wheel can be had.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stalerow.kernels.external import DownloadError, MissingKernel, describe, load
from stalerow.kernels.external.wheel import KERNEL_FILE, fetch
from stalerow.kernels.sets import KernelSet, kernel_set

from .single_launch import Case, differences, postprocess_cases, precopy_cases, run, step_cases

pytestmark = pytest.mark.network

# Found by reading every wheel from 0.20.0 on; 0.25.0 is the first with the align kernels of runner V2.
BATCH_ROW = ("0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0")
SLOT = ("0.32.0", "0.33.0")
IN_PLACE = ("0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1")
EXAMPLES = int(os.environ.get("STALEROW_NETWORK_EXAMPLES", "60"))

CASES: dict[str, Callable[..., st.SearchStrategy[Case]]] = {
    "preprocess": step_cases,
    "precopy": precopy_cases,
    "postprocess": postprocess_cases,
    "aligned_indices": step_cases,
}


def budget(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def released(version: str) -> str:
    """The name of a release whose sources are in the cache, or a skip that says why they are not."""
    if not os.environ.get("STALEROW_NETWORK_TESTS"):
        pytest.skip("STALEROW_NETWORK_TESTS is not set, so no release is downloaded")
    try:
        fetch("vllm", version)
    except DownloadError as error:
        pytest.skip(str(error))
    return f"vllm=={version}"


def own(kernels: KernelSet, device: str) -> KernelSet:
    return kernel_set("req-idx" if kernels.align.reads_slot_tables else "batch-row", device)


def reference(kernels: KernelSet) -> KernelSet:
    return kernel_set("reference:req-idx" if kernels.align.reads_slot_tables else "reference:batch-row", "cpu")


@pytest.mark.parametrize("version", BATCH_ROW + SLOT)
def test_what_a_release_expects_of_its_caller(version: str) -> None:
    described = describe(released(version))
    found = described.caller
    slot = version in SLOT
    assert (found.binds, found.copy_row) == (("slot", "slot") if slot else ("row", "row"))
    assert found.binds_when == ("cache_init" if slot else "first_use")
    assert found.seed_unit == ("mamba" if slot else "scheduler")
    assert found.draftless_decode == ("spec" if slot else "plain")
    assert found.accepted == ("in_place" if version in IN_PLACE else "snapshot")
    assert found.tiles == (1 if version in IN_PLACE else 16)
    assert (found.zero_padding, found.clears_dirty_rows) == (True, version == "0.33.0")
    assert found.ds_conv_with_drafts == (version not in ("0.25.0", "0.25.1", "0.26.0"))
    assert found.temporal_alignment == (8 if version in ("0.26.0", "0.27.0", "0.27.1") else 1)
    assert {fact.how for fact in described.facts} == {"read"}


@pytest.mark.parametrize("version", ["0.21.0", "0.24.0"])
def test_releases_before_the_align_kernels_are_refused(version: str) -> None:
    with pytest.raises(MissingKernel, match=r"0\.25\.0 to 0\.33\.0"):
        describe(released(version))


@pytest.mark.parametrize("operation", CASES)
@pytest.mark.parametrize("version", ["0.30.0", "0.33.0"])
@pytest.mark.parametrize("conv_layout", ["SD", "DS"])
def test_the_projects_kernels_agree_with_the_releases_byte_for_byte(
    version: str, operation: str, conv_layout: str, device: str
) -> None:
    kernels = load(released(version), device)
    others = (own(kernels, device), reference(kernels))

    @budget(EXAMPLES)
    @given(case=CASES[operation](conv_layout=conv_layout))
    def check(case: Case) -> None:
        theirs = run(kernels, case, operation)
        for other in others:
            assert not differences(run(other, case, operation), theirs), other.name

    check()


@pytest.mark.parametrize("operation", ["precopy", "postprocess"])
@pytest.mark.parametrize("version", ["0.30.0", "0.33.0"])
def test_a_copy_spread_over_tiles_moves_the_same_bytes(version: str, operation: str, device: str) -> None:
    kernels = load(released(version), device)
    align: Any = kernels.align
    align.tiles = 3
    # So small that even the states of these tests are more than one step long.
    align.meta = msgspec.structs.replace(align.meta, copy_block_size=2)

    @budget(EXAMPLES // 3)
    @given(case=CASES[operation]())
    def check(case: Case) -> None:
        assert not differences(run(reference(kernels), case, operation), run(kernels, case, operation))

    check()


@pytest.mark.parametrize(
    ("version", "operation"),
    [
        (version, operation)
        for version in sorted({*BATCH_ROW, *SLOT} - {"0.30.0", "0.33.0"})
        for operation in CASES
        # These read counts that they reset; see the test of that.
        if not (version in IN_PLACE and operation == "postprocess")
    ],
)
def test_every_release_agrees_on_a_single_launch(version: str, operation: str, device: str) -> None:
    kernels = load(released(version), device)

    @budget(EXAMPLES // 3)
    # Up to 0.27 the runner demands aligned states, which the kernels then take for granted on a GPU.
    @given(case=CASES[operation](alignment=8 if version in IN_PLACE else None))
    def check(case: Case) -> None:
        assert not differences(run(reference(kernels), case, operation), run(kernels, case, operation))

    check()


@pytest.mark.parametrize("version", ["0.25.0", "0.27.1"])
def test_releases_that_reset_counts_in_place_lose_copies(version: str, device: str) -> None:
    """State 0 resets the count to 1 while the other states' programs have yet to decide from it.

    On the host, where programs run in order, all states but the first are then not saved. 0.28.0 reads
    from a snapshot instead.
    """
    if device == "cuda":
        pytest.skip("a race on a GPU; in program order only on the host")
    kernels = load(released(version), device)

    def loses(case: Case) -> bool:
        return bool(differences(run(reference(kernels), case, "postprocess"), run(kernels, case, "postprocess")))

    minimal = hypothesis.find(postprocess_cases(least_drafts=1), loses, settings=budget(200))
    (row,) = [row for row in minimal.rows if row.slot >= 0]
    assert len(minimal.layout.states) == 2
    assert row.num_accepted > 1
    # All accepted tokens end exactly at the boundary of the running block.
    assert (row.num_computed, row.state_idx) == (4, 0)
    one_state = replace(minimal, layout=_first_state_only(minimal))
    assert not loses(one_state)


@pytest.mark.parametrize("operation", ["precopy", "postprocess"])
@pytest.mark.parametrize("version", ["0.25.0", "0.30.0", "0.33.0"])
def test_runner_v1_agrees_too(version: str, operation: str, device: str) -> None:
    kernels = load(released(version), device)

    @budget(EXAMPLES // 3)
    @given(case=CASES[operation](alignment=8 if version in IN_PLACE else None))
    def check(case: Case) -> None:
        expected = run(reference(kernels), case, operation, runner_v1=True)
        assert not differences(expected, run(kernels, case, operation, runner_v1=True))

    check()


EDITS = {
    "the row lookup back to the batch row": (
        "        state_idx,\n        req_idx,\n",
        "        state_idx,\n        batch_idx,\n",
        ("precopy", "postprocess"),
    ),
    "the precopy's destination column off by one": (
        "        src_col,\n        dst_col,\n        token_bias,\n",
        "        src_col,\n        dst_col + 1,\n        token_bias,\n",
        ("precopy",),
    ),
    "the postprocess's destination column off by one": (
        "dest_block_idx = aligned_new_computed // block_size - 1",
        "dest_block_idx = aligned_new_computed // block_size",
        ("postprocess",),
    ),
    "the group index dropped": (
        "tl.load(block_table_ptrs_ptr + group_idx)",
        "tl.load(block_table_ptrs_ptr)",
        ("precopy", "postprocess"),
    ),
    "the page's stride copied instead of the data": (
        "copy_size = state_inner_size * state_elem_size",
        "copy_size = state_block_stride",
        ("precopy", "postprocess"),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_checkout_is_caught_by_a_single_launch(edit: str, tmp_path: Path, device: str) -> None:
    released("0.33.0")
    old, new, operations = EDITS[edit]
    checkout = tmp_path / "vllm"
    shutil.copytree(fetch("vllm", "0.33.0"), checkout)
    text = (checkout / KERNEL_FILE).read_text()
    assert old in text
    (checkout / KERNEL_FILE).write_text(text.replace(old, new))
    kernels = load(str(tmp_path), device)
    assert kernels.align.reads_slot_tables
    for operation in operations:

        def differs(case: Case, operation: str = operation) -> bool:
            mine, theirs = run(reference(kernels), case, operation), run(kernels, case, operation)
            return bool(differences(mine, theirs))

        # Shrinking is left out: it costs minutes and decides nothing here.
        hypothesis.find(CASES[operation](), differs, settings=settings(budget(200), phases=[Phase.generate]))


def _first_state_only(case: Case) -> Any:
    group = case.layout.recurrent_groups[0]
    attention = [spec for spec in case.layout.groups if spec.kind == "attention"]
    first = msgspec.structs.replace(case.layout.groups[group], states=case.layout.groups[group].states[:1])
    return msgspec.structs.replace(case.layout, groups=(*attention, first), layers=1)
