"""What a release changed against another one, in one page: ``stalerow kernels check X``.

In: two descriptions, made from source text alone. Out: lines about kernels, their parameters, the caller, and kernels
of the same files that nobody here launches.
"""

from collections.abc import Iterator
from itertools import chain

from .describe import Description, KernelFound, describe_source
from .extract import extract, jit_functions
from .signatures import signatures
from .source import EngineSource, SourceFile, find
from .vocabulary import LAST_RELEASE

KNOWN = f"vllm=={LAST_RELEASE}"
"""The newest release whose kernels the vocabulary was read from."""


def check(name: str, against: str = KNOWN) -> Iterator[str]:
    """Lines that say what `name` has and `against` has not, or otherwise. Raises what `describe` raises."""
    old, new = find(against), find(name)
    before, after = describe_source(old), describe_source(new)
    yield f"{name} against {against}"
    yield from _section("kernels", chain.from_iterable(_kernel(a, b) for a, b in _pairs(before, after)))
    yield from _section("taken from their files", _names(before.extracted, after.extracted, "function or constant"))
    yield from _section("the caller", _caller(before, after))
    yield from _section("kernels in the same files that are not run here", _not_run(old, new, after))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    yield ""
    yield title
    yield from (f"  {line}" for line in found or ["no change"])


def _pairs(before: Description, after: Description) -> Iterator[tuple[KernelFound | None, KernelFound | None]]:
    old, new = ({kernel.role: kernel for kernel in found.kernels} for found in (before, after))
    for role in dict.fromkeys((*old, *new)):
        yield old.get(role), new.get(role)


def _kernel(old: KernelFound | None, new: KernelFound | None) -> Iterator[str]:
    if new is None or old is None:
        there = new or old
        assert there is not None
        yield f"{there.role}: {'new' if old is None else 'gone'} ({there.name or there.where})"
        return
    if old.name != new.name:
        yield f"{new.role}: {new.name or 'no kernel'}, was {old.name or 'no kernel'}"
    yield from (
        f"{new.role}: takes {name} = {new.parameters[name]}" for name in new.parameters if name not in old.parameters
    )
    yield from (f"{new.role}: no longer takes {name}" for name in old.parameters if name not in new.parameters)
    yield from (f"{new.role}: {note}" for note in new.notes)


def _names(old: list[str], new: list[str], what: str) -> Iterator[str]:
    yield from (f"{name}: new {what}" for name in new if name not in old)
    yield from (f"{name}: gone" for name in old if name not in new)


def _caller(before: Description, after: Description) -> Iterator[str]:
    for field in after.caller.__struct_fields__:
        old, new = getattr(before.caller, field), getattr(after.caller, field)
        if old != new:
            fact = next((f for f in after.facts if f.name == field), None)
            yield f"{field} = {new}, was {old}" + (f" ({fact.how} at {fact.where})" if fact and fact.where else "")
    for field in after.meta.__struct_fields__:
        old, new = getattr(before.meta, field), getattr(after.meta, field)
        if old != new:
            yield f"{field} = {new}, was {old}"


def _not_run(old: EngineSource, new: EngineSource, after: Description) -> Iterator[str]:
    known = {name for file in _files(old) for name in jit_functions(file.tree)}
    for file in _files(new):
        for name, function in jit_functions(file.tree).items():
            if name not in after.extracted:
                yield f"{name} at {file.path}:{function.lineno}" + ("" if name in known else ", new")


def _files(source: EngineSource) -> list[SourceFile]:
    """The kernels' file and the files of its helpers."""
    made = extract(source.kernels, [kernel.name for kernel in signatures(source).values()], source.imported)
    return [source.kernels, *(helper.source for helper in made.all_helpers)]
