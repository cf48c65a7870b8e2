"""Loads, stores and atomics, each lane checked against the memory that the launch may touch.

A site remembers the range that held its last access, so that the check is one subtraction and one comparison; another
range is looked for among all of them (`Emitter.find`), and an address in none ends the program as a failure. The bytes
are not touched then. Where programs are interleaved, a warp stops before each operation, and what it touches is logged.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from stalerow.kernels.compiled import arithmetic, values
from stalerow.kernels.compiled.arithmetic import ADDRESS, SIZES, llvm_type, stored_type
from stalerow.kernels.compiled.coroutines import Coroutine
from stalerow.kernels.compiled.emitter import Emitter
from stalerow.kernels.compiled.errors import Unsupported
from stalerow.kernels.compiled.mlir import Op
from stalerow.kernels.compiled.sites import Stop
from stalerow.kernels.compiled.values import Lanes

_AND, _OR, _XOR, _ADD, _FADD, _MAX, _MIN, _UMAX, _UMIN, _XCHG = range(1, 11)
"""`RMWOp` of Triton's dialect."""

_UPDATES = {
    _AND: "arith.andi",
    _OR: "arith.ori",
    _XOR: "arith.xori",
    _ADD: "arith.addi",
    _FADD: "arith.addf",
    _MAX: "arith.maxsi",
    _MIN: "arith.minsi",
    _UMAX: "arith.maxui",
    _UMIN: "arith.minui",
}


