"""Accesses outside what a launch may touch: refused, with line, program, address and the array beside it."""

import pytest
import torch

from stalerow.kernels.base.memory import Region, WildAccess, named, reaches
from stalerow.kernels.compiled.errors import KernelAssertion, Unsupported

pytestmark = pytest.mark.usefixtures("host")


def line_of(text: str) -> int:
    import compiled_kernels as kernels

    with open(kernels.__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


def test_a_load_past_the_end_is_refused():
    import compiled_kernels as kernels

    src, dst = torch.arange(10, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    with pytest.raises(WildAccess) as raised:
        kernels.copy_block[(4,)](src, dst, 12, BLOCK=4)
    error = raised.value
    assert (error.kernel, error.verb, error.size, error.program) == ("copy_block", "load", 4, (2, 0, 0))
    assert error.address == src.data_ptr() + 40
    assert error.line == line_of("tl.store(dst + i, tl.load(src + i")
    assert "0 bytes past the end of src (40 bytes)" in str(error)
    assert dst.tolist() == [*range(8), *[0] * 8]


def test_a_store_before_the_start_is_refused_and_touches_nothing():
    import compiled_kernels as kernels

    whole = torch.zeros(8, dtype=torch.int32)
    pointers = torch.tensor([whole[4:].data_ptr()])
    reaches(pointers, [Region(whole[4:], "table")])
    kernels.copy_through[(1,)](pointers, 0, 0, 5, BLOCK=4)
    assert whole.tolist() == [0, 0, 0, 0, 5, 5, 5, 5]
    with pytest.raises(WildAccess, match="4 bytes before table") as raised:
        kernels.copy_through[(1,)](pointers, 0, -1, 6, BLOCK=4)
    assert raised.value.verb == "store"
    assert whole.tolist() == [0, 0, 0, 0, 5, 5, 5, 5]


def test_addresses_that_nothing_was_said_of_are_refused():
    import compiled_kernels as kernels

    target = torch.zeros(4, dtype=torch.int32)
    pointers = torch.tensor([target.data_ptr(), 0])
    for which in (0, 1):
        with pytest.raises(WildAccess, match=" pointers "):
            kernels.copy_through[(1,)](pointers, which, 0, 1, BLOCK=4)
    assert not target.any()


def test_masked_lanes_may_lie_anywhere():
    import compiled_kernels as kernels

    src, dst = torch.ones(3), torch.zeros(3)
    kernels.copy_block[(9,)](src, dst, 3, BLOCK=16)
    assert dst.tolist() == [1, 1, 1]


def test_a_name_given_to_an_array_is_used():
    import compiled_kernels as kernels

    src, dst = torch.ones(8), torch.zeros(4)
    named(dst, "block_tables[2]")
    with pytest.raises(WildAccess, match=r"stores 4 bytes at 0x[0-9a-f]+, 0 bytes past the end of block_tables\[2\]"):
        kernels.copy_block[(1,)](src, dst, 8, BLOCK=8)


def test_an_assertion_of_a_kernel_is_an_error_with_its_text():
    import compiled_kernels as kernels

    x = torch.tensor([1, 2, 9, 3], dtype=torch.int32)
    with pytest.raises(KernelAssertion, match=r"program \(2, 0, 0\): assertion failed: too large"):
        kernels.asserting[(4,)](x, 5)
    assert x.tolist() == [0, 0, 9, 3]


def test_an_operation_without_translation_is_named_with_its_line():
    import compiled_kernels as kernels

    with pytest.raises(Unsupported, match=rf"sorting uses tt.elementwise_inline_asm .*:{line_of('inline_asm')}\)"):
        kernels.sorting[(1,)](torch.zeros(4, dtype=torch.int32), BLOCK=4)
