"""From a `@triton.jit` function to the IR that Triton itself makes of it, read through Triton's own bindings.

No GPU is needed: the front end runs for a target that is never generated code for. The bindings give operations,
operands, types, regions and (from Triton 3.7 on) integer attributes. What they do not give (lines of operations
without results, branch targets, literals that are no integers) comes from the printed form, matched by the order of
operations.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from stalerow.kernels.compiled.errors import Unsupported
from stalerow.kernels.compiled.mlir import FLOAT_PREDICATES, Block, Function, Location, Module, Op, Type, parse_type

TARGET = ("cuda", 90, 32)
"""Backend, capability and warp size that the front end is told: Hopper's front end keeps all operations."""

_OPERATION = re.compile(r'^\s*(?:%[^=]* = )?"?([a-z]\w*\.[\w.]+)"?')
_ALIAS = re.compile(r"^#(loc\d*) = loc\((.*)\)$")
_TRAILER = re.compile(r" loc\((#loc\d*|unknown)\)$")
_FILE = re.compile(r'"([^"]*)":(\d+):\d+')
_REFERENCE = re.compile(r"#loc\d*")
_TARGETS = re.compile(r"\^bb(\d+)")

_INTEGERS = {
    "arith.cmpi": ("predicate",),
    "arith.cmpf": ("predicate",),
    "tt.get_program_id": ("axis",),
    "tt.get_num_programs": ("axis",),
    "tt.make_range": ("start", "end"),
    "tt.expand_dims": ("axis",),
    "tt.reduce": ("axis",),
    "tt.scan": ("axis",),
    "tt.gather": ("axis",),
    "tt.atomic_rmw": ("atomic_rmw_op",),
}

_WORDS = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": FLOAT_PREDICATES,
    "tt.get_program_id": ("x", "y", "z"),
    "tt.get_num_programs": ("x", "y", "z"),
    "tt.atomic_rmw": ("", "and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch"),
}
"""The words that stand for 0, 1, 2, ... where an attribute is printed as a word (MLIR's and Triton's own order)."""


def lower(fn: Any, signature: Mapping[str, str], constants: Mapping[tuple[int, ...], Any]) -> Module:
    """The IR of `fn` (a `JITFunction`) for parameter types `signature` ("*i32", "i64", "constexpr") and its constants.

    Raises `Unsupported` for values of a type that is not translated; what Triton's front end raises passes through.
    """
    from triton._C.libtriton import ir, passes
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    target = GPUTarget(*TARGET)
    backend = make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = backend.parse_options({"debug": True, "sanitize_overflow": False})  # keeps assertions
        source = ASTSource(fn=fn, signature=dict(signature), constexprs=dict(constants))
        module = source.make_ir(
            target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
        )
    manager = ir.pass_manager(context)
    passes.common.add_inliner(manager)
    passes.common.add_canonicalizer(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "stalerow")
    return _Reader(fn.__name__, module).read()


class _Reader:
    """Reads one module. `walk` visits operations after what they contain, so contents wait under their block's id."""

    def __init__(self, kernel: str, module: Any) -> None:
        self._kernel = kernel
        self._module = module
        self._blocks: dict[int, Block] = {}
        self._regions: dict[int, list[int]] = {}
        self._functions: dict[str, Function] = {}
        text = module.str() if hasattr(module, "str") else str(module)
        self._lines = _lines_by_operation(text)
        self._places = _locations(text)
        self._entry = module.get_entry_func_name() if hasattr(module, "get_entry_func_name") else ""

    def read(self) -> Module:
        self._module.walk(self._visit)
        entry = self._entry or next(name for name in self._functions if name.startswith(self._kernel))
        return Module(self._functions, entry)

    def _visit(self, operation: Any) -> None:
        name = operation.get_name()
        if name == "builtin.module":
            return
        regions = [self._region(operation.get_region(i).id()) for i in range(operation.get_num_regions())]
        if name == "tt.func":
            symbol = operation.get_str_attr("sym_name")
            self._functions[symbol] = Function(symbol, regions[0])
            return
        results = [operation.get_result(i) for i in range(operation.get_num_results())]
        op = Op(
            name=name,
            operands=[operation.get_operand(i).id() for i in range(operation.get_num_operands())],
            results=[(value.id(), self._type(value)) for value in results],
            regions=regions,
        )
        if name == "tt.scan":
            op.attributes["reverse"] = bool(operation.get_bool_attr("reverse"))
        if name == "tt.call":
            op.attributes["callee"] = operation.get_flat_symbol_ref_attr("callee")
        # Operations that hold others of their kind are printed in another order than they are visited, and a yield is
        # not printed where it hands nothing over.
        line = next(self._lines[name]) if name in _INTEGERS or (not regions and name != "scf.yield") else ""
        for attribute in _INTEGERS.get(name, ()):
            op.attributes[attribute] = _integer(operation, name, attribute, line)
        if not regions and line:
            trailer = _TRAILER.search(line)
            op.location = self._places.get(trailer[1], Location()) if trailer else Location()
            _read_printed(op, line)
        self._append(operation.get_block(), op)

    def _append(self, parent: Any, op: Op) -> None:
        number = parent.id()
        block = self._blocks.get(number)
        if block is None:
            values = [parent.arg(i) for i in range(parent.get_num_arguments())]
            block = self._blocks[number] = Block([(value.id(), self._type(value)) for value in values])
            self._regions.setdefault(parent.get_parent().id(), []).append(number)
        block.ops.append(op)

    def _region(self, number: int) -> list[Block]:
        return [self._blocks.pop(block) for block in self._regions.pop(number, [])]

    def _type(self, value: Any) -> Type | None:
        return parse_type(str(value.get_type()))


