"""Small Triton kernels that together use every operation that is translated."""

import triton
import triton.language as tl


@triton.jit
def arithmetic(x, y, out, n, BLOCK: tl.constexpr):
    """Twelve integer operations of int64 `x` and `y`, row by row of `out`."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0)
    b = tl.load(y + i, mask=i < n, other=1)
    small = a.to(tl.int32)
    results = (
        a + b,
        a * b,
        a // b,
        a % b,
        a & b,
        a | ~b,
        a << (b & 63),
        a >> (b & 63),
        (a.to(tl.uint64) >> (b & 63).to(tl.uint64)).to(tl.int64),
        tl.where(a < b, tl.minimum(a, b), tl.maximum(a, -b)),
        (small.to(tl.int8).to(tl.int64) + tl.abs(a)),
        (a.to(tl.uint64) // tl.maximum(b.to(tl.uint64), 1)).to(tl.int64),
    )
    for k in tl.static_range(12):
        tl.store(out + k * n + i, results[k], mask=i < n)


@triton.jit
def floats(x, out, half, n, BLOCK: tl.constexpr):
    """bfloat16 and float32 arithmetic and casts."""
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    b = tl.load(half + i, mask=i < n, other=0.0).to(tl.float32)
    c = tl.sqrt(tl.abs(a)) + b * 1.5 - tl.maximum(a, b) / 3.0
    tl.store(half + i, c, mask=i < n)
    tl.store(out + i, (c * 4).to(tl.int32), mask=i < n)


@triton.jit
def transcendental(x, out, n, BLOCK: tl.constexpr):
    """Logarithms and powers, a row each."""
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    results = (tl.log(a), tl.log2(a), tl.exp(a), tl.exp2(a))
    for k in tl.static_range(4):
        tl.store(out + k * n + i, results[k], mask=i < n)


@triton.jit
def folds(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums, extremes, places of extremes and running sums of a matrix, along both axes."""
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    a = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    tl.store(out + r, tl.sum(a, 1))
    tl.store(out + ROWS + c, tl.max(a, 0))
    tl.store(out + ROWS + COLUMNS + r, tl.argmin(a, 1))
    at = out + 2 * ROWS + COLUMNS
    tl.store(at + r[:, None] * COLUMNS + c[None, :], tl.cumsum(a, 1))
    at += ROWS * COLUMNS
    tl.store(at + r[:, None] * COLUMNS + c[None, :], tl.cumsum(a, 0, reverse=False))
    at += ROWS * COLUMNS
    turned = tl.trans(a)
    tl.store(at + c[:, None] * ROWS + r[None, :], turned)
    at += ROWS * COLUMNS
    flat = tl.arange(0, ROWS * COLUMNS)
    tl.store(at + flat, tl.reshape(turned, (ROWS * COLUMNS,)))


@triton.jit(noinline=True)
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@triton.jit
def control(numbers, out, counter, seen, n, limit, BLOCK: tl.constexpr):
    """Early returns, a called function, loops that carry blocks, atomics."""
    i = tl.program_id(0)
    if i >= n:
        return
    number = tl.load(numbers + i)
    if number <= 0:
        tl.store(out + i, -1)
        return
    tl.store(out + i, collatz(number))
    lanes = tl.arange(0, BLOCK)
    a, b = lanes, lanes + 1
    for k in range(1, limit):
        a, b = b, a + k
    tl.atomic_add(counter + lanes, a - b)
    tl.atomic_max(counter + BLOCK, number)
    tl.atomic_cas(counter + BLOCK + 1, 0, number)
    tl.store(seen + i, tl.atomic_xchg(counter + BLOCK + 2, number))


@triton.jit
def copy_block(src, dst, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i, mask=i < n), mask=i < n)


@triton.jit
def copy_through(pointers, which, offset, value, BLOCK: tl.constexpr):
    """Write through an address that is read from memory."""
    target = tl.load(pointers + which).to(tl.pointer_type(tl.int32))
    tl.store(target + offset + tl.arange(0, BLOCK), value)


@triton.jit
def asserting(x, limit):
    value = tl.load(x + tl.program_id(0))
    tl.device_assert(value < limit, "too large")
    tl.store(x + tl.program_id(0), 0)


@triton.jit
def sorting(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def reset_and_read(flags, out):
    """Program 0 resets what the others decide from."""
    i = tl.program_id(0)
    flag = tl.load(flags)
    if i == 0:
        tl.store(flags, 1)
    tl.store(out + i, flag)


@triton.jit
def same_value(flags, out):
    """Every program writes the same number, beside a word of its own."""
    tl.store(flags, 7)
    tl.store(out + tl.program_id(0), tl.program_id(0))


@triton.jit
def last_writer(out):
    """Every program writes another number to one word."""
    tl.store(out, tl.program_id(0))


@triton.jit
def shift_left(x, by, n, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """x[:n - by] = x[by:n] in place, all lanes loaded before any is stored only if there is a barrier."""
    i = tl.arange(0, BLOCK)
    data = tl.load(x + by + i, mask=i < n - by)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x + i, data, mask=i < n - by)


@triton.jit
def total_of_all(x, out, BLOCK: tl.constexpr):
    """Every lane becomes the sum of all: a reduction between loads and stores."""
    i = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + i), 0)
    tl.store(x + i, total)
    tl.atomic_add(out, total)
