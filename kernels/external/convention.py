"""From source text to a `CallingConvention`: every field decided by what the code does, never by a version.

What the runner's own files state is *read*. Where such a file is absent (a single ``mamba_utils.py``) the
field is *inferred* from what the kernels' file shows, by what goes together in all published releases, and is
marked so.
"""

import ast

from . import callers
from .errors import UnclearCaller
from .extract import jit_functions
from .facts import CallingConvention, Fact, Meta
from .launches import Launch, find_launches
from .lookup import row_uses
from .source import EngineSource
from .vocabulary import KERNEL_NAMES
from .wheel import CALLER_FILE, INDICES_FILE, KERNEL_FILE, TABLES_FILE


def convention(source: EngineSource) -> tuple[CallingConvention, Meta, list[Fact]]:
    """The caller's side of the kernels in `source`, the sizes it passes, and the evidence.

    Raises `UnclearCaller` when nothing shows which block tables the copies are bound to.
    """
    facts: list[Fact] = []

    def keep(fact: Fact) -> Fact:
        facts.append(fact)
        return fact

    copy_row = keep(_copy_row(source))
    binds = keep(_binds(source, copy_row))
    when = keep(_binds_when(source, binds))
    indices = keep(_indices_bind(source, binds))
    padding, dirty = (keep(fact) for fact in _gather(source, binds))
    seed = keep(_seed_unit(source, binds))
    accepted = keep(_accepted(source))
    tiles = keep(_tiles(source))
    ds_conv, draftless = (keep(fact) for fact in _speculation(source, binds))
    alignment = keep(_alignment(source))
    made = {
        "binds": binds.value,
        "binds_when": when.value,
        "indices_bind": indices.value,
        "copy_row": copy_row.value,
        "zero_padding": padding.value,
        "clears_dirty_rows": dirty.value,
        "seed_unit": seed.value,
        "accepted": accepted.value,
        "tiles": tiles.value,
        "ds_conv_with_drafts": ds_conv.value,
        "draftless_decode": draftless.value,
        "temporal_alignment": alignment.value,
    }
    return CallingConvention(**made), _meta(source), facts  # type: ignore[arg-type]


def launches_of(source: EngineSource, role: str) -> list[Launch]:
    """Where `source` launches its kernel for `role`, in the kernels' file and in the runner's."""
    kernel = jit_functions(source.kernels.tree).get(KERNEL_NAMES[role])
    if kernel is None:
        return []
    parameters = [arg.arg for arg in (*kernel.args.posonlyargs, *kernel.args.args)]
    files = (source.files[name] for name in (KERNEL_FILE, CALLER_FILE) if name in source.files)
    return [launch for file in files for launch in find_launches(file, kernel.name, parameters)]


def _at(launch: Launch, parameter: str) -> tuple[str, str]:
    """Position and text of an argument, as evidence."""
    node = launch.arguments.get(parameter, launch.call)
    return f"{launch.file.path}:{getattr(node, 'lineno', launch.call.lineno)}", launch.file.segment(node)


def _copy_row(source: EngineSource) -> Fact:
    uses = [(role, use) for role in ("precopy", "postprocess") for use in row_uses(source.kernels, KERNEL_NAMES[role])]
    rows = {use.row for _, use in uses}
    if not uses or None in rows:
        raise UnclearCaller(
            f"{source.kernels.path}: cannot see which table row the copy kernels read "
            "(`block_table_stride_req` times a batch row or a slot was expected in each)"
        )
    where = ", ".join(f"{role} line {use.line}" for role, use in uses)
    text = " | ".join(dict.fromkeys(use.expression for _, use in uses))
    value = "mixed" if len(rows) > 1 else str(next(iter(rows)))
    return Fact("copy_row", value, "read", f"{source.kernels.path}: {where}", text)


