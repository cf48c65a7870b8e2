"""The kernels of a file held against the vocabulary: each parameter gets its value, or the file is refused.

Works on syntax alone, so that ``describe`` can say what would be bound without importing Triton.
"""

import ast
from dataclasses import dataclass

from .errors import MissingKernel, UnknownParameter
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
    """A kernel found: `parameters` maps each of its parameters, in order, to the value bound to it."""

    role: str
    name: str
    line: int
    parameters: dict[str, str]


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
    return found


def _bind(source: EngineSource, role: str, function: ast.FunctionDef) -> Signature:
    known = PARAMETERS[role]
    at = f"{source.kernels.path}:{function.lineno} ({source.name}): `{function.name}`"
    arguments = function.args
    bound: dict[str, str] = {}
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if arg.arg not in known:
            raise UnknownParameter(
                f"{at} takes `{arg.arg}` (line {arg.lineno}), for which no value is known; no release from "
                f"{FIRST_RELEASE} to {LAST_RELEASE} has it, it was last seen in {source.name}; "
                "name its value in stalerow.kernels.external.vocabulary"
            )
        bound[arg.arg] = known[arg.arg]
    for needed in NEEDED_FOR_V2[role]:
        if needed not in bound:
            raise MissingKernel(
                f"{at} takes no `{needed}`, so it serves runner V1 only; releases {KERNEL_SINCE[role]} to "
                f"{LAST_RELEASE} take it, last seen in {LAST_RELEASE}; give one of those"
            )
    return Signature(role, function.name, function.lineno, bound)


def _computed_by_backends(source: EngineSource) -> bool:
    """Whether the release gathers the aligned indices with tensor operations, or its file is absent."""
    indices = source.files.get(INDICES_FILE)
    if indices is None:
        return True
    functions = (node for node in indices.tree.body if isinstance(node, ast.FunctionDef))
    return any(function.name == INDICES_FUNCTION for function in functions)
