"""Kernels against the vocabulary: parameters by name, and errors that say which, where and since when."""

from pathlib import Path

import pytest

from stalerow.kernels.external import BadBinding, MissingKernel, UnknownParameter, describe
from stalerow.kernels.external.bind import join, split

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
        "0.25.0 to 0.34.0",
        f"last seen in {file}",
    ):
        assert part in str(caught.value)


def test_an_unknown_parameter_with_a_default_takes_it_and_is_noted(tmp_path: Path) -> None:
    text = kernels_text().replace("PRECOMPUTED_NEW_COMPUTED: tl.constexpr = False,", "{}, NEW_MODE: tl.constexpr = 3,")
    text = text.replace("{}", "PRECOMPUTED_NEW_COMPUTED: tl.constexpr = False")
    described = describe(write(tmp_path / "mamba_utils.py", text))
    postprocess = next(kernel for kernel in described.kernels if kernel.role == "postprocess")
    assert "NEW_MODE" not in postprocess.parameters
    assert postprocess.notes == ("NEW_MODE = 3 (its default: not known to stalerow)",)
    assert "NEW_MODE = 3 (its default: not known to stalerow)" in str(described)


def test_a_value_can_be_bound_to_an_unknown_parameter(tmp_path: Path) -> None:
    text = kernels_text().replace("token_bias_ptr, block", "token_bias_ptr, WINDOW, block")
    file = write(tmp_path / "mamba_utils.py", text)
    with pytest.raises(UnknownParameter, match="give its value with --bind WINDOW=VALUE"):
        describe(file)
    precopy = next(kernel for kernel in describe(f"{file}[WINDOW=4]").kernels if kernel.role == "precopy")
    assert precopy.notes == ("WINDOW = 4 (given with --bind)",)


@pytest.mark.parametrize(
    ("bound", "words"),
    [("NOWHERE=1", "no kernel of .* takes it; they take "), ("=1", "expected PARAMETER=VALUE"), ("A=b.c", "literal")],
)
def test_a_binding_that_means_nothing_is_refused(tmp_path: Path, bound: str, words: str) -> None:
    file = write(tmp_path / "mamba_utils.py", kernels_text())
    with pytest.raises(BadBinding, match=words):
        describe(f"{file}[{bound}]")


def test_bindings_are_joined_to_a_name_once() -> None:
    assert join("vllm==0.34.0", ["A=1", "B=True"]) == "vllm==0.34.0[A=1,B=True]"
    assert join("vllm==0.34.0[A=1]", ["A=2"]) == "vllm==0.34.0[A=2]"
    assert split("vllm==0.34.0[A=2,B='x']") == ("vllm==0.34.0", {"A": 2, "B": "x"})


def test_a_missing_kernel_is_an_error_that_names_it_the_file_and_the_releases(tmp_path: Path) -> None:
    file = write(tmp_path / "mamba_utils.py", kernels_text().replace("precopy_mamba_align", "precopy_mamba_new"))
    with pytest.raises(MissingKernel) as caught:
        describe(file)
    for part in ("`precopy_mamba_align_fused_kernel`", file, "0.25.0 to 0.34.0", "last seen in 0.34.0"):
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
