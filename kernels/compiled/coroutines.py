"""The form of a kernel whose programs can be interleaved: each of a program's warps as an LLVM coroutine.

A warp stops before every memory access and at every barrier, so that whoever drives it (`interleave`) decides who goes
on. As on a GPU, the warps of a program run the same code. Each loads whole blocks for itself, stores the lanes that are
its own (`Signal.LANES` consecutive ones in turn), and the first alone stores scalars and does atomics, whose result the
others take from memory of the program. A reduction, a scan, an atomic and `tl.debug_barrier` are barriers. The front
end's IR knows no layouts: where a GPU would exchange lanes between a load and a store, there is no barrier here.

Exports `start(arguments, x, y, z, warp, shared)`, which returns a warp that has stopped for the first time,
`advance(warp, stops, signal)`, which lets it pass as many accesses at most, and `drop(warp)`. Why it stopped is in the
words of `Signal`, with a log of what was touched.
"""

from __future__ import annotations

from llvmlite import ir

from stalerow.kernels.compiled.arithmetic import ADDRESS
from stalerow.kernels.compiled.emitter import Emitter
from stalerow.kernels.compiled.sites import ENTRY_WORDS, Extra, Signal, Stop

_WORD = ir.IntType(32)
_BYTE = ir.IntType(8)
_BIT = ir.IntType(1)
_POINTER = ir.PointerType()
_VOID = ir.VoidType()


class _Token(ir.Type):  # type: ignore[misc]
    """LLVM's `token`, which llvmlite's builder does not know."""

    def _to_string(self) -> str:
        return "token"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Token)

    def __hash__(self) -> int:
        return hash(_Token)


_TOKEN = _Token()
_NONE = ir.FormattedConstant(_TOKEN, "none")
_NULL = ir.Constant(_POINTER, None)