def _binds(source: EngineSource, copy_row: Fact) -> Fact:
    caller = source.files.get(CALLER_FILE)
    if caller is not None:
        found = callers.tables_bound(caller)
        if found is None:
            raise UnclearCaller(
                f"{caller.path}: cannot see which block tables it hands to `{callers.INITIALIZER}`; "
                "give a copy of the mamba_utils.py outside the checkout to have it inferred"
            )
        return Fact("binds", found.value, "read", *found.evidence(caller))
    second = callers.takes_index_tables(source.kernels)
    if second is not None:
        return Fact("binds", "slot", "inferred", *second.evidence(source.kernels))
    if copy_row.value == "mixed":
        raise UnclearCaller(
            f"{source.kernels.path}: its copy kernels look up different rows, the runner's file is absent, "
            "and which tables they are bound to is unknown; give the whole checkout"
        )
    return Fact("binds", copy_row.value, "inferred", copy_row.where, f"row lookup: {copy_row.expression}")


def _binds_when(source: EngineSource, binds: Fact) -> Fact:
    caller = source.files.get(CALLER_FILE)
    found = callers.tables_bound(caller) if caller is not None else None
    if caller is not None and found is not None:
        value = "cache_init" if found.function == "initialize_kv_cache" else "first_use"
        return Fact("binds_when", value, "read", found.evidence(caller)[0], f"in {found.function}()")
    value = "cache_init" if binds.value == "slot" else "first_use"
    return Fact("binds_when", value, "inferred", "", f"binds = {binds.value}")


def _indices_bind(source: EngineSource, binds: Fact) -> Fact:
    launched = launches_of(source, "indices")
    if not launched:
        indices = source.files.get(INDICES_FILE)
        where = str(indices.path) if indices is not None else ""
        return Fact(
            "indices_bind",
            "row",
            "read" if where else "inferred",
            where,
            "the backends gather from their batch's tables",
        )
    own, text = launched[0].arguments.get("block_table_ptrs_ptr"), _at(launched[0], "block_table_ptrs_ptr")
    copies = [launch.arguments.get("block_table_ptrs_ptr") for launch in launches_of(source, "precopy")]
    same = own is not None and any(copy is not None and ast.dump(copy) == ast.dump(own) for copy in copies)
    return Fact("indices_bind", str(binds.value) if same else "row", "read", *text)


def _gather(source: EngineSource, binds: Fact) -> tuple[Fact, Fact]:
    tables = source.files.get(TABLES_FILE)
    if tables is None:
        reason = "every published release zeroes padded rows"
        padded = Fact("zero_padding", True, "assumed", "", reason)
        return padded, Fact("clears_dirty_rows", False, "assumed", "", f"file absent; binds = {binds.value}")
    zeroing, dirty = callers.zeroes_padding(tables), callers.clears_dirty_rows(tables)
    facts = []
    for name, found in (("zero_padding", zeroing), ("clears_dirty_rows", dirty)):
        where, text = found.evidence(tables) if found is not None else (str(tables.path), "nothing of the kind")
        facts.append(Fact(name, found is not None, "read", where, text))
    return facts[0], facts[1]


def _seed_unit(source: EngineSource, binds: Fact) -> Fact:
    caller = source.files.get(CALLER_FILE)
    found = callers.seed_divisor(caller) if caller is not None else None
    if caller is not None and found is not None:
        return Fact("seed_unit", found.value, "read", *found.evidence(caller))
    value = "mamba" if binds.value == "slot" else "scheduler"
    how = "inferred" if caller is None else "assumed"
    return Fact("seed_unit", value, how, "", f"binds = {binds.value}")  # type: ignore[arg-type]


