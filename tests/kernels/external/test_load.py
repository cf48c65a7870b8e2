"""Loading an engine's kernels from a checkout, a package or a file: they run, and nothing else of it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import WildAccess
from stalerow.kernels.external import ExternalKernelError, SourceNotFound, describe, load
from stalerow.kernels.sets import KernelSet, kernel_set

from .single_launch import Case, Row, differences, postprocess_cases, precopy_cases, run, step_cases
from .synthetic import BATCH_ROW, KERNEL_FILE, kernels_text, write_engine

CASES = {
    "preprocess": step_cases(),
    "precopy": precopy_cases(),
    "postprocess": postprocess_cases(),
    "aligned_indices": step_cases(),
}
ONE_EXAMPLE_EACH = settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def reference_of(kernels: KernelSet) -> KernelSet:
    return kernel_set("reference:req-idx" if kernels.align.reads_slot_tables else "reference:batch-row", "cpu")


@pytest.mark.parametrize("choices", [{}, BATCH_ROW], ids=["slot", "row"])
@pytest.mark.parametrize("operation", CASES)
def test_the_engines_kernels_run_and_agree_with_the_reference(
    tmp_path_factory: pytest.TempPathFactory, device: str, choices: dict[str, str], operation: str
) -> None:
    kernels = load(str(write_engine(tmp_path_factory.mktemp("engine"), **choices)), device)
    assert kernels.align.reads_slot_tables == (not choices)

    @ONE_EXAMPLE_EACH
    @given(case=CASES[operation])
    def check(case: Case) -> None:
        assert not differences(run(reference_of(kernels), case, operation), run(kernels, case, operation))

    check()


def test_kernels_whose_helper_is_in_another_file_run(tmp_path: Path, device: str) -> None:
    root = write_engine(tmp_path)
    file = root / "vllm" / KERNEL_FILE
    text = file.read_text()
    start = text.index("@triton.jit\ndef _move_bytes")
    end = text.index("@triton.jit", start + 1)
    moved = "from vllm.triton_utils import tl, triton\n\n\n" + text[start:end]
    file.with_name("moving.py").write_text(moved)
    file.write_text(text[:start] + "from vllm.v1.worker.moving import _move_bytes\n\n\n" + text[end:])
    kernels = load(str(root), device)

    @ONE_EXAMPLE_EACH
    @given(case=CASES["postprocess"])
    def check(case: Case) -> None:
        assert not differences(run(reference_of(kernels), case, "postprocess"), run(kernels, case, "postprocess"))

    check()


@pytest.mark.parametrize("choices", [{}, BATCH_ROW], ids=["slot", "row"])
@pytest.mark.parametrize("operation", ["precopy", "postprocess"])
def test_runner_v1_passes_rows_and_counts(
    tmp_path_factory: pytest.TempPathFactory, device: str, choices: dict[str, str], operation: str
) -> None:
    kernels = load(str(write_engine(tmp_path_factory.mktemp("engine"), **choices)), device)

    @ONE_EXAMPLE_EACH
    @given(case=CASES[operation])
    def check(case: Case) -> None:
        expected = run(reference_of(kernels), case, operation, runner_v1=True)
        assert not differences(expected, run(kernels, case, operation, runner_v1=True))

    check()


def test_an_accepted_count_that_is_read_in_place_is_not_repaired(tmp_path: Path, device: str) -> None:
    """Under the interpreter state 0 resets the count before the next state decides, as the branch would have it."""
    if device != "cpu":
        pytest.skip("programs run in order only under the interpreter")
    kernels = load(str(write_engine(tmp_path, READ_COUNTS="counts")), device)
    states = (StateSpec("temporal", 8), StateSpec("temporal", 8))
    groups = (GroupSpec("attention", 4), GroupSpec("recurrent", 4, states))
    row = Row(slot=0, state_idx=0, num_accepted=2, num_computed=4)
    case = Case(Layout(groups, layers=1, num_blocks=200, num_drafts=1), (row,))
    assert differences(run(reference_of(kernels), case, "postprocess"), run(kernels, case, "postprocess"))


def test_a_skipped_row_is_refused_by_preprocess_where_it_would_write_outside(tmp_path: Path, device: str) -> None:
    if device == "cuda":
        pytest.skip("checked on the host only, where it costs nothing")
    kernels = load(str(write_engine(tmp_path)), device)
    groups = (GroupSpec("attention", 4), GroupSpec("recurrent", 4, (StateSpec("temporal", 8),)))
    case = Case(Layout(groups, layers=1, num_blocks=200, num_drafts=0), (Row(slot=-1),))
    if kernels.backend.name == "triton-cpu":
        with pytest.raises(WildAccess, match=r"loads 4 bytes at 0x[0-9a-f]+, 4 bytes before state_idx_ptr"):
            run(kernels, case, "preprocess")
        return
    with pytest.raises(ValueError, match="idx_mapping has a -1 row"):
        run(kernels, case, "preprocess")


def test_nothing_of_the_engine_is_imported(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_engine(tmp_path)
    monkeypatch.syspath_prepend(str(root))
    load(str(root), device)
    assert not [name for name in sys.modules if name.split(".")[0] == "vllm"]


def test_a_checkout_its_package_and_its_file_are_the_same_kernels(tmp_path: Path) -> None:
    root = write_engine(tmp_path)
    described = [describe(str(path)) for path in (root, root / "vllm", root / "vllm" / KERNEL_FILE)]
    assert {found.origin for found in described} == {"checkout"}
    assert described[0].caller == described[1].caller == described[2].caller
    assert described[0].files == described[1].files == described[2].files


def test_a_fork_may_rename_the_package(tmp_path: Path) -> None:
    assert describe(str(write_engine(tmp_path, package="fork"))).caller.binds == "slot"
    write_engine(tmp_path, package="other")
    with pytest.raises(SourceNotFound, match=r"2 packages hold .*give one of them"):
        describe(str(tmp_path))


@pytest.mark.parametrize("name", ["no/such/place.py", "vllm>=0.30", "vllm==0.30.*"])
def test_a_name_that_stands_for_nothing_is_refused(name: str) -> None:
    with pytest.raises(SourceNotFound, match="neither a release"):
        describe(name)


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match=r"no vllm/v1/worker/mamba_utils\.py in it"):
        describe(str(tmp_path))


def test_a_file_that_is_not_python_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mamba_utils.py"
    file.write_text("x = 1\ndef broken(:\n")
    with pytest.raises(ExternalKernelError, match=r"mamba_utils\.py:2: not valid Python"):
        describe(str(file))


def test_an_edited_file_is_loaded_anew(tmp_path: Path, cache: Path, device: str) -> None:
    file = tmp_path / "mamba_utils.py"
    file.write_text(kernels_text())
    load(str(file), device)
    load(str(file), device)
    file.write_text(kernels_text().replace("tl.constexpr(64)", "tl.constexpr(32)"))
    load(str(file), device)
    assert len(list((cache / "modules").glob("*/*.py"))) == 2


def test_one_tile_is_launched_under_the_interpreter(tmp_path: Path, device: str) -> None:
    kernels = load(str(write_engine(tmp_path)), device)
    assert kernels.align.caller.tiles == 4  # type: ignore[attr-defined]
    assert kernels.align.tiles == (1 if device == "cpu" else 4)  # type: ignore[attr-defined]


def test_describing_imports_neither_triton_nor_torch(tmp_path: Path) -> None:
    root = write_engine(tmp_path)
    script = (
        "import sys; from stalerow.kernels.external import describe; "
        f"describe({str(root)!r}); sys.exit(any(name in sys.modules for name in ('torch', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