class Access:
    """One memory operation of a kernel."""

    def __init__(self, emitter: Emitter, coroutine: Coroutine | None, op: Op, operands: list[Any]) -> None:
        self._t = emitter
        self._op = op
        self._pointer, *rest = operands
        kind = op.results[0][1] if op.results else None
        if op.name == "tt.load":
            self._mask = rest[0] if rest else None
            self._other = rest[1] if len(rest) > 1 else None
            self._given: list[Any] = []
        else:
            data = 2 if op.name == "tt.atomic_cas" else 1
            self._given, self._mask, self._other = rest[:data], (rest[data : data + 1] or [None])[0], None
        self._coroutine = coroutine
        self._own: ir.Value | None = None
        self._others = True
        self._block = isinstance(self._pointer, Lanes)
        self._shape = self._pointer.shape if self._block else ()
        element = kind.element if kind else self._stored_element()
        if element not in SIZES:
            raise Unsupported(emitter.kernel, f"{op.name} of {element}", str(op.location))
        self._element = element

    def _stored_element(self) -> str:
        return self._t.element(self._op.operands[1], self._given[0])

    def emit(self) -> Any:
        """Emit the operation; returns what was read (a load) or was there before (an atomic)."""
        t = self._t
        size = SIZES[self._element]
        verb = {"tt.load": "load", "tt.store": "store"}.get(self._op.name, "atomic")
        self._site = t.site(self._op, size, verb)
        self._low = t.head_variable(ADDRESS, 0)
        self._span = t.head_variable(ADDRESS, 0)
        if self._coroutine and verb != "atomic":
            self._coroutine.stop(Stop.ACCESS)
        elif self._coroutine:
            return self._told()
        return self._made()

    def _made(self, shared: ir.Value | None = None) -> Any:
        """The operation itself, what it reads kept in `shared` if that is given."""
        t = self._t
        if not self._block:
            return self._scalar(shared)
        room = None if self._op.name == "tt.store" else self._room(shared)
        with t.lanes(self._shape) as (lane, index):
            address = self._pointer.at(lane, index)
            mask = self._mask.at(lane, index) if isinstance(self._mask, Lanes) else self._mask
            if self._coroutine:
                self._own = self._coroutine.owns(values.flat(t.b, self._shape, index))
                mask = self._mine(mask)
            given = [value.at(lane, index) if isinstance(value, Lanes) else value for value in self._given]
            other = self._other.at(lane, index) if isinstance(self._other, Lanes) else self._other
            self._lane(address, mask, given, other, lambda value: room.store(t.b, index, value) if room else None)
        return room

    def _scalar(self, shared: ir.Value | None = None) -> ir.Value | None:
        t = self._t
        mask = self._mask
        if self._coroutine:
            self._own = None if self._op.name == "tt.load" else self._coroutine.first()
            mask = self._mine(mask)
        if self._op.name == "tt.store":
            self._lane(self._pointer, mask, self._given, None, lambda value: None)
            return None
        place = t.head.alloca(llvm_type(self._element)) if shared is None else shared
        self._lane(self._pointer, mask, self._given, self._other, lambda value: t.b.store(value, place))
        return t.b.load(place, typ=llvm_type(self._element))

    def _mine(self, mask: ir.Value | None) -> ir.Value | None:
        """Of lanes that change memory a warp's own; it loads others' too, which it may need."""
        if self._own is None or self._op.name == "tt.load":
            return mask
        return self._own if mask is None else self._t.b.and_(mask, self._own)

    def _room(self, shared: ir.Value | None) -> values.Stored:
        if shared is None:
            return self._t.room(self._shape, self._element)
        return values.Stored(self._shape, self._element, shared)

    def _told(self) -> Any:
        """An atomic whose lanes are done by the warps that own them; all read what they found after that."""
        assert self._coroutine is not None
        lanes = math.prod(self._shape)
        shared = self._coroutine.room(lanes * SIZES[self._element])
        self._coroutine.stop(Stop.EXCHANGE)
        self._coroutine.stop(Stop.ACCESS)
        self._others = False
        self._made(shared)
        self._coroutine.stop(Stop.EXCHANGE)
        if not self._block:
            return self._t.b.load(shared, typ=llvm_type(self._element))
        room = self._t.room(self._shape, self._element)
        self._t.keep(values.Stored(self._shape, self._element, shared), room)
        return room

    def _lane(self, address: ir.Value, mask: ir.Value | None, given: list[ir.Value], other: Any, keep: Any) -> None:
        """One lane: where the mask is off nothing is checked or touched, and `other` (or 0) is kept."""
        b = self._t.b
        if mask is None:
            keep(self._touch(self._checked(address), given))
            return
        on, off, after = (b.append_basic_block(name) for name in ("on", "off", "after"))
        b.cbranch(mask, on, off)
        b.position_at_end(on)
        keep(self._touch(self._checked(address), given))
        b.branch(after)
        b.position_at_end(off)
        if self._op.name != "tt.store" and self._others:
            keep(values.zero(self._element) if other is None else other)
        b.branch(after)
        b.position_at_end(after)

    def _checked(self, address: ir.Value) -> ir.Value:
        """A pointer to `address`, once it is known to lie in a range."""
        t, b = self._t, self._t.b
        size = SIZES[self._element]
        inside = b.icmp_unsigned("<", b.sub(address, b.load(self._low, typ=ADDRESS)), b.load(self._span, typ=ADDRESS))
        elsewhere, good = b.append_basic_block("elsewhere"), b.append_basic_block("inside")
        b.cbranch(inside, good, elsewhere)
        b.position_at_end(elsewhere)
        found = t.find(address, size)
        span = b.extract_value(found, 1)
        b.store(b.extract_value(found, 0), self._low)
        b.store(span, self._span)
        t.unless(b.icmp_unsigned("!=", span, ADDRESS(0)), self._site, address)
        b.branch(good)
        b.position_at_end(good)
        return b.inttoptr(address, ir.PointerType())

    def _touch(self, pointer: ir.Value, given: list[ir.Value]) -> ir.Value | None:
        b = self._t.b
        kind = stored_type(self._element)
        if self._op.name == "tt.store":
            value = b.zext(given[0], kind) if self._element == "i1" else given[0]
            before = None
            if self._coroutine:
                before = b.load(pointer, typ=kind)
                before.align = 1
            b.store(value, pointer).align = 1
            self._log(pointer, value, before)
            return None
        load = b.load(pointer, typ=kind)
        load.align = 1
        self._log(pointer, load, load)
        old = b.trunc(load, ir.IntType(1)) if self._element == "i1" else load
        if self._op.name == "tt.load":
            return old
        if self._op.name == "tt.atomic_cas":
            compare, new = given
            b.store(b.select(b.icmp_unsigned("==", old, compare), new, old), pointer).align = 1
            return old
        b.store(self._updated(old, given[0]), pointer).align = 1
        return old

    def _log(self, pointer: ir.Value, value: ir.Value, before: ir.Value) -> None:
        """Write a lane's access down, if the lane is the warp's own."""
        if not self._coroutine:
            return
        b = self._t.b
        words = [self._word(value), self._word(before)]
        address = b.ptrtoint(pointer, ADDRESS)
        if self._own is None:
            self._coroutine.log(self._site, address, *words)
            return
        with b.if_then(self._own):
            self._coroutine.log(self._site, address, *words)

    def _word(self, value: ir.Value) -> ir.Value:
        """The bits of a lane as a number of 64."""
        b = self._t.b
        if not isinstance(value.type, ir.IntType):
            value = b.bitcast(value, ir.IntType(SIZES[self._element] * 8))
        return value if value.type.width == 64 else b.zext(value, ADDRESS)

    def _updated(self, old: ir.Value, given: ir.Value) -> ir.Value:
        update = int(self._op.attributes["atomic_rmw_op"])
        if update == _XCHG:
            return given
        name = _UPDATES[update]
        return arithmetic.emit(self._t.b, Op(name, [], []), [old, given], [self._element] * 2, self._element)
