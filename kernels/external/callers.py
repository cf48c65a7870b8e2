"""Single observations on a runner's source: each function looks for one thing and says where it stands.

Input is a parsed file, output a `Seen` or None. What follows from an observation is decided in ``convention``.
"""

import ast
from dataclasses import dataclass

from .extract import jit_functions
from .launches import Launch, follow
from .source import SourceFile

INITIALIZER = "initialize_from_forward_context"
_TABLES_ARGUMENT = 3
_TABLES_KEYWORD = "block_tables"
_INDEX_TABLES_KEYWORD = "aligned_index_block_tables"


@dataclass(frozen=True)
class Seen:
    """An observation: `node` in the source, the function around it, and what it means."""

    node: ast.AST
    function: str
    value: str

    def evidence(self, file: SourceFile) -> tuple[str, str]:
        """``file:line`` and the source text of the node, on one line."""
        return f"{file.path}:{getattr(self.node, 'lineno', 0)}", file.segment(self.node)


def tables_bound(caller: SourceFile) -> Seen | None:
    """The tables that the copies get: ``slot`` for the persistent ones, ``row`` for the gathered ones."""
    for function in _functions(caller):
        for call in _calls(function, INITIALIZER):
            tables = _argument(call, _TABLES_ARGUMENT, _TABLES_KEYWORD)
            if tables is None:
                continue
            tables = follow(tables, function, caller.tree)
            element = tables.elt if isinstance(tables, ast.ListComp | ast.GeneratorExp) else tables
            attributes = {node.attr for node in ast.walk(element) if isinstance(node, ast.Attribute)}
            names = {node.id for node in ast.walk(element) if isinstance(node, ast.Name)}
            if "input_block_tables" in attributes | names:
                return Seen(tables, function.name, "row")
            if "block_tables" in attributes:
                return Seen(tables, function.name, "slot")
            # A bare `block_tables` is the parameter that the runner fills with what the gather returned.
            if "block_tables" in names:
                return Seen(tables, function.name, "row")
    return None


def takes_index_tables(kernels: SourceFile) -> Seen | None:
    """The context's parameter for index tables of their own: then the copies get the other tables."""
    for function in _functions(kernels):
        if function.name == INITIALIZER:
            for arg in (*function.args.args, *function.args.kwonlyargs):
                if arg.arg == _INDEX_TABLES_KEYWORD:
                    return Seen(arg, function.name, "slot")
    return None


def zeroes_padding(tables: SourceFile) -> Seen | None:
    """The gather kernel's store of 0 to rows at or past the number of requests."""
    for name, function in jit_functions(tables.tree).items():
        if "gather" not in name:
            continue
        for branch in ast.walk(function):
            if not isinstance(branch, ast.If) or not isinstance(branch.test, ast.Compare):
                continue
            if not isinstance(branch.test.ops[0], ast.GtE):
                continue
            for call in (node for part in branch.body for node in ast.walk(part) if isinstance(node, ast.Call)):
                zero = len(call.args) > 1 and isinstance(call.args[1], ast.Constant) and call.args[1].value == 0
                if zero and ast.unparse(call.func).endswith("store"):
                    return Seen(call, name, "zeroes")
    return None


def clears_dirty_rows(tables: SourceFile) -> Seen | None:
    """The gather's row count that also covers the rows which a larger batch left dirty."""
    for function in _functions(tables):
        if function.name != "gather_block_tables":
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "max":
                dirty = [n for n in ast.walk(call) if isinstance(n, ast.Attribute) and "dirty" in n.attr]
                if dirty:
                    return Seen(call, function.name, "clears")
    return None


def seed_divisor(caller: SourceFile) -> Seen | None:
    """The block size that divides an admitted request's computed tokens: ``mamba`` or ``scheduler``."""
    for function in _functions(caller):
        if function.name != "add_request":
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                divisor = ast.unparse(follow(node.right, function, caller.tree))
                if "mamba_block_size" in divisor or "mamba_spec" in divisor:
                    return Seen(node, function.name, "mamba")
                if divisor.endswith(".block_size"):
                    return Seen(node, function.name, "scheduler")
    return None


def copied_before(launch: Launch, target: ast.expr, origin: ast.expr) -> Seen | None:
    """``target.copy_(origin)`` (or a slice of it) in the launching function, before the launch."""
    for call in ast.walk(launch.function):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "copy_":
            continue
        if call.lineno > launch.call.lineno or not call.args:
            continue
        into = follow(_unsliced(call.func.value), launch.function, launch.tree)
        out_of = follow(_unsliced(call.args[0]), launch.function, launch.tree)
        if ast.dump(into) == ast.dump(target) and ast.dump(out_of) == ast.dump(origin):
            return Seen(call, launch.function.name, "copy")
    return None


def stores_to(kernels: SourceFile, kernel: str, parameter: str) -> Seen | None:
    """A ``tl.store`` of `kernel` through `parameter`."""
    for call in ast.walk(jit_functions(kernels.tree)[kernel]):
        if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith("store") or not call.args:
            continue
        if any(isinstance(node, ast.Name) and node.id == parameter for node in ast.walk(call.args[0])):
            return Seen(call, kernel, "store")
    return None


def refuses_ds_conv(caller: SourceFile) -> Seen | None:
    """An assertion about speculative decoding under a test for the DS conv layout."""
    for branch in ast.walk(caller.tree):
        if isinstance(branch, ast.If) and "is_conv_state_dim_first" in ast.unparse(branch.test):
            for node in branch.body:
                if isinstance(node, ast.Assert) and "speculative_config" in ast.unparse(node.test):
                    return Seen(node, "", "refuses")
    return None


def needs_drafts(caller: SourceFile) -> Seen | None:
    """The mask of spec rows that excludes rows without drafts (``num_draft_tokens... > 0``)."""
    for function in _functions(caller):
        if function.name != "prepare_attn":
            continue
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Compare)
                and isinstance(node.ops[0], ast.Gt)
                and "num_draft_tokens" in ast.unparse(node.left)
                and ast.unparse(node.comparators[0]) == "0"
            ):
                return Seen(node, function.name, "needs")
    return None


def asserts_alignment(kernels: SourceFile) -> Seen | None:
    """An assertion that a state's block stride is a multiple of some number of bytes."""
    for node in ast.walk(kernels.tree):
        if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
            continue
        left = node.test.left
        if (
            isinstance(left, ast.BinOp)
            and isinstance(left.op, ast.Mod)
            and isinstance(left.right, ast.Constant)
            and "stride" in ast.unparse(left.left)
        ):
            return Seen(node.test, "", str(left.right.value))
    return None


def _functions(file: SourceFile) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef)]


def _calls(function: ast.FunctionDef, name: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
    ]


def _argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    return call.args[position] if len(call.args) > position else None


def _unsliced(expression: ast.expr) -> ast.expr:
    return expression.value if isinstance(expression, ast.Subscript) else expression
