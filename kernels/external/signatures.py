"""The kernels of a file held against the vocabulary: each parameter gets its value, or the file is refused.

Works on syntax alone, so that ``describe`` can say what would be bound without importing Triton.
"""

import ast
from dataclasses import dataclass

from .bind import Value
from .errors import BadBinding, MissingKernel, UnknownParameter
from .extract import jit_functions
from .source import EngineSource
from .vocabulary import (
    FIRST_RELEASE,
    INDICES_FUNCTION,
    KERNEL_NAMES,
    KERNEL_SINCE,
    LAST_RELEASE,
    NEEDED_FOR_V2,
    PARAMETERS,
)
from .wheel import INDICES_FILE


@dataclass(frozen=True)
class Signature:
    """A kernel found: `parameters` maps each of its parameters, in order, to the value bound to it.

    `given` are parameters with the user's value; `left` those that take their default (its text), since nobody knows
    them.
    """

    role: str
    name: str
    line: int
    parameters: dict[str, str]
    given: dict[str, Value]
    left: dict[str, str]


def signatures(source: EngineSource) -> dict[str, Signature]:
    """The align kernels of `source` by role; ``indices`` may be absent where the backends compute them.

    Raises `MissingKernel` or `UnknownParameter`, naming the kernel or parameter, the file and the releases.
    """
    functions = jit_functions(source.kernels.tree)
    found: dict[str, Signature] = {}
    for role, name in KERNEL_NAMES.items():
        function = functions.get(name)
        if function is not None:
            found[role] = _bind(source, role, function)
        elif role == "indices" and _computed_by_backends(source):
            continue
        else:
            raise MissingKernel(
                f"{source.kernels.path} ({source.name}): no @triton.jit function `{name}`; releases "
                f"{KERNEL_SINCE[role]} to {LAST_RELEASE} have it, last seen in {LAST_RELEASE}; "
                f"give one of those, or keep the name on your branch"
            )
    if unused := [name for name in source.binds if not any(name in kernel.given for kernel in found.values())]:
        taken = sorted({n for kernel in found.values() for n in (*kernel.given, *kernel.left, *kernel.parameters)})
        asked = ", ".join(unused)
        raise BadBinding(f"--bind {asked}: no kernel of {source.name} takes it; they take {', '.join(taken)}")
    return found


def _bind(source: EngineSource, role: str, function: ast.FunctionDef) -> Signature:
    known = PARAMETERS[role]
    at = f"{source.kernels.path}:{function.lineno} ({source.name}): `{function.name}`"
    defaults = _defaults(function)
    bound: dict[str, str] = {}
    given: dict[str, Value] = {}
    left: dict[str, str] = {}
    for arg in _parameters(function):
        if arg.arg in source.binds:
            given[arg.arg] = source.binds[arg.arg]
        elif arg.arg in known:
            bound[arg.arg] = known[arg.arg]
        elif arg.arg in defaults:
            left[arg.arg] = defaults[arg.arg]
        else:
            raise UnknownParameter(
                f"{at} takes `{arg.arg}` (line {arg.lineno}), for which no value is known; no release from "
                f"{FIRST_RELEASE} to {LAST_RELEASE} has it, it was last seen in {source.name}; "
                f"give its value with --bind {arg.arg}=VALUE"
            )
    for needed in NEEDED_FOR_V2[role]:
        if needed not in bound:
            raise MissingKernel(
                f"{at} takes no `{needed}`, so it serves runner V1 only; releases {KERNEL_SINCE[role]} to "
                f"{LAST_RELEASE} take it, last seen in {LAST_RELEASE}; give one of those"
            )
    return Signature(role, function.name, function.lineno, bound, given, left)


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _defaults(function: ast.FunctionDef) -> dict[str, str]:
    """The text of each default, by parameter."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = dict(zip([a.arg for a in positional[::-1]], arguments.defaults[::-1]))
    found |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults) if d is not None}
    return {name: ast.unparse(default) for name, default in found.items()}


def _computed_by_backends(source: EngineSource) -> bool:
    """Whether the release gathers the aligned indices with tensor operations, or its file is absent."""
    indices = source.files.get(INDICES_FILE)
    if indices is None:
        return True
    functions = (node for node in indices.tree.body if isinstance(node, ast.FunctionDef))
    return any(function.name == INDICES_FUNCTION for function in functions)
