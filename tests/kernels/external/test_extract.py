"""Taking kernels out of a file: what is kept, what is left, and what cannot be had."""

from pathlib import Path

import pytest

from stalerow.kernels.external import ExtractionError
from stalerow.kernels.external.extract import extract, jit_functions
from stalerow.kernels.external.source import EngineSource, SourceFile

from .synthetic import kernels_text

ROOTS = ("precopy_mamba_align_fused_kernel", "postprocess_mamba_fused_kernel")


def source(text: str) -> SourceFile:
    return SourceFile(Path("mamba_utils.py"), text)


def test_only_what_the_kernels_reach_is_kept() -> None:
    extracted = extract(source(kernels_text()), ROOTS)
    assert extracted.kept == ("_STEP", "_move_bytes", "_move_state", *ROOTS)
    for left in ("_UNRELATED", "_SHARES", "unrelated_helper", "class ", "CacheConfig", "vllm", "raise"):
        assert left not in extracted.text


def test_kept_lines_stay_on_their_lines() -> None:
    original = kernels_text().split("\n")
    for number, line in enumerate(extract(source(kernels_text()), ROOTS).text.split("\n")[:-1]):
        assert line in ("", original[number]) or "triton_utils" in original[number]


def test_a_name_used_only_as_a_local_variable_is_no_dependency() -> None:
    text = (
        "from x import tl, triton\nlimit = open('/nowhere')\n\n"
        "@triton.jit\ndef k(p):\n    limit = tl.load(p)\n    tl.store(p, limit)\n"
    )
    assert extract(source(text), ["k"]).kept == ("k",)


def test_a_constant_brings_the_constants_it_is_made_of() -> None:
    text = (
        "import triton\nimport triton.language as lang\nfrom math import prod\n_A = 2\n_B: int = prod((_A, 3))\n\n"
        "@triton.jit\ndef k(p, N: lang.constexpr = _B):\n    lang.store(p, N)\n"
    )
    extracted = extract(source(text), ["k"])
    assert extracted.kept == ("_A", "_B", "k")
    assert "import triton.language as lang\nfrom math import prod\n" in extracted.text


def test_a_kernel_behind_a_module_level_if_is_found_and_moved_to_the_margin() -> None:
    text = "from x import tl, triton\nif triton:\n    @triton.jit\n    def k(p):\n        tl.store(p, 1)\n"
    assert list(jit_functions(source(text).tree)) == ["k"]
    assert extract(source(text), ["k"]).text.split("\n")[2:5] == [
        "@triton.jit",
        "def k(p):",
        "    tl.store(p, 1)",
    ]


@pytest.mark.parametrize(
    ("prelude", "complaint"),
    [
        ("from vllm.utils import helper", "`helper`, used by `k`, comes from the engine"),
        ("import vllm.envs as helper", "`helper`, used by `k`, comes from the engine"),
        ("", "`helper`, used by `k`, is defined nowhere"),
        ("class helper:\n    pass", "neither a function nor a constant"),
    ],
)
def test_a_dependency_that_cannot_be_taken_is_named(prelude: str, complaint: str) -> None:
    text = f"from x import tl, triton\n{prelude}\n\n@triton.jit\ndef k(p):\n    tl.store(p, helper(1))\n"
    with pytest.raises(ExtractionError, match=complaint):
        extract(source(text), ["k"])


def test_a_helper_in_another_file_becomes_a_module_of_its_own(tmp_path: Path) -> None:
    """As 0.34.0 has it; the helper's own file keeps its lines, and what else is in it stays behind."""
    package = tmp_path / "vllm" / "v1" / "worker"
    package.mkdir(parents=True)
    helper = package / "helper_utils.py"
    helper.write_text(
        "import vllm.surprise\nfrom x import tl, triton\n_TWO = 2\n\n\n"
        "@triton.jit\ndef twice(v):\n    return v * _TWO\n"
    )
    text = (
        "from x import tl, triton\nfrom vllm.v1.worker.helper_utils import (\n    twice as double,\n    unused,\n)\n\n"
        "@triton.jit\ndef k(p):\n    tl.store(p, double(tl.load(p)) + double(1))\n"
    )
    engine = EngineSource("x", "checkout", {}, package=tmp_path / "vllm")
    extracted = extract(source(text), ["k"], engine.imported)
    (made,) = extracted.helpers
    assert made.kept == ("_TWO", "twice")
    assert "surprise" not in made.text
    assert made.text.split("\n")[6] == "def twice(v):"
    assert extracted.text.split("\n")[1] == f"from {made.module} import twice as double"
    assert extracted.names == ("k", "_TWO", "twice")