def _lines_by_operation(text: str) -> dict[str, Any]:
    """Of each operation's name, the lines on which it is printed, in order."""
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if found := _OPERATION.match(line):
            lines.setdefault(found[1], []).append(line)
    return {name: iter(found) for name, found in lines.items()}


def _locations(text: str) -> dict[str, Location]:
    """Alias to source line. A name or a call site is followed to where the operation itself is written."""
    aliases = {found[1]: found[2] for line in text.splitlines() if (found := _ALIAS.match(line))}

    def resolve(body: str, depth: int = 0) -> Location:
        if found := _FILE.search(body):
            return Location(found[1], int(found[2]))
        if depth < 8 and (reference := _REFERENCE.search(body)):
            return resolve(aliases.get(reference[0][1:], ""), depth + 1)
        return Location()

    return {f"#{name}": resolve(body) for name, body in aliases.items()}


def _integer(operation: Any, name: str, attribute: str, line: str) -> int:
    """An integer attribute, from the printed `line` where the bindings do not hand it over (Triton 3.6)."""
    if hasattr(operation, "get_int_attr"):
        return int(operation.get_int_attr(attribute))
    if found := re.search(rf"\b{attribute} = (-?\d+) : i32", line):
        return int(found[1])
    word = line.split(f"{name} ", 1)[-1].replace(",", " ").split()[0]
    if word not in _WORDS.get(name, ()):
        raise Unsupported("a kernel", f"{attribute} of {line.strip()!r}")
    return _WORDS[name].index(word)


def _read_printed(op: Op, line: str) -> None:
    """What only the printed line says: branch targets, literals and orders of dimensions."""
    match op.name:
        case "cf.br" | "cf.cond_br":
            op.targets = [int(number) for number in _TARGETS.findall(line)]
        case "arith.constant":
            _read_constant(op, line)
        case "tt.trans":
            order = re.search(r"order = array<i32: ([\d, ]+)>", line)
            op.attributes["order"] = order[1] if order else ""
        case "tt.assert":
            message = re.search(r'"((?:[^"\\]|\\.)*)"', line)
            op.attributes["message"] = message[1] if message else ""


def _read_constant(op: Op, line: str) -> None:
    body = line.split("arith.constant ", 1)[1]
    if dense := re.match(r"dense<([^<>]*)>", body):
        body = dense[1]
    word = re.match(r"[^\s:]+", body)
    text = word[0] if word else ""
    element = op.results[0][1].element if op.results[0][1] else ""
    if text in ("true", "false"):
        op.attributes["value"] = int(text == "true")
    elif re.fullmatch(r"-?\d+", text):
        op.attributes["value"] = int(text)
    elif text.startswith("0x") and element[:1] == "i":
        op.attributes["value"] = int(text, 16)
    elif text.startswith("0x"):
        op.attributes["bits"] = int(text, 16)
    elif re.fullmatch(r"-?\d\S*", text):
        op.attributes["value"] = float(text)
    else:
        raise Unsupported("a kernel", f"the constant {text!r}")
