"""One kernel from Triton's IR to LLVM: control flow, blocks carried through it, reductions and scans.

The result is a module with one function, `run(arguments)`, that runs every program of a grid and returns 0,
or stops at the first access or assertion that fails and says which (`Site`). `arguments` is a row of 64-bit words:
the kernel's parameters, then the words of `Extra`. The other form, for programs that are interleaved, is of
`coroutines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from llvmlite import ir

from stalerow.kernels.compiled import arithmetic, values
from stalerow.kernels.compiled.accesses import Access, declare_find
from stalerow.kernels.compiled.arithmetic import ADDRESS, SIZES, llvm_type, stored_type
from stalerow.kernels.compiled.coroutines import Coroutine
from stalerow.kernels.compiled.errors import Unsupported
from stalerow.kernels.compiled.mlir import Block, Module, Op, Type
from stalerow.kernels.compiled.sites import Extra, Site, Stop
from stalerow.kernels.compiled.values import Elementwise, Index, Lane, Lanes, Splat, Stored

Value: TypeAlias = Any
"""An LLVM value for a scalar, `Lanes` for a block."""

WORD = ir.IntType(32)
MAX_STORED_BYTES = 1 << 22
"""What a program may keep of its blocks at once: it lies on the stack."""


@dataclass(slots=True)
class Slot:
    """A variable: a value that control flow carries."""

    type: Type
    scalar: ir.Value | None
    block: Stored | None


class Translation:
    """Emits one kernel. `sites` are the places that can fail, in the order of their numbers.

    interleaved: in the form whose programs can be interleaved; `shared_bytes` is what each program needs to be given.
    """

    def __init__(self, source: Module, interleaved: bool = False) -> None:
        self.source = source
        self.kernel = source.entry
        self.sites: list[Site] = []
        self.module = ir.Module(name=source.entry)
        self._env: dict[int, Value] = {}
        self._kinds = _kinds(source)
        self._stored_bytes = 0
        self._find = declare_find(self.module)
        self.coroutine = Coroutine(self) if interleaved else None
        self._program()
        if self.coroutine:
            self.coroutine.drivers()
        else:
            self._run()

    @property
    def shared_bytes(self) -> int:
        return self.coroutine.shared_bytes if self.coroutine else 0

    def _program(self) -> None:
        """`program(arguments, x, y, z)`: one program of the grid; 0, or 1 after a failure."""
        if self.coroutine:
            self.program = self.coroutine.function
        else:
            kind = ir.FunctionType(WORD, [ADDRESS, WORD, WORD, WORD])
            self.program = ir.Function(self.module, kind, "program")
            self.program.linkage = "internal"
        self.entry = self.program.append_basic_block("entry")
        self.head = ir.IRBuilder(self.entry)
        self.words = self.program.args[0]
        self.ids = self.program.args[1:4]
        function = self.source.functions[self.kernel]
        self.num_parameters = len(function.blocks[0].arguments)
        if self.coroutine:
            self.coroutine.begin()
        self.b = ir.IRBuilder(self.program.append_basic_block("body"))
        body = self.b.block
        parameters = [
            self._parameter(i, self._known(kind, function.blocks[0].ops[0]))
            for i, (_, kind) in enumerate(function.blocks[0].arguments)
        ]
        self._blocks(function.blocks, parameters, lambda results: self._leave(Stop.DONE))
        self.head.branch(body)

    def _leave(self, why: Stop) -> None:
        """End the program here."""
        if self.coroutine:
            self.coroutine.leave(why)
        else:
            self.b.ret(WORD(0 if why is Stop.DONE else 1))

    def _meet(self, why: Stop) -> None:
        """All warps of the program come here before any goes on."""
        if self.coroutine:
            self.coroutine.stop(why)

    def _run(self) -> None:
        """`run(arguments)`: every program of the grid, in the order that is asked for."""
        run = ir.Function(self.module, ir.FunctionType(WORD, [ADDRESS]), "run")
        b = ir.IRBuilder(run.append_basic_block("entry"))
        words = run.args[0]
        x, y, z, order = (
            self.word(b, words, self.num_parameters + extra) for extra in (Extra.X, Extra.Y, Extra.Z, Extra.ORDER)
        )
        count = b.mul(b.mul(x, y), z)
        ordered = b.icmp_unsigned("!=", order, ADDRESS(0))
        entry = b.block
        head, pick, drawn, go, done, failed = (
            run.append_basic_block(name) for name in ("head", "pick", "drawn", "go", "done", "failed")
        )
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(ADDRESS)
        i.add_incoming(ADDRESS(0), entry)
        b.cbranch(b.icmp_signed("<", i, count), pick, done)
        b.position_at_end(pick)
        b.cbranch(ordered, drawn, go)
        b.position_at_end(drawn)
        number = self.word(b, b.add(order, b.mul(i, ADDRESS(8))), 0)
        b.branch(go)
        b.position_at_end(go)
        program = b.phi(ADDRESS)
        program.add_incoming(i, pick)
        program.add_incoming(number, drawn)
        rest = b.udiv(program, x)
        ids = [b.trunc(at, WORD) for at in (b.urem(program, x), b.urem(rest, y), b.udiv(rest, y))]
        status = b.call(self.program, [words, *ids])
        i.add_incoming(b.add(i, ADDRESS(1)), b.block)
        b.cbranch(b.icmp_signed("==", status, WORD(0)), head, failed)
        ir.IRBuilder(failed).ret(WORD(1))
        ir.IRBuilder(done).ret(WORD(0))

    def word(self, b: ir.IRBuilder, words: ir.Value, number: int) -> ir.Value:
        """One word of `arguments`."""
        return b.load(b.inttoptr(b.add(words, ADDRESS(8 * number)), ir.PointerType()), typ=ADDRESS)

    def _parameter(self, number: int, kind: Type) -> ir.Value:
        raw = self.word(self.head, self.words, number)
        made = llvm_type(kind.element)
        if isinstance(made, ir.IntType):
            return raw if made.width == 64 else self.head.trunc(raw, made)
        bits = ir.IntType(SIZES[kind.element] * 8)
        return self.head.bitcast(raw if bits.width == 64 else self.head.trunc(raw, bits), made)

    def _known(self, kind: Type | None, op: Op) -> Type:
        """`kind`, or an error that names the operation whose type has no translation."""
        if kind is None or kind.element not in SIZES:
            what = "a type of this operation" if kind is None else f"the type {kind.element}"
            raise Unsupported(self.kernel, f"{op.name} ({what})", str(op.location))
        return kind

    # Control flow

    def _blocks(self, blocks: list[Block], parameters: Sequence[Value], leave: Callable[[list[Value]], None]) -> None:
        """The blocks of a function, entered at the first with `parameters`; `leave` emits what a return does."""
        order = _dominating_first(blocks)
        starts = {i: self.b.block if i == 0 else self.b.append_basic_block("block") for i in order}
        slots = {
            i: [self._slot(self._known(kind, blocks[i].ops[0])) for _, kind in blocks[i].arguments]
            for i in order
            if i > 0
        }
        for i in order:
            block = blocks[i]
            self.b.position_at_end(starts[i])
            arrived = parameters if i == 0 else [self._value(slot) for slot in slots[i]]
            self._env.update(zip((number for number, _ in block.arguments), arrived))
            for op in block.ops[:-1]:
                self._op(op)
            last = block.ops[-1]
            operands = self._operands(last)
            if last.name in ("cf.br", "cf.cond_br"):
                self._branch(last, operands, starts, slots)
            elif last.name == "tt.return":
                leave(operands)
            else:
                raise self._unsupported(last)

    def _branch(self, op: Op, operands: list[Value], starts: dict[int, ir.Block], slots: dict[int, list[Slot]]) -> None:
        if op.name == "cf.br":
            self._assign(slots.get(op.targets[0], []), operands)
            self.b.branch(starts[op.targets[0]])
            return
        condition, given = operands[0], operands[1:]
        ways = []
        for target in op.targets:
            taken = slots.get(target, [])
            ways.append((self.b.append_basic_block("edge"), target, taken, given[: len(taken)]))
            given = given[len(taken) :]
        self.b.cbranch(condition, ways[0][0], ways[1][0])
        for edge, target, taken, passed in ways:
            self.b.position_at_end(edge)
            self._assign(taken, passed)
            self.b.branch(starts[target])

    def _region(self, block: Block, arrived: Sequence[Value]) -> Op:
        """Emit a structured region's one block up to its terminator, which is returned."""
        self._env.update(zip((number for number, _ in block.arguments), arrived))
        for op in block.ops[:-1]:
            self._op(op)
        return block.ops[-1]

    def _if(self, op: Op) -> None:
        condition = self._operands(op)[0]
        slots = [self._slot(self._known(kind, op)) for _, kind in op.results]
        after = self.b.append_basic_block("endif")
        ways = [self.b.append_basic_block("if"), self.b.append_basic_block("else")]
        self.b.cbranch(condition, *ways)
        for way, region in zip(ways, (op.regions + [[]])[:2]):
            self.b.position_at_end(way)
            if region:
                self._assign(slots, self._operands(self._region(region[0], [])))
            self.b.branch(after)
        self.b.position_at_end(after)
        self._results(op, slots)

    def _for(self, op: Op) -> None:
        low, high, step, *initial = self._operands(op)
        block = op.regions[0][0]
        slots = [self._slot(self._known(kind, op)) for _, kind in op.results]
        counter = self._slot(self._known(block.arguments[0][1], op))
        self._assign(slots, initial)
        self._assign([counter], [low])
        head, body, after = (self.b.append_basic_block(name) for name in ("for", "body", "endfor"))
        self.b.branch(head)
        self.b.position_at_end(head)
        i = self._value(counter)
        self.b.cbranch(self.b.icmp_signed("<", i, high), body, after)
        self.b.position_at_end(body)
        last = self._region(block, [i, *(self._value(slot) for slot in slots)])
        self._assign(slots, self._operands(last))
        self._assign([counter], [self.b.add(i, step)])
        self.b.branch(head)
        self.b.position_at_end(after)
        self._results(op, slots)

    def _while(self, op: Op) -> None:
        before, after = op.regions[0][0], op.regions[1][0]
        carried = [self._slot(self._known(kind, op)) for _, kind in before.arguments]
        passed = [self._slot(self._known(kind, op)) for _, kind in op.results]
        self._assign(carried, self._operands(op))
        head, body, done = (self.b.append_basic_block(name) for name in ("while", "do", "endwhile"))
        self.b.branch(head)
        self.b.position_at_end(head)
        condition, *given = self._operands(self._region(before, [self._value(slot) for slot in carried]))
        self._assign(passed, given)
        self.b.cbranch(condition, body, done)
        self.b.position_at_end(body)
        last = self._region(after, [self._value(slot) for slot in passed])
        self._assign(carried, self._operands(last))
        self.b.branch(head)
        self.b.position_at_end(done)
        self._results(op, passed)

    def _call(self, op: Op) -> None:
        """A function that Triton did not inline: its blocks are emitted here."""
        function = self.source.functions[str(op.attributes["callee"])]
        slots = [self._slot(self._known(kind, op)) for _, kind in op.results]
        after = self.b.append_basic_block("called")

        def leave(results: list[Value]) -> None:
            self._assign(slots, results)
            self.b.branch(after)

        self._blocks(function.blocks, self._operands(op), leave)
        self.b.position_at_end(after)
        self._results(op, slots)

    # Variables

    def _slot(self, kind: Type) -> Slot:
        if not kind.shape:
            return Slot(kind, self.head.alloca(llvm_type(kind.element)), None)
        return Slot(kind, None, self.room(kind.shape, kind.element))

    def room(self, shape: tuple[int, ...], element: str) -> Stored:
        """Memory of the program for a block."""
        count = 1
        for size in shape:
            count *= size
        self._stored_bytes += count * SIZES[element]
        if self._stored_bytes > MAX_STORED_BYTES:
            raise Unsupported(self.kernel, f"blocks of more than {MAX_STORED_BYTES} bytes in one program")
        return Stored(shape, element, self.head.alloca(stored_type(element), count))

    def _value(self, slot: Slot) -> Value:
        if slot.block is not None:
            return slot.block
        return self.b.load(slot.scalar, typ=llvm_type(slot.type.element))

    def _assign(self, slots: Sequence[Slot], given: Sequence[Value]) -> None:
        """All at once: a value may be another variable of the same assignment."""
        fresh: list[tuple[Stored, Stored]] = []
        for slot, value in zip(slots, given, strict=True):
            if slot.block is not None and value is not slot.block:
                kept = self.room(slot.type.shape, slot.type.element)
                self.keep(value, kept)
                fresh.append((kept, slot.block))
        for slot, value in zip(slots, given):
            if slot.block is None:
                self.b.store(value, slot.scalar)
        for kept, block in fresh:
            self.keep(kept, block)

    def keep(self, value: Lanes, room: Stored) -> None:
        """Compute every lane of `value` into `room`."""
        with self.lanes(value.shape) as (lane, index):
            room.store(lane.builder, index, value.at(lane, index))

    def _results(self, op: Op, slots: Sequence[Slot]) -> None:
        for (number, _), slot in zip(op.results, slots):
            self._env[number] = self._value(slot)

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

    # Operations

    def _operands(self, op: Op) -> list[Value]:
        return [self._env[number] for number in op.operands]

    def _unsupported(self, op: Op) -> Unsupported:
        return Unsupported(self.kernel, op.name, str(op.location))

    def _op(self, op: Op) -> None:
        match op.name:
            case "scf.if":
                self._if(op)
            case "scf.for":
                self._for(op)
            case "scf.while":
                self._while(op)
            case "tt.call":
                self._call(op)
            case "tt.load" | "tt.store" | "tt.atomic_rmw" | "tt.atomic_cas":
                made = Access(self, op, self._operands(op)).emit()
                if op.results:
                    self._env[op.results[0][0]] = made
            case "tt.reduce" | "tt.scan":
                self._fold(op)
            case "tt.split":
                source = self._operands(op)[0]
                for which, (number, _) in enumerate(op.results):
                    self._env[number] = values.half(source, which)
            case "tt.assert":
                self._assertion(op)
            case "ttg.barrier" | "gpu.barrier" | "ttg.local_barrier":
                self._meet(Stop.BARRIER)
            case "tt.print" | "llvm.intr.assume":
                pass
            case _:
                self._env[op.results[0][0]] = self._pure(op)

    def _pure(self, op: Op) -> Value:
        """An operation without effect and with one result."""
        kind = self._known(op.results[0][1], op)
        operands = self._operands(op)
        match op.name:
            case "arith.constant":
                scalar = arithmetic.constant(kind.element, op)
                return Splat(kind.shape, kind.element, scalar) if kind.shape else scalar
            case "ub.poison":
                scalar = values.zero(kind.element)
                return Splat(kind.shape, kind.element, scalar) if kind.shape else scalar
            case "tt.get_program_id":
                return self.ids[int(op.attributes["axis"])]
            case "tt.get_num_programs":
                extra = (Extra.X, Extra.Y, Extra.Z)[int(op.attributes["axis"])]
                return self.b.trunc(self.word(self.b, self.words, self.num_parameters + extra), WORD)
            case "tt.make_range":
                return values.Range(kind.shape, int(op.attributes["start"]))
            case "tt.splat":
                return Splat(kind.shape, kind.element, operands[0])
            case "tt.unsplat":
                lane = Lane(self.b)
                return operands[0].at(lane, tuple(ADDRESS(0) for _ in operands[0].shape))
            case "tt.expand_dims":
                return values.expand_dims(operands[0], int(op.attributes["axis"]))
            case "tt.broadcast":
                return values.broadcast(operands[0], kind.shape)
            case "tt.reshape":
                return values.reshape(operands[0], kind.shape)
            case "tt.trans":
                return values.transpose(operands[0], [int(d) for d in str(op.attributes["order"]).split(",")])
            case "tt.join":
                return values.joined(operands)
        if not arithmetic.known(op.name):
            raise self._unsupported(op)
        return self._elementwise(op, kind, operands)

    def _elementwise(self, op: Op, kind: Type, operands: list[Value]) -> Value:
        if op.name == "tt.addptr":
            op.attributes["size"] = SIZES[kind.pointee]
        kinds = [self.element(number, value) for number, value in zip(op.operands, operands)]
        if not kind.shape:
            return arithmetic.emit(self.b, op, operands, kinds, kind.element)
        blocks = [v if isinstance(v, Lanes) else Splat(kind.shape, e, v) for v, e in zip(operands, kinds)]
        return Elementwise(
            kind.shape, kind.element, blocks, lambda b, args: arithmetic.emit(b, op, args, kinds, kind.element)
        )

    def element(self, number: int, value: Value) -> str:
        """The element type of an operand, from its block or, for a scalar, from what defined it."""
        if isinstance(value, Lanes):
            return value.element
        return self._kinds[number]

    def _assertion(self, op: Op) -> None:
        condition = self._operands(op)[0]
        site = self.site(op, 0, f"assertion failed: {op.attributes.get('message', '')}")
        if isinstance(condition, Lanes):
            with self.lanes(condition.shape) as (lane, index):
                self.unless(condition.at(lane, index), site, ADDRESS(0))
        else:
            self.unless(condition, site, ADDRESS(0))

    def _fold(self, op: Op) -> None:
        """A reduction, or a scan that also keeps every intermediate result."""
        axis = int(op.attributes["axis"])
        operands = self._operands(op)
        self._meet(Stop.EXCHANGE)
        shape = operands[0].shape
        scan = op.name == "tt.scan"
        rest = (*shape[:axis], *shape[axis + 1 :])
        if scan and op.attributes["reverse"]:
            raise self._unsupported(op)
        sums = [self.head.alloca(llvm_type(value.element)) for value in operands]
        rooms = [self.room(shape if scan else rest, value.element) for value in operands] if scan or rest else []
        with self.lanes(rest) as (lane, index):

            def whole(i: ir.Value) -> Index:
                return (*index[:axis], i, *index[axis:])

            first = [value.at(lane, whole(ADDRESS(0))) for value in operands]
            for place, value in zip(sums, first):
                self.b.store(value, place)
            if scan:
                for room, value in zip(rooms, first):
                    room.store(self.b, whole(ADDRESS(0)), value)
            if shape[axis] > 1:
                with self.lanes((shape[axis] - 1,)) as (inner, (before,)):
                    position = self.b.add(before, ADDRESS(1))
                    so_far = [self.b.load(place, typ=llvm_type(v.element)) for place, v in zip(sums, operands)]
                    new = [value.at(inner, whole(position)) for value in operands]
                    block = op.regions[0][0]
                    made = self._operands(self._region(block, [*so_far, *new]))
                    for place, value in zip(sums, made):
                        self.b.store(value, place)
                    if scan:
                        for room, value in zip(rooms, made):
                            room.store(self.b, whole(position), value)
            if rest and not scan:
                for room, place, value in zip(rooms, sums, operands):
                    room.store(self.b, index, self.b.load(place, typ=llvm_type(value.element)))
        for i, (number, _) in enumerate(op.results):
            scalar = None if rooms else self.b.load(sums[i], typ=llvm_type(operands[i].element))
            self._env[number] = rooms[i] if rooms else scalar

    # Failures

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
        self._leave(Stop.FAILED)
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


def _dominating_first(blocks: list[Block]) -> list[int]:
    """Blocks in reverse postorder, so that a value is emitted before what uses it; unreachable ones are left out."""
    seen: set[int] = set()
    order: list[int] = []

    def visit(i: int) -> None:
        seen.add(i)
        for target in reversed(blocks[i].ops[-1].targets):
            if target not in seen:
                visit(target)
        order.append(i)

    visit(0)
    return order[::-1]
