"""What ``stalerow kernels show X`` prints: what was found in an engine's source, and how.

Made from source text alone: nothing of the engine runs, and neither Triton nor torch is imported.
"""

from collections.abc import Iterator

import msgspec

from .convention import convention
from .extract import extract
from .facts import CallingConvention, Fact, Meta
from .signatures import Signature, signatures
from .source import EngineSource, find
from .vocabulary import INDICES_FUNCTION, KERNEL_NAMES
from .wheel import ENGINE_FILES, INDICES_FILE, KERNEL_FILE


class KernelFound(msgspec.Struct, frozen=True):
    """A kernel of the set: where it stands, and the value bound to each of its parameters.

    `name` is empty where the project's own kernel stands in; `where` then says on what grounds.
    """

    role: str
    name: str
    where: str
    parameters: dict[str, str]
    notes: tuple[str, ...] = ()


class Description(msgspec.Struct, frozen=True):
    """Everything that was found out about one external kernel set. ``str()`` of it is the printed form."""

    name: str
    origin: str
    files: dict[str, str | None]
    kernels: list[KernelFound]
    extracted: list[str]
    caller: CallingConvention
    meta: Meta
    facts: list[Fact]

    def __str__(self) -> str:
        return "\n".join(_render(self))


def describe(name: str) -> Description:
    """What `load` would make of the engine that `name` stands for; raises what `load` raises."""
    return describe_source(find(name))


def describe_source(source: EngineSource) -> Description:
    """The same, for source that is already at hand."""
    found = signatures(source)
    caller, meta, facts = convention(source)
    kernels = [
        KernelFound(role, kernel.name, f"{source.kernels.path}:{kernel.line}", kernel.parameters, _notes(kernel))
        for role, kernel in found.items()
    ]
    if "indices" not in found:
        kernels.append(KernelFound("indices", "", _stand_in(source), {}))
    return Description(
        name=source.name,
        origin=source.origin,
        files={path: str(source.files[path].path) if path in source.files else None for path in ENGINE_FILES},
        kernels=kernels,
        extracted=list(extract(source.kernels, [kernel.name for kernel in found.values()], source.imported).names),
        caller=caller,
        meta=meta,
        facts=facts,
    )


def _notes(kernel: Signature) -> tuple[str, ...]:
    given = (f"{name} = {value!r} (given with --bind)" for name, value in kernel.given.items())
    left = (f"{name} = {text} (its default: not known to stalerow)" for name, text in kernel.left.items())
    return (*given, *left)


def _stand_in(source: EngineSource) -> str:
    kernel = KERNEL_NAMES["indices"]
    file = source.files.get(INDICES_FILE)
    if file is None:
        return f"stalerow's own (inferred: no `{kernel}`, as up to 0.28.0, where tensor operations did the same)"
    return f"stalerow's own (no `{kernel}`; tensor operations in {file.path}, `{INDICES_FUNCTION}`, do the same)"


def _render(found: Description) -> Iterator[str]:
    yield f"{found.name} ({found.origin})"
    yield ""
    yield "files"
    for relative, path in found.files.items():
        yield f"  {relative}: {path or 'absent'}"
    yield ""
    yield f"taken from {KERNEL_FILE}: {', '.join(found.extracted)}"
    yield ""
    yield "kernels"
    for kernel in found.kernels:
        yield f"  {kernel.role}: {kernel.name + ' at ' if kernel.name else ''}{kernel.where}"
        for parameter, value in kernel.parameters.items():
            yield f"    {parameter} = {value}"
        for note in kernel.notes:
            yield f"    {note}"
    yield ""
    yield "the caller"
    for fact in found.facts:
        at = f" at {fact.where}" if fact.where else ""
        yield f"  {fact.name} = {fact.value} ({fact.how}{at}: {fact.expression})"
    sizes = ", ".join(f"{name} = {getattr(found.meta, name)}" for name in found.meta.__struct_fields__)
    yield f"  {sizes}"
