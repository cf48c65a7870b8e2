"""What a compiled kernel computes, beside the same in NumPy or Python."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("host")

int64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-130, 130))


def floor_division(a: int, b: int) -> int:
    """C's, as Triton has it for signed integers: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrapped(x: int) -> int:
    return (x + 2**63) % 2**64 - 2**63


@settings(max_examples=40)
@given(st.lists(st.tuples(int64, int64.filter(bool)), min_size=1, max_size=21))
def test_integers_are_those_of_a_gpu(pairs):
    import compiled_kernels as kernels

    x, y = (torch.tensor(values, dtype=torch.int64) for values in zip(*pairs))
    out = torch.zeros((12, len(pairs)), dtype=torch.int64)
    kernels.arithmetic[(-(-len(pairs) // 8),)](x, y, out, len(pairs), BLOCK=8)
    for at, (a, b) in enumerate(pairs):
        shift, unsigned, bits = b & 63, a % 2**64, (a + 2**31) % 2**32 - 2**31
        byte = (bits + 128) % 256 - 128
        quotient = wrapped(floor_division(a, b))
        expected = [
            a + b,
            a * b,
            quotient,
            a - floor_division(a, b) * b,
            a & b,
            a | ~b,
            a << shift,
            a >> shift,
            unsigned >> shift,
            min(a, b) if a < b else max(a, wrapped(-b)),
            byte + abs(a),
            unsigned // max(b % 2**64, 1),
        ]
        if (a, b) == (-(2**63), -1):
            continue
        assert out[:, at].tolist() == [wrapped(value) for value in expected], (a, b)


def test_a_division_by_zero_in_a_masked_lane_does_not_trap():
    import compiled_kernels as kernels

    x, y = torch.tensor([7, 9]), torch.tensor([0, 2])
    out = torch.zeros((12, 2), dtype=torch.int64)
    kernels.arithmetic[(1,)](x, y, out, 2, BLOCK=8)
    assert out[2, 1] == 4


def test_bfloat16_rounds_to_nearest_even():
    import compiled_kernels as kernels

    torch.manual_seed(0)
    x, half = torch.randn(30), torch.randn(30).to(torch.bfloat16)
    out = torch.zeros(30, dtype=torch.int32)
    b = half.float()
    c = torch.sqrt(x.abs()) + b * 1.5 - torch.maximum(x, b) / 3.0
    kernels.floats[(1,)](x, out, half, 30, BLOCK=32)
    assert torch.equal(half, c.to(torch.bfloat16))
    assert torch.equal(out, (c * 4).to(torch.int32))


def test_logarithms_and_powers():
    import compiled_kernels as kernels

    x = torch.tensor([0.25, 1.0, 2.0, 7.5])
    out = torch.zeros((4, 4))
    kernels.transcendental[(1,)](x, out, 4, BLOCK=4)
    torch.testing.assert_close(out, torch.stack([x.log(), x.log2(), x.exp(), x.exp2()]))


def test_reductions_scans_and_changes_of_shape():
    import compiled_kernels as kernels

    a = np.random.default_rng(3).integers(-99, 99, (4, 8)).astype(np.int32)
    out = torch.full((2 * 4 + 8 + 4 * 32,), -7, dtype=torch.int32)
    kernels.folds[(1,)](torch.from_numpy(a), out, ROWS=4, COLUMNS=8)
    parts = [a.sum(1), a.max(0), a.argmin(1), a.cumsum(1), a.cumsum(0), a.T, a.T]
    np.testing.assert_array_equal(out.numpy(), np.concatenate([np.ravel(p) for p in parts]))


def test_control_flow_calls_and_atomics():
    import compiled_kernels as kernels

    numbers = torch.tensor([27, 0, 1, 6, 97], dtype=torch.int32)
    out, seen = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    counter = torch.zeros(7, dtype=torch.int32)
    kernels.control[(8,)](numbers, out, counter, seen, 5, 4, BLOCK=4)
    assert out.tolist() == [111, -1, 0, 8, 118, 0, 0, 0]
    a, b = np.arange(4), np.arange(4) + 1
    for k in range(1, 4):
        a, b = b, a + k
    assert counter.tolist() == [*((a - b) * 4).tolist(), 97, 27, 97]
    assert seen.tolist() == [0, 0, 27, 1, 6, 0, 0, 0]


def test_an_empty_grid_runs_nothing():
    import compiled_kernels as kernels

    src, dst = torch.ones(4), torch.zeros(4)
    kernels.copy_block[(0,)](src, dst, 4, BLOCK=4)
    assert not dst.any()


def test_a_missing_argument_is_an_error_of_the_call():
    import compiled_kernels as kernels

    with pytest.raises(TypeError, match=r"copy_block\(\) is missing the argument 'n'"):
        kernels.copy_block[(1,)](torch.ones(4), torch.zeros(4), BLOCK=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        kernels.copy_block[(1,)](torch.ones(4), torch.zeros(4), 4, m=4, BLOCK=4)


def test_programs_run_in_the_order_that_is_asked_for():
    import compiled_kernels as kernels

    from stalerow.kernels.compiled.launch import programs_in

    numbers = torch.tensor([5, 6, 7, 8], dtype=torch.int32)
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        out, seen, counter = torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32), torch.zeros(7).int()
        with programs_in(lambda n, order=order: order):
            kernels.control[(4,)](numbers, out, counter, seen, 4, 1, BLOCK=4)
        before = [0, *(numbers[i].item() for i in order[:-1])]
        assert [seen[i].item() for i in order] == before
