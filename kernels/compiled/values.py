"""Blocks of lanes that are not computed until a lane is asked for.

An elementwise operation, a range, a broadcast or a change of shape is only noted; what reads memory's result or carries
a block around a loop asks for its lanes inside one loop of its own, and LLVM sees the whole expression there. Only
loads, reductions and carried blocks take room (`Stored`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from stalerow.kernels.compiled.arithmetic import ADDRESS, llvm_type, stored_type

Index = tuple[ir.Value, ...]


@dataclass(slots=True)
class Lane:
    """One turn of a loop over lanes: where code goes, and what has been computed in it already."""

    builder: ir.IRBuilder
    known: dict[tuple[int, Index], ir.Value] = field(default_factory=dict)


class Lanes:
    """A block of `shape` whose elements are of the MLIR type `element`."""

    def __init__(self, shape: tuple[int, ...], element: str) -> None:
        self.shape = shape
        self.element = element

    def at(self, lane: Lane, index: Index) -> ir.Value:
        """The element at `index`, one int64 a dimension; computed once a turn."""
        key = (id(self), index)
        found = lane.known.get(key)
        if found is None:
            found = lane.known[key] = self._at(lane, index)
        return found

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        raise NotImplementedError


class Splat(Lanes):
    """One scalar in every lane."""

    def __init__(self, shape: tuple[int, ...], element: str, scalar: ir.Value) -> None:
        super().__init__(shape, element)
        self._scalar = scalar

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        return self._scalar


class Range(Lanes):
    """`start, start + 1, ...` as int32."""

    def __init__(self, shape: tuple[int, ...], start: int) -> None:
        super().__init__(shape, "i32")
        self._start = start

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        word = ir.IntType(32)
        return lane.builder.add(lane.builder.trunc(index[0], word), word(self._start))


class Elementwise(Lanes):
    """`emit(builder, lanes' elements)` in every lane."""

    def __init__(
        self,
        shape: tuple[int, ...],
        element: str,
        operands: Sequence[Lanes],
        emit: Callable[[ir.IRBuilder, list[ir.Value]], ir.Value],
    ) -> None:
        super().__init__(shape, element)
        self._operands = operands
        self._emit = emit

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        return self._emit(lane.builder, [operand.at(lane, index) for operand in self._operands])


class Reindexed(Lanes):
    """Lanes of another block: `where` maps an index of this one to an index of that one."""

    def __init__(
        self,
        shape: tuple[int, ...],
        source: Lanes,
        where: Callable[[ir.IRBuilder, Index], Index],
    ) -> None:
        super().__init__(shape, source.element)
        self.source = source
        self._where = where

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        return self.source.at(lane, self._where(lane.builder, index))


class Stored(Lanes):
    """Lanes in the program's own memory, row-major at `address`."""

    def __init__(self, shape: tuple[int, ...], element: str, address: ir.Value) -> None:
        super().__init__(shape, element)
        self.address = address

    def place(self, builder: ir.IRBuilder, index: Index) -> ir.Value:
        """The address of a lane."""
        offset = flat(builder, self.shape, index)
        return builder.gep(self.address, [offset], source_etype=stored_type(self.element))

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        return self.load(lane.builder, index)

    def load(self, builder: ir.IRBuilder, index: Index) -> ir.Value:
        value = builder.load(self.place(builder, index), typ=stored_type(self.element))
        return builder.trunc(value, ir.IntType(1)) if self.element == "i1" else value

    def store(self, builder: ir.IRBuilder, index: Index, value: ir.Value) -> None:
        builder.store(builder.zext(value, ir.IntType(8)) if self.element == "i1" else value, self.place(builder, index))


def broadcast(source: Lanes, shape: tuple[int, ...]) -> Lanes:
    """Dimensions of size 1 repeated up to `shape`."""
    zero = ADDRESS(0)
    ones = [size == 1 for size in source.shape]
    return Reindexed(shape, source, lambda b, index: tuple(zero if one else i for one, i in zip(ones, index)))


def expand_dims(source: Lanes, axis: int) -> Lanes:
    """A dimension of size 1 before `axis`."""
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    return Reindexed(shape, source, lambda b, index: (*index[:axis], *index[axis + 1 :]))


def reshape(source: Lanes, shape: tuple[int, ...]) -> Lanes:
    """The same lanes in row-major order."""
    return Reindexed(shape, source, lambda b, index: _unflat(b, source.shape, flat(b, shape, index)))


def transpose(source: Lanes, order: Sequence[int]) -> Lanes:
    """Dimension `d` of the result is dimension `order[d]` of the source."""
    shape = tuple(source.shape[d] for d in order)
    back = [order.index(d) for d in range(len(order))]
    return Reindexed(shape, source, lambda b, index: tuple(index[d] for d in back))


def joined(pair: Sequence[Lanes]) -> Lanes:
    """A last dimension of size 2 that tells the two blocks apart."""
    left, right = pair
    shape = (*left.shape, 2)
    return _Joined(shape, left, right)


class _Joined(Lanes):
    def __init__(self, shape: tuple[int, ...], left: Lanes, right: Lanes) -> None:
        super().__init__(shape, left.element)
        self._left, self._right = left, right

    def _at(self, lane: Lane, index: Index) -> ir.Value:
        b, inner = lane.builder, index[:-1]
        first = b.icmp_signed("==", index[-1], ADDRESS(0))
        return b.select(first, self._left.at(lane, inner), self._right.at(lane, inner))


def half(source: Lanes, which: int) -> Lanes:
    """One of the two blocks that `joined` put together."""
    return Reindexed(source.shape[:-1], source, lambda b, index: (*index, ADDRESS(which)))


def flat(b: ir.IRBuilder, shape: tuple[int, ...], index: Index) -> ir.Value:
    """The row-major number of a lane."""
    offset: ir.Value = ADDRESS(0)
    for size, i in zip(shape, index):
        offset = (
            i if isinstance(offset, ir.Constant) and offset.constant == 0 else b.add(b.mul(offset, ADDRESS(size)), i)
        )
    return offset


def _unflat(b: ir.IRBuilder, shape: tuple[int, ...], offset: ir.Value) -> Index:
    index: list[ir.Value] = []
    for size in reversed(shape):
        index.append(b.urem(offset, ADDRESS(size)))
        offset = b.udiv(offset, ADDRESS(size))
    return tuple(reversed(index))


def zero(element: str) -> ir.Constant:
    """What lanes hold that nothing has set."""
    kind = llvm_type(element)
    return ir.Constant(kind, 0 if isinstance(kind, ir.IntType) else 0.0)
