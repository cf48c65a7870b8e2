"""What every part of a translation emits with: where code goes, loops over lanes, places that fail, and memory.

Control flow (`flow`), accesses (`accesses`) and the form whose programs can be interleaved (`coroutines`) build on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from llvmlite import ir

from stalerow.kernels.compiled.arithmetic import ADDRESS, SIZES, stored_type
from stalerow.kernels.compiled.errors import Unsupported
from stalerow.kernels.compiled.mlir import Block, Module, Op, Type
from stalerow.kernels.compiled.sites import Extra, Site, Stop
from stalerow.kernels.compiled.values import Index, Lane, Lanes, Stored

Value: TypeAlias = Any
"""An LLVM value for a scalar, `Lanes` for a block."""

MAX_STORED_BYTES = 1 << 22
"""What a program may keep of its blocks at once: it lies on the stack."""

_RANGE = ir.LiteralStructType([ADDRESS, ADDRESS])


class Emitter:
    """Emits into `module`. `b` is where code goes, `head` what runs before a program's first operation, `words` the
    address of the launch's arguments, `ids` the program's place in the grid. `sites` are the places that can fail, in
    the order of their numbers."""

    b: ir.IRBuilder
    head: ir.IRBuilder
    words: ir.Value
    ids: list[ir.Value]
    num_parameters: int

    def __init__(self, source: Module) -> None:
        self.source = source
        self.kernel = source.entry
        self.sites: list[Site] = []
        self.module = ir.Module(name=source.entry)
        self._kinds = _kinds(source)
        self._stored_bytes = 0
        self._find = _declare_find(self.module)

    def leave(self, why: Stop) -> None:
        """End the program here."""
        raise NotImplementedError

    def word(self, b: ir.IRBuilder, words: ir.Value, number: int) -> ir.Value:
        """One word of `arguments`."""
        return b.load(b.inttoptr(b.add(words, ADDRESS(8 * number)), ir.PointerType()), typ=ADDRESS)

    def room(self, shape: tuple[int, ...], element: str) -> Stored:
        """Memory of the program for a block."""
        count = 1
        for size in shape:
            count *= size
        self._stored_bytes += count * SIZES[element]
        if self._stored_bytes > MAX_STORED_BYTES:
            raise Unsupported(self.kernel, f"blocks of more than {MAX_STORED_BYTES} bytes in one program")
        return Stored(shape, element, self.head.alloca(stored_type(element), count))

    def keep(self, value: Lanes, room: Stored) -> None:
        """Compute every lane of `value` into `room`."""
        with self.lanes(value.shape) as (lane, index):
            room.store(lane.builder, index, value.at(lane, index))

    @contextmanager
    def lanes(self, shape: tuple[int, ...]) -> Iterator[tuple[Lane, Index]]:
        """A loop over the lanes of a block, row-major; the body is emitted once."""
        index: list[ir.Value] = []
        heads: list[tuple[ir.Block, ir.PhiInstr, int]] = []
        for size in shape:
            if size == 1:
                index.append(ADDRESS(0))
                continue
            head = self.b.append_basic_block("lane")
            before = self.b.block
            self.b.branch(head)
            self.b.position_at_end(head)
            i = self.b.phi(ADDRESS)
            i.add_incoming(ADDRESS(0), before)
            index.append(i)
            heads.append((head, i, size))
        yield Lane(self.b), tuple(index)
        for head, i, size in reversed(heads):
            following = self.b.add(i, ADDRESS(1))
            i.add_incoming(following, self.b.block)
            after = self.b.append_basic_block("lanes")
            self.b.cbranch(self.b.icmp_unsigned("<", following, ADDRESS(size)), head, after)
            self.b.position_at_end(after)

    def element(self, number: int, value: Value) -> str:
        """The element type of an operand, from its block or, for a scalar, from what defined it."""
        if isinstance(value, Lanes):
            return value.element
        return self._kinds[number]

    def known(self, kind: Type | None, op: Op) -> Type:
        """`kind`, or an error that names the operation whose type has no translation."""
        if kind is None or kind.element not in SIZES:
            what = "a type of this operation" if kind is None else f"the type {kind.element}"
            raise Unsupported(self.kernel, f"{op.name} ({what})", str(op.location))
        return kind

    def site(self, op: Op, size: int, what: str) -> int:
        """The number of a new place that can fail."""
        self.sites.append(Site(what, op.location.file, op.location.line, size))
        return len(self.sites) - 1

    def unless(self, condition: ir.Value, site: int, address: ir.Value) -> None:
        """Go on if `condition` holds; else write down where the program was and leave."""
        b = self.b
        good, bad = b.append_basic_block("good"), b.append_basic_block("bad")
        b.cbranch(condition, good, bad)
        b.position_at_end(bad)
        failure = self.word(b, self.words, self.num_parameters + Extra.FAILURE)
        facts = [ADDRESS(site), *(b.sext(i, ADDRESS) for i in self.ids), address]
        for number, fact in enumerate(facts):
            b.store(fact, b.inttoptr(b.add(failure, ADDRESS(8 * number)), ir.PointerType()))
        self.leave(Stop.FAILED)
        b.position_at_end(good)

    def find(self, address: ir.Value, size: int) -> ir.Value:
        """{low, span} of the range that `size` bytes at `address` lie in; a span of 0 where there is none."""
        b = self.b
        first = self.word(b, self.words, self.num_parameters + Extra.RANGES)
        count = self.word(b, self.words, self.num_parameters + Extra.NUM_RANGES)
        return b.call(self._find, [address, ADDRESS(size), first, count])

    def head_variable(self, kind: ir.Type, initial: int) -> ir.Value:
        """A variable of the whole program, set before its first operation."""
        place = self.head.alloca(kind)
        self.head.store(kind(initial), place)
        return place


def _kinds(source: Module) -> dict[int, str]:
    """Element type of every value of a module, by number."""
    found: dict[int, str] = {}

    def visit(block: Block) -> None:
        for number, kind in block.arguments:
            found[number] = kind.element if kind else ""
        for op in block.ops:
            for number, kind in op.results:
                found[number] = kind.element if kind else ""
            for region in op.regions:
                for inner in region:
                    visit(inner)

    for function in source.functions.values():
        for block in function.blocks:
            visit(block)
    return found


def _declare_find(module: ir.Module) -> ir.Function:
    """`find(address, size, ranges, count)`: the range that holds `size` bytes at `address`, as {low, span}.

    `span` is the number of addresses, from `low` on, at which `size` bytes lie inside; 0 where no range holds them.
    """
    find = ir.Function(module, ir.FunctionType(_RANGE, [ADDRESS, ADDRESS, ADDRESS, ADDRESS]), "find")
    find.linkage = "internal"
    find.attributes.add("noinline")
    address, size, first, count = find.args
    b = ir.IRBuilder(find.append_basic_block("entry"))
    head, body, hit, miss = (find.append_basic_block(name) for name in ("head", "body", "hit", "miss"))
    entry = b.block
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(ADDRESS)
    i.add_incoming(ADDRESS(0), entry)
    b.cbranch(b.icmp_unsigned("<", i, count), body, miss)
    b.position_at_end(body)
    place = b.add(first, b.mul(i, ADDRESS(16)))
    low = b.load(b.inttoptr(place, ir.PointerType()), typ=ADDRESS)
    high = b.load(b.inttoptr(b.add(place, ADDRESS(8)), ir.PointerType()), typ=ADDRESS)
    room = b.add(b.sub(b.sub(high, low), size), ADDRESS(1))
    fits = b.icmp_unsigned(">=", b.sub(high, low), size)
    inside = b.and_(fits, b.icmp_unsigned("<", b.sub(address, low), room))
    i.add_incoming(b.add(i, ADDRESS(1)), b.block)
    b.cbranch(inside, hit, head)
    b.position_at_end(hit)
    made = b.insert_value(ir.Constant(_RANGE, ir.Undefined), low, 0)
    b.ret(b.insert_value(made, room, 1))
    b.position_at_end(miss)
    b.ret(ir.Constant(_RANGE, [ADDRESS(0), ADDRESS(0)]))
    return find
