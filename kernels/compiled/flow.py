"""Control flow: structured regions, branches between blocks and calls, and the variables that they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from stalerow.kernels.compiled.arithmetic import llvm_type
from stalerow.kernels.compiled.emitter import Emitter, Value
from stalerow.kernels.compiled.errors import Unsupported
from stalerow.kernels.compiled.mlir import Block, Module, Op, Type
from stalerow.kernels.compiled.values import Stored


@dataclass(slots=True)
class Slot:
    """A variable: a value that control flow carries."""

    type: Type
    scalar: ir.Value | None
    block: Stored | None


class Flow(Emitter):
    """Emits blocks of operations in an order in which every value is there before it is used."""

    def __init__(self, source: Module) -> None:
        super().__init__(source)
        self._env: dict[int, Value] = {}

    def _op(self, op: Op) -> None:
        """Emit one operation."""
        raise NotImplementedError

    def _operands(self, op: Op) -> list[Value]:
        return [self._env[number] for number in op.operands]

    def _unsupported(self, op: Op) -> Unsupported:
        return Unsupported(self.kernel, op.name, str(op.location))

    def _blocks(self, blocks: list[Block], parameters: Sequence[Value], leave: Callable[[list[Value]], None]) -> None:
        """The blocks of a function, entered at the first with `parameters`; `leave` emits what a return does."""
        order = _dominating_first(blocks)
        starts = {i: self.b.block if i == 0 else self.b.append_basic_block("block") for i in order}
        slots = {
            i: [self._slot(self.known(kind, blocks[i].ops[0])) for _, kind in blocks[i].arguments]
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
        slots = [self._slot(self.known(kind, op)) for _, kind in op.results]
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
        slots = [self._slot(self.known(kind, op)) for _, kind in op.results]
        counter = self._slot(self.known(block.arguments[0][1], op))
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
        carried = [self._slot(self.known(kind, op)) for _, kind in before.arguments]
        passed = [self._slot(self.known(kind, op)) for _, kind in op.results]
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
        slots = [self._slot(self.known(kind, op)) for _, kind in op.results]
        after = self.b.append_basic_block("called")

        def leave(results: list[Value]) -> None:
            self._assign(slots, results)
            self.b.branch(after)

        self._blocks(function.blocks, self._operands(op), leave)
        self.b.position_at_end(after)
        self._results(op, slots)

    def _slot(self, kind: Type) -> Slot:
        if not kind.shape:
            return Slot(kind, self.head.alloca(llvm_type(kind.element)), None)
        return Slot(kind, None, self.room(kind.shape, kind.element))

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

    def _results(self, op: Op, slots: Sequence[Slot]) -> None:
        for (number, _), slot in zip(op.results, slots):
            self._env[number] = self._value(slot)


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
