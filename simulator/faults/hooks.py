"""What a fault replaces, hook by hook: whether there is such a hook at all, and whether a run ever asked it.

A fault that is mistyped, or whose hooks nobody calls, tests nothing; that must not look like a clean result. `check`
refuses what can be seen without a run; `Asked` counts in a run.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from stalerow.simulator.engine.policies import Policies
from stalerow.simulator.errors import BrokenRule, UsageError
from stalerow.simulator.faults.base import Fault, Wrapped
from stalerow.simulator.files import one_line
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.blame import innermost
from stalerow.simulator.run.outcome import FaultUse
from stalerow.simulator.schedule.values import Schedule

ENGINE_POLICIES: Mapping[str, type[Any]] = {f.name: f.default_factory for f in fields(Policies)}  # type: ignore[misc]
"""Field of `Policies` to the class of the correct engine."""

OURS = "stalerow.simulator.faults."
WRAPS = ("wrap", "wrap_align", "wrap_ops")


def check(fault: type[Fault]) -> None:
    """Raise `UsageError` for a fault with an unknown key or method, or without any deviation."""
    for owner, name in _own_names(fault, Fault):
        if not hasattr(Fault, name):
            raise _unknown(fault, f"key {name!r} of {owner.__name__}", name, _public(Fault))
    for name, policy in fault.engine.items():
        if name not in ENGINE_POLICIES:
            raise _unknown(fault, f"engine policy {name!r}", name, ENGINE_POLICIES)
        _check_policy(fault, policy, ENGINE_POLICIES[name])
    if fault.rank is not None:
        _check_policy(fault, fault.rank, RankPolicy)
    wrapped = [name for name in WRAPS if getattr(fault, name) is not getattr(Fault, name)]
    if not (wrapped or overridden(fault.rank, RankPolicy) or any(_engine_hooks(fault))):
        raise UsageError(
            f"fault {fault.name!r} changes nothing: override a method of a policy in 'engine' or 'rank', or one of "
            f"{', '.join(WRAPS)}"
        )


def _engine_hooks(fault: type[Fault]) -> Iterator[str]:
    for name, policy in fault.engine.items():
        yield from overridden(policy, ENGINE_POLICIES[name])


def _check_policy(fault: type[Fault], policy: Any, base: type[Any]) -> None:
    if not (isinstance(policy, type) and issubclass(policy, base)):
        raise UsageError(f"fault {fault.name!r}: {policy!r} is not a subclass of {base.__name__}: give one")
    for owner, name in _own_names(policy, base):
        if not hasattr(base, name):
            raise _unknown(fault, f"method {name!r} of {owner.__name__}", name, _public(base))


def check_wrapper(fault: str, wrapper: Any) -> None:
    """Raise `UsageError` for a method of a kernel wrapper that nothing would call."""
    if not isinstance(wrapper, Wrapped):
        return
    order = type(wrapper).__mro__
    for index, owner in enumerate(order[: order.index(Wrapped)]):
        if owner.__module__.startswith(OURS):
            continue  # our own bases add methods for their subclasses to replace
        inherited = {name for later in order[index + 1 :] for name in vars(later)}
        for name, value in vars(owner).items():
            known = name.startswith("_") or not callable(value) or name in inherited or hasattr(wrapper.inner, name)
            if not known:
                raise UsageError(
                    f"fault {fault!r}: method {name!r} of {owner.__name__} replaces nothing of the kernels that it "
                    "wraps: correct its name, or begin it with an underscore"
                )


def overridden(policy: type[Any] | None, base: type[Any]) -> tuple[str, ...]:
    """Public names of `base` that a subclass of it defines anew, in alphabetical order."""
    if policy is None:
        return ()
    return tuple(sorted({name for _, name in _own_names(policy, base)}))


def _own_names(made: type[Any], base: type[Any]) -> Iterator[tuple[type[Any], str]]:
    for owner in made.__mro__[: made.__mro__.index(base)]:
        yield from ((owner, name) for name in vars(owner) if not name.startswith("_"))


def _public(base: type[Any]) -> list[str]:
    return sorted(name for name in dir(base) if not name.startswith("_"))


def _unknown(fault: type[Fault], what: str, name: str, known: Iterable[str]) -> UsageError:
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
    return UsageError(f"fault {fault.name!r}: unknown {what}: {hint} (a helper's name begins with an underscore)")


class Asked:
    """Counts, in one run, how often the hooks of one fault are asked."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._calls: Counter[str] = Counter()

    def use(self, met: bool) -> FaultUse:
        return FaultUse(self._fault.name, met, dict(self._calls))

    def policy(self, room: str, policy: type[Any], base: type[Any]) -> type[Any]:
        """The policy with every hook that it overrides counted."""
        members = {name: self._counted(f"{room}.{name}", policy, name) for name in overridden(policy, base)}
        return type(policy.__name__, (policy,), members)

    def _counted(self, hook: str, policy: type[Any], name: str) -> Any:
        self._calls[hook] += 0
        calls, original = self._calls, inspect.getattr_static(policy, name)
        if not inspect.isfunction(original):

            def read(instance: Any) -> Any:
                calls[hook] += 1
                return original.__get__(instance) if hasattr(original, "__get__") else original

            return property(read)

        def method(*arguments: Any, **named: Any) -> Any:
            calls[hook] += 1
            try:
                return original(*arguments, **named)
            except BrokenRule:
                raise
            except Exception as error:
                # An assertion of the engine's scheduling is a finding, whoever makes it fail.
                if hook.startswith("rank.") or not isinstance(error, AssertionError):
                    _blame(self._fault, error)
                raise

        return method

    def wrapper(self, room: str, made: Any) -> None:
        """Count the calls of a kernel wrapper's own methods, in place; anything else counts as asked."""
        if not isinstance(made, Wrapped):
            self._calls[room] += 1
            return
        check_wrapper(self._fault.name, made)
        order = type(made).__mro__
        names = {name for owner in order[: order.index(Wrapped)] for name in vars(owner) if not name.startswith("_")}
        for name in sorted(names):
            original = getattr(made, name)
            if inspect.ismethod(original):
                setattr(made, name, self._launch(f"{room}.{name}", original))

    def _launch(self, hook: str, original: Any) -> Any:
        self._calls[hook] += 0

        def launch(*arguments: Any, **named: Any) -> Any:
            self._calls[hook] += 1
            return original(*arguments, **named)

        return launch


