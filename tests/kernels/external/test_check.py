"""One page on what a release changed, from two engines' sources."""

from pathlib import Path

from stalerow.kernels.external.check import check

from .synthetic import BATCH_ROW, KERNEL_FILE, write_engine


def page(old: Path, new: Path) -> list[str]:
    return [line.strip() for line in check(str(new), str(old))]


def section(lines: list[str], title: str) -> list[str]:
    start = lines.index(title) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return lines[start:end]


def test_an_engine_against_itself_shows_no_change(tmp_path: Path) -> None:
    root = write_engine(tmp_path)
    lines = page(root, root)
    assert lines.count("no change") == 4


def test_another_binding_and_another_row_are_changes_of_the_caller(tmp_path: Path) -> None:
    old, new = write_engine(tmp_path / "old", **BATCH_ROW), write_engine(tmp_path / "new")
    changed = section(page(old, new), "the caller")
    assert any(line.startswith("binds = slot, was row (read at ") for line in changed)
    assert any(line.startswith("copy_row = slot, was row") for line in changed)


def test_parameters_helpers_and_kernels_that_nobody_runs_are_named(tmp_path: Path) -> None:
    old, new = write_engine(tmp_path / "old"), write_engine(tmp_path / "new")
    file = new / "vllm" / KERNEL_FILE
    text = file.read_text()
    start = text.index("@triton.jit\ndef _move_bytes")
    end = text.index("@triton.jit", start + 1)
    moved = text[start:end].replace("_move_bytes", "_shift_bytes")
    extra = "@triton.jit\ndef reset_ring_kernel(p):\n    tl.store(p, 0)\n"
    file.with_name("moving.py").write_text(f"from vllm.triton_utils import tl, triton\n\n\n{moved}\n\n{extra}")
    text = text[:start] + "from vllm.v1.worker.moving import _shift_bytes\n\n\n" + text[end:]
    text = text.replace("_move_bytes(", "_shift_bytes(")
    text = text.replace(
        "PRECOMPUTED_NEW_COMPUTED: tl.constexpr = False,", "PRECOMPUTED_NEW_COMPUTED: tl.constexpr = 0, W=2,"
    )
    file.write_text(text)
    lines = page(old, new)
    assert "postprocess: W = 2 (its default: not known to stalerow)" in section(lines, "kernels")
    taken = section(lines, "taken from their files")
    assert taken == ["_shift_bytes: new function or constant", "_move_bytes: gone"]
    (left,) = section(lines, "kernels in the same files that are not run here")
    assert left.startswith("reset_ring_kernel at ")
    assert left.endswith(", new")
