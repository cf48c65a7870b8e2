"""Which row of a block table a copy kernel reads: the batch row, or the request's slot.

The kernel is followed as runner V2 runs it (``HAS_IDX_MAPPING`` true): ``tl.program_id(0)`` is the batch row,
what is loaded from ``idx_mapping_ptr`` is the slot, and the answer is whichever of them is multiplied with
``block_table_stride_req``, here or in a function that is called. Nothing is executed.
"""

import ast
from dataclasses import dataclass
from typing import Literal

from .extract import jit_functions
from .source import SourceFile

Row = Literal["slot", "row"]
_Kind = Literal["slot", "row", "stride", "mapping"]


@dataclass(frozen=True)
class RowUse:
    """One address computation, `expression` at `line`: what picks the table row (None: neither)."""

    row: Row | None
    line: int
    expression: str


def row_uses(file: SourceFile, kernel: str) -> list[RowUse]:
    """Every use of the table's row stride that `kernel` reaches, in program order."""
    functions = jit_functions(file.tree)
    start: dict[str, _Kind] = {"block_table_stride_req": "stride", "idx_mapping_ptr": "mapping"}
    return _Walk(file, functions).run(functions[kernel], start, (), {})


class _Walk:
    def __init__(self, file: SourceFile, functions: dict[str, ast.FunctionDef]) -> None:
        self.file = file
        self.functions = functions

    def run(
        self,
        function: ast.FunctionDef,
        known: dict[str, _Kind],
        callers: tuple[ast.Call, ...],
        handed: dict[str, ast.expr],
    ) -> list[RowUse]:
        env = dict(known)
        uses: list[RowUse] = []
        for statement in _as_v2_runs(function.body):
            for node in ast.walk(statement):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                    uses += self._use(node, env, callers, handed)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    uses += self._called(node, env, callers)
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    kind = _kind(statement.value, env)
                    if kind is None:
                        env.pop(target.id, None)
                    else:
                        env[target.id] = kind
        return uses

    def _use(
        self,
        node: ast.BinOp,
        env: dict[str, _Kind],
        callers: tuple[ast.Call, ...],
        handed: dict[str, ast.expr],
    ) -> list[RowUse]:
        kinds = (_kind(node.left, env), _kind(node.right, env))
        if "stride" not in kinds:
            return []
        kind, factor = (kinds[0], node.left) if kinds[1] == "stride" else (kinds[1], node.right)
        row = kind if kind in ("slot", "row") else None
        text = self.file.segment(node)
        # Where the row was handed in, the call that chose it says more than the multiplication.
        if callers and isinstance(factor, ast.Name) and factor.id in handed:
            given = handed[factor.id]
            return [RowUse(row, given.lineno, f"{factor.id} = {self.file.segment(given)}, in {text}")]
        return [RowUse(row, node.lineno, text)]

    def _called(self, call: ast.Call, env: dict[str, _Kind], callers: tuple[ast.Call, ...]) -> list[RowUse]:
        assert isinstance(call.func, ast.Name)
        callee = self.functions.get(call.func.id)
        if callee is None or call in callers or len(callers) > 8:
            return []
        parameters = [arg.arg for arg in (*callee.args.posonlyargs, *callee.args.args)]
        handed = dict(zip(parameters, call.args))
        handed |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        inner = {name: kind for name, value in handed.items() if (kind := _kind(value, env)) is not None}
        return self.run(callee, inner, (*callers, call), handed)


def _as_v2_runs(body: list[ast.stmt]) -> list[ast.stmt]:
    """Simple statements in order, entering every branch except those that ``HAS_IDX_MAPPING`` rules out."""
    out: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.If):
            if _says(statement.test, "HAS_IDX_MAPPING"):
                out += _as_v2_runs(statement.body)
            else:
                out += _as_v2_runs(statement.body) + _as_v2_runs(statement.orelse)
        elif isinstance(statement, ast.For | ast.While):
            out += _as_v2_runs(statement.body)
        else:
            out.append(statement)
    return out


def _says(test: ast.expr, name: str) -> bool:
    return isinstance(test, ast.Name) and test.id == name


def _kind(expression: ast.expr, env: dict[str, _Kind]) -> _Kind | None:
    if isinstance(expression, ast.Name):
        return env.get(expression.id)
    if isinstance(expression, ast.IfExp) and _says(expression.test, "HAS_IDX_MAPPING"):
        return _kind(expression.body, env)
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        if expression.func.attr == "to":
            return _kind(expression.func.value, env)
        if expression.func.attr == "program_id":
            axis = expression.args[0] if expression.args else None
            return "row" if isinstance(axis, ast.Constant) and axis.value == 0 else None
        if expression.func.attr == "load" and expression.args:
            mentioned = {node.id for node in ast.walk(expression.args[0]) if isinstance(node, ast.Name)}
            return "slot" if any(env.get(name) == "mapping" for name in mentioned) else None
    return None