def _accepted(source: EngineSource) -> Fact:
    v2 = [
        launch
        for launch in launches_of(source, "postprocess")
        if launch.constant("HAS_IDX_MAPPING") is True and "num_accepted_tokens_ptr" in launch.arguments
    ]
    if not v2:
        written = callers.stores_to(source.kernels, KERNEL_NAMES["postprocess"], "num_accepted_tokens_ptr")
        if written is not None:
            return Fact("accepted", "in_place", "inferred", *written.evidence(source.kernels))
        return Fact("accepted", "snapshot", "inferred", "", "the kernel only writes num_accepted_tokens_out_ptr")
    launch = v2[0]
    where, text = _at(launch, "num_accepted_tokens_ptr")
    if launch.is_none("num_accepted_tokens_out_ptr") or "num_accepted_tokens_out_ptr" not in launch.arguments:
        return Fact("accepted", "in_place", "read", where, f"{text}; no separate output")
    read = launch.resolved("num_accepted_tokens_ptr")
    written_to = launch.resolved("num_accepted_tokens_out_ptr")
    assert read is not None
    assert written_to is not None
    if ast.dump(read) == ast.dump(written_to):
        return Fact("accepted", "in_place", "read", where, f"{text}, read and written")
    copy = callers.copied_before(launch, read, written_to)
    if copy is None:
        return Fact("accepted", "stale", "read", where, f"{text}, into which nothing copies the counts")
    return Fact("accepted", "snapshot", "read", *copy.evidence(launch.file))


def _tiles(source: EngineSource) -> Fact:
    for role in ("precopy", "postprocess"):
        for launch in launches_of(source, role):
            value = launch.constant("TEMPORAL_TILES")
            if isinstance(value, int):
                where, text = _at(launch, "TEMPORAL_TILES")
                return Fact("tiles", value, "read", where, f"{text} = {value}")
    kernel = jit_functions(source.kernels.tree)[KERNEL_NAMES["precopy"]]
    if any(arg.arg == "TEMPORAL_TILES" for arg in kernel.args.args):
        return Fact("tiles", 16, "assumed", f"{source.kernels.path}:{kernel.lineno}", "no launch says how many")
    return Fact("tiles", 1, "read", f"{source.kernels.path}:{kernel.lineno}", "the kernel has no TEMPORAL_TILES")


def _speculation(source: EngineSource, binds: Fact) -> tuple[Fact, Fact]:
    caller = source.files.get(CALLER_FILE)
    if caller is None:
        plain = "spec" if binds.value == "slot" else "plain"
        return (
            Fact("ds_conv_with_drafts", True, "assumed", "", "file absent"),
            Fact("draftless_decode", plain, "inferred", "", f"binds = {binds.value}"),
        )
    refuses = callers.refuses_ds_conv(caller)
    ds_where = refuses.evidence(caller) if refuses is not None else (str(caller.path), "nothing refuses it")
    needs = callers.needs_drafts(caller)
    spec_where = (
        needs.evidence(caller) if needs is not None else (str(caller.path), "no row is excluded for having none")
    )
    return (
        Fact("ds_conv_with_drafts", refuses is None, "read", *ds_where),
        Fact("draftless_decode", "plain" if needs is not None else "spec", "read", *spec_where),
    )


def _alignment(source: EngineSource) -> Fact:
    found = callers.asserts_alignment(source.kernels)
    if found is None:
        return Fact("temporal_alignment", 1, "read", str(source.kernels.path), "nothing asserts an alignment")
    return Fact("temporal_alignment", int(found.value), "read", *found.evidence(source.kernels))


def _meta(source: EngineSource) -> Meta:
    def size(role: str, parameter: str, otherwise: int) -> int:
        for launch in launches_of(source, role):
            value = launch.constant(parameter)
            if isinstance(value, int):
                return value
        return otherwise

    default = Meta()
    return Meta(
        copy_block_size=size("precopy", "COPY_BLOCK_SIZE", default.copy_block_size),
        preprocess_rows=size("preprocess", "BLOCK_SIZE", default.preprocess_rows),
        index_rows=size("indices", "BLOCK_ROWS", default.index_rows),
        index_warps=size("indices", "num_warps", default.index_warps),
    )
