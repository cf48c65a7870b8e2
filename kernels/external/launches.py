"""How an engine launches a kernel: each ``kernel[grid](...)`` in its source, argument by parameter.

Only syntax is looked at. `convention` reads from it which tables, counts and tile numbers a release hands over.
"""

import ast
from dataclasses import dataclass

from .source import SourceFile

_MAX_HOPS = 4


@dataclass(frozen=True)
class Launch:
    """One launch site: the function it stands in, and the expression given for each parameter."""

    file: SourceFile
    tree: ast.Module
    function: ast.FunctionDef
    call: ast.Call
    arguments: dict[str, ast.expr]

    def resolved(self, parameter: str) -> ast.expr | None:
        """The argument, followed through names that this function or the module assigns exactly once."""
        expression = self.arguments.get(parameter)
        return None if expression is None else follow(expression, self.function, self.tree)

    def constant(self, parameter: str) -> object:
        """The argument's literal value, or None when it is not a literal (or is ``None``)."""
        expression = self.resolved(parameter)
        return expression.value if isinstance(expression, ast.Constant) else None

    def is_none(self, parameter: str) -> bool:
        """Whether ``None`` is passed, so that the kernel has no buffer there."""
        expression = self.resolved(parameter)
        return isinstance(expression, ast.Constant) and expression.value is None


def find_launches(file: SourceFile, kernel: str, parameters: list[str]) -> list[Launch]:
    """Every ``kernel[grid](...)`` in `file`, in order; `parameters` are the kernel's own, in order."""
    found = []
    for function in ast.walk(file.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Subscript)
                and isinstance(call.func.value, ast.Name)
                and call.func.value.id == kernel
            ):
                arguments = dict(zip(parameters, call.args))
                arguments |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                found.append(Launch(file, file.tree, function, call, arguments))
    return found


def follow(expression: ast.expr, function: ast.FunctionDef, tree: ast.Module) -> ast.expr:
    """`expression` with a plain name replaced by what it was assigned, as long as that is unambiguous."""
    for _ in range(_MAX_HOPS):
        if not isinstance(expression, ast.Name):
            break
        values = _assigned(function, expression.id) or _assigned(tree, expression.id, deep=False)
        if len(values) != 1:
            break
        expression = values[0]
    return expression


def _assigned(scope: ast.FunctionDef | ast.Module, name: str, deep: bool = True) -> list[ast.expr]:
    values: list[ast.expr] = []
    for node in ast.walk(scope) if deep else scope.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            values.append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            values += [node.value] if node.value is not None else []
    return values
