"""One kernel from Triton's IR to LLVM: its function, elementwise operations, reductions and scans.

The result is a module with one function, `run(arguments)`, that runs every program of a grid and returns 0,
or stops at the first access or assertion that fails and says which (`Site`). `arguments` is a row of 64-bit words:
the kernel's parameters, then the words of `Extra`. The other form, for programs that are interleaved, is of
`coroutines`.
"""

from __future__ import annotations

from llvmlite import ir

from stalerow.kernels.compiled import arithmetic, values
from stalerow.kernels.compiled.accesses import Access
from stalerow.kernels.compiled.arithmetic import ADDRESS, SIZES, llvm_type
from stalerow.kernels.compiled.coroutines import Coroutine
from stalerow.kernels.compiled.emitter import Value
from stalerow.kernels.compiled.flow import Flow
from stalerow.kernels.compiled.mlir import Module, Op, Type
from stalerow.kernels.compiled.sites import Extra, Stop
from stalerow.kernels.compiled.values import Elementwise, Index, Lane, Lanes, Splat

WORD = ir.IntType(32)


class Translation(Flow):
    """Emits one kernel.

    interleaved: in the form whose programs can be interleaved; `shared_bytes` is what each program needs to be given.
    """

    def __init__(self, source: Module, interleaved: bool = False) -> None:
        super().__init__(source)
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
            self._parameter(i, self.known(kind, function.blocks[0].ops[0]))
            for i, (_, kind) in enumerate(function.blocks[0].arguments)
        ]
        self._blocks(function.blocks, parameters, lambda results: self.leave(Stop.DONE))
        self.head.branch(body)

    def leave(self, why: Stop) -> None:
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

    def _parameter(self, number: int, kind: Type) -> ir.Value:
        raw = self.word(self.head, self.words, number)
        made = llvm_type(kind.element)
        if isinstance(made, ir.IntType):
            return raw if made.width == 64 else self.head.trunc(raw, made)
        bits = ir.IntType(SIZES[kind.element] * 8)
        return self.head.bitcast(raw if bits.width == 64 else self.head.trunc(raw, bits), made)

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
                made = Access(self, self.coroutine, op, self._operands(op)).emit()
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
        kind = self.known(op.results[0][1], op)
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