class Coroutine:
    """Emits what makes `emitter`'s program a coroutine. `function` is the one to fill, `warp` and `shared` are its
    warp's number and the address of its program's shared memory."""

    def __init__(self, emitter: Emitter) -> None:
        self._t = emitter
        module = emitter.module
        self._declared = {
            name: ir.Function(module, ir.FunctionType(result, arguments), name)
            for name, result, arguments in (
                ("llvm.coro.id", _TOKEN, [_WORD, _POINTER, _POINTER, _POINTER]),
                ("llvm.coro.size.i64", ADDRESS, []),
                ("llvm.coro.begin", _POINTER, [_TOKEN, _POINTER]),
                ("llvm.coro.suspend", _BYTE, [_TOKEN, _BIT]),
                ("llvm.coro.free", _POINTER, [_TOKEN, _POINTER]),
                ("llvm.coro.end", _VOID, [_POINTER, _BIT, _TOKEN]),
                ("llvm.coro.resume", _VOID, [_POINTER]),
                ("llvm.coro.destroy", _VOID, [_POINTER]),
                ("malloc", _POINTER, [ADDRESS]),
                ("free", _VOID, [_POINTER]),
            )
        }
        kind = ir.FunctionType(_POINTER, [ADDRESS, _WORD, _WORD, _WORD, ADDRESS, ADDRESS])
        self.function = ir.Function(module, kind, "start")
        set.add(self.function.attributes, "presplitcoroutine")  # which llvmlite does not list
        self.warp, self.shared = self.function.args[4:]
        self.shared_bytes = 0

    def begin(self) -> None:
        """The frame, at the head of the function; then the blocks in which every way out ends."""
        b = self._t.head
        call = self._declared
        self._id = b.call(call["llvm.coro.id"], [_WORD(0), _NULL, _NULL, _NULL])
        memory = b.call(call["malloc"], [b.call(call["llvm.coro.size.i64"], [])])
        self._handle = b.call(call["llvm.coro.begin"], [self._id, memory])
        self._signal = self._t.word(b, self._t.words, self._t.num_parameters + Extra.ORDER)
        self._ended, self._stopped = (self.function.append_basic_block(name) for name in ("ended", "stopped"))
        ending = ir.IRBuilder(self._ended)
        ending.call(call["free"], [ending.call(call["llvm.coro.free"], [self._id, self._handle])])
        ending.branch(self._stopped)
        stopping = ir.IRBuilder(self._stopped)
        stopping.call(call["llvm.coro.end"], [self._handle, _BIT(0), _NONE])
        stopping.ret(self._handle)

    def leave(self, why: Stop) -> None:
        """End the warp here."""
        self._say(why)
        self._t.b.branch(self._ended)

    def stop(self, why: Stop) -> None:
        """Wait here until the warp is let go on."""
        b = self._t.b
        self._say(why)
        going = b.call(self._declared["llvm.coro.suspend"], [_NONE, _BIT(0)])
        on = b.append_basic_block("resumed")
        choice = b.switch(going, self._stopped)
        choice.add_case(_BYTE(0), on)
        choice.add_case(_BYTE(1), self._ended)
        b.position_at_end(on)

    def _say(self, why: Stop) -> None:
        self._t.b.store(ADDRESS(why), self._at(Signal.WHY))

    def _at(self, word: Signal) -> ir.Value:
        b = self._t.b
        return b.inttoptr(b.add(self._signal, ADDRESS(8 * word)), _POINTER)

    def first(self) -> ir.Value:
        """Whether this is the program's first warp."""
        return self._t.b.icmp_unsigned("==", self.warp, ADDRESS(0))

    def owns(self, lane: ir.Value) -> ir.Value:
        """Whether the lane of a row-major number is this warp's."""
        b = self._t.b
        warps, lanes = (b.load(self._at(word), typ=ADDRESS) for word in (Signal.WARPS, Signal.LANES))
        return b.icmp_unsigned("==", b.urem(b.udiv(lane, lanes), warps), self.warp)

    def room(self, size: int) -> ir.Value:
        """The address of `size` bytes that a program's warps share."""
        place = self.shared_bytes
        self.shared_bytes += -(-size // 8) * 8
        return self._t.b.inttoptr(self._t.b.add(self.shared, ADDRESS(place)), _POINTER)

    def log(self, site: int, address: ir.Value, value: ir.Value, before: ir.Value) -> None:
        """Write down an access (`Entry`), as long as there is room."""
        b = self._t.b
        end = b.load(self._at(Signal.LOG_END), typ=ADDRESS)
        cursor = b.load(self._at(Signal.LOG), typ=ADDRESS)
        with b.if_then(b.icmp_unsigned("<", cursor, end)):
            tag = b.load(self._at(Signal.TAG), typ=ADDRESS)
            for number, word in enumerate((tag, ADDRESS(site), address, value, before)):
                b.store(word, b.inttoptr(b.add(cursor, ADDRESS(8 * number)), _POINTER))
            b.store(b.add(cursor, ADDRESS(8 * ENTRY_WORDS)), self._at(Signal.LOG))

    def drivers(self) -> None:
        """`advance(warp, stops, signal)` and `drop(warp)`."""
        module, call = self._t.module, self._declared
        advance = ir.Function(module, ir.FunctionType(_VOID, [_POINTER, ADDRESS, ADDRESS]), "advance")
        warp, stops, signal = advance.args
        head, again, after = (advance.append_basic_block(name) for name in ("head", "again", "after"))
        b = ir.IRBuilder(head)
        place = b.inttoptr(b.add(signal, ADDRESS(8 * Signal.WHY)), _POINTER)
        passed = b.inttoptr(b.add(signal, ADDRESS(8 * Signal.PASSED)), _POINTER)
        b.branch(again)
        b.position_at_end(again)
        count = b.phi(ADDRESS)
        count.add_incoming(ADDRESS(0), head)
        b.call(call["llvm.coro.resume"], [warp])
        following = b.add(count, ADDRESS(1))
        count.add_incoming(following, again)
        at_access = b.icmp_unsigned("==", b.load(place, typ=ADDRESS), ADDRESS(Stop.ACCESS))
        b.cbranch(b.and_(at_access, b.icmp_unsigned("<", following, stops)), again, after)
        b.position_at_end(after)
        b.store(following, passed)
        b.ret_void()
        drop = ir.Function(module, ir.FunctionType(_VOID, [_POINTER]), "drop")
        b = ir.IRBuilder(drop.append_basic_block("entry"))
        b.call(call["llvm.coro.destroy"], [drop.args[0]])
        b.ret_void()