def has_what_it_needs(fault: Fault, schedule: Schedule) -> bool:
    """Whether a schedule has what a fault needs. Raises `UsageError` for a fault that cannot say."""
    try:
        return bool(fault.needs(schedule))
    except Exception as error:
        _blame(fault, error)
        raise


def _blame(fault: Fault, error: Exception) -> None:
    """Raise `UsageError` for an exception that came out of a fault's own file."""
    frame, file = innermost(error), inspect.getsourcefile(type(fault))
    if file is not None and Path(file) == Path(frame.filename):
        said = f": {one_line(error)}" if str(error) else ""
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise UsageError(f"fault {fault.name!r} raised {type(error).__name__} at {place}{said}: correct it") from error


def untested(uses: Sequence[FaultUse], needs: Mapping[str, str]) -> tuple[list[str], bool]:
    """What some runs did not put to the question, a sentence each, and whether that is everything.

    `uses` are those of all runs; `needs` says by name of a fault what it needs.
    """
    notes, tested = [], False
    for name in dict.fromkeys(use.name for use in uses):
        mine = [use for use in uses if use.name == name]
        calls: Counter[str] = Counter()
        for use in mine:
            calls.update(use.calls)
        idle = sorted(hook for hook in {h for use in mine for h in use.calls} if not calls[hook])
        met, runs = sum(use.met for use in mine), sum(use.runs for use in mine)
        if not met:
            notes.append(f"fault {name}: no schedule of {runs} has what it needs{needs.get(name, '')}")
        if idle:
            notes.append(f"fault {name}: never called in {counted(runs, 'run')}: {', '.join(idle)}")
        tested |= bool(met) and len(idle) < len(calls)
    return notes, not tested and bool(uses)


def together(uses: Iterable[FaultUse]) -> tuple[FaultUse, ...]:
    """The same uses, summed by fault and by whether its needs were met."""
    calls: dict[tuple[str, bool], Counter[str]] = {}
    runs: Counter[tuple[str, bool]] = Counter()
    for use in uses:
        key = (use.name, use.met)
        calls.setdefault(key, Counter()).update(use.calls)
        runs[key] += use.runs
    return tuple(FaultUse(*key, dict(summed), runs[key]) for key, summed in calls.items())


def needs_in_words(fault: type[Fault]) -> str:
    """What the fault's own docstring says that it needs, as the end of a sentence."""
    found = re.search(r"Needs\s(.*?)\.(?:\s|$)", " ".join((fault.__doc__ or "").split()))
    return f": {found[1]}" if found else ""
