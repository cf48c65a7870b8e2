"""Kernels against the vocabulary: parameters by name, and errors that say which, where and since when."""

from pathlib import Path

import pytest

from stalerow.kernels.external import MissingKernel, UnknownParameter, describe

from .synthetic import kernels_text, write_engine


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_parameters_are_bound_by_name_in_any_order(tmp_path: Path) -> None:
    swapped = kernels_text().replace("src_col_ptr, token_bias_ptr,", "token_bias_ptr, src_col_ptr,")
    described = describe(write(tmp_path / "mamba_utils.py", swapped))
    precopy = next(kernel for kernel in described.kernels if kernel.role == "precopy")
    assert list(precopy.parameters)[:3] == ["mamba_state_idx_ptr", "token_bias_ptr", "src_col_ptr"]
    assert precopy.parameters["token_bias_ptr"] == "slots.src_off"


def test_an_unknown_parameter_is_an_error_that_names_it_the_file_and_the_release(tmp_path: Path) -> None:
    text = kernels_text().replace("token_bias_ptr, block", "token_bias_ptr, window_ptr, block")
    file = write(tmp_path / "mamba_utils.py", text)
    with pytest.raises(UnknownParameter) as caught:
        describe(file)
    for part in (
        "`window_ptr`",
        "`precopy_mamba_align_fused_kernel`",
        file,
        "0.25.0 to 0.33.0",
        f"last seen in {file}",
    ):
        assert part in str(caught.value)


def test_a_missing_kernel_is_an_error_that_names_it_the_file_and_the_releases(tmp_path: Path) -> None:
    file = write(tmp_path / "mamba_utils.py", kernels_text().replace("precopy_mamba_align", "precopy_mamba_new"))
    with pytest.raises(MissingKernel) as caught:
        describe(file)
    for part in ("`precopy_mamba_align_fused_kernel`", file, "0.25.0 to 0.33.0", "last seen in 0.33.0"):
        assert part in str(caught.value)


def test_a_kernel_for_runner_v1_only_is_missing_for_v2(tmp_path: Path) -> None:
    text = kernels_text().replace("PRECOMPUTED_NEW_COMPUTED: tl.constexpr = False,", "")
    with pytest.raises(MissingKernel, match=r"takes no `PRECOMPUTED_NEW_COMPUTED`.*runner V1 only"):
        describe(write(tmp_path / "mamba_utils.py", text))


def test_own_indices_stand_in_only_where_the_backends_compute_them(tmp_path: Path) -> None:
    root = write_engine(tmp_path)
    indices = describe(str(root)).kernels[-1]
    assert (indices.role, indices.name) == ("indices", "")
    assert "mamba_get_block_table_tensor" in indices.where
    (root / "vllm/v1/attention/backends/utils.py").write_text("")
    with pytest.raises(MissingKernel, match="get_aligned_state_indices_multi_group_kernel"):
        describe(str(root))
