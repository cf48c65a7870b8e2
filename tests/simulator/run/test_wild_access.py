"""A kernel that is about to leave its arrays, in a whole run: a finding with the kernel's line, not a dead process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.simulator.errors import CannotCompile
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed


@triton.jit
def wild_copy(state_base_addrs, state_block_strides, block):
    target = tl.load(state_base_addrs + tl.program_id(0)) + tl.load(state_block_strides) * block
    tl.store(target.to(tl.pointer_type(tl.uint8)), 7)


@triton.jit
def untranslated(state_base_addrs):
    address = tl.load(state_base_addrs)
    tl.store(state_base_addrs, tl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,l", [address], tl.int64, True, 1))


class Wild:
    """`align`, whose precopy launches another kernel first."""

    def __init__(self, align: Any, launch: Any) -> None:
        self._align, self._launch = align, launch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._align, name)

    def precopy(self, slots: Any, binding: Any, *rest: Any) -> None:
        self._launch(binding)
        self._align.precopy(slots, binding, *rest)


def wild(launch: Any) -> KernelSet:
    kernels = kernel_set("req-idx", "cpu")
    if kernels.backend.name != "triton-cpu":
        pytest.skip("kernels are interpreted in this process; only compiled ones are checked")
    return kernels._replace(align=Wild(kernels.align, launch))


def test_a_store_past_the_pool_is_found_with_its_line_program_and_block() -> None:
    schedule = from_seed(3)
    beyond = schedule.layout.layers * schedule.layout.num_blocks + 5

    def launch(binding: Any) -> None:
        wild_copy[(2,)](binding.state_base_addrs, binding.state_block_strides, beyond)

    outcome = run(schedule, wild(launch))
    first = outcome.violations[0]
    line = next(i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if ", 7)" in text)
    assert (first.kind, first.launch, first.target_block) == ("out of bounds", "precopy", beyond)
    for part in (f"test_wild_access.py:{line}", "program (0, 0, 0) stores 1 byte at 0x", "past the end of pool"):
        assert part in first.explanation


def test_an_operation_that_cannot_be_compiled_is_no_finding() -> None:
    with pytest.raises(CannotCompile, match=r"untranslated uses tt\.elementwise_inline_asm .*--device interpreter"):
        run(from_seed(3), wild(lambda binding: untranslated[(1,)](binding.state_base_addrs)))
