"""What `stalerow conform` says of comparisons, whatever was compared: a line for each, then a total."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from stalerow.simulator.conform import Conformance

RUNS = 200
FOLDER = Path(".stalerow/conform")


def show(out: Console, result: Conformance, width: int) -> None:
    counts = f"{result.steps:5} steps {result.records:6} records {result.values:8} values"
    compared = "differs" if result.difference is not None else "agrees"
    verdict = "raised" if result.raised else f"{compared}, resources wrong" if result.held else compared
    out.print(f"{result.name:<{width}}  {_release(result):<8}{counts}  {verdict}", markup=False, soft_wrap=True)
    if result.raised is not None:
        out.print(f"  the engine itself raised {result.raised}", markup=False, soft_wrap=True)
    if result.difference is not None:
        out.print(f"  first difference: {result.difference}", markup=False, soft_wrap=True)
    if result.held is not None:
        out.print(f"  {result.held}", markup=False, soft_wrap=True)


def _release(result: Conformance) -> str:
    return result.version.partition("+")[0]


def total(args: argparse.Namespace, out: Console, results: Sequence[Conformance]) -> int:
    differing = sum(r.difference is not None for r in results)
    raised = sum(r.raised is not None for r in results)
    held = sum(r.held is not None for r in results)
    versions = sorted({_release(r) for r in results})
    counts = (sum(getattr(r, name) for r in results) for name in ("steps", "records", "values"))
    steps, records, values = (f"{count:,}" for count in counts)
    verdict = f"{differing} differ" if differing else "no difference in any field"
    if raised:
        verdict += f"; in {raised} the engine itself raised"
    if held:
        verdict += f"; in {held} resources are wrong"
    runs = f"{len(results)} run{'s' if len(results) > 1 else ''} of {_listed(versions)}"
    compared = f"{steps} steps, {records} records, {values} values compared"
    out.print(f"{runs}: {compared}; {verdict}", markup=False, soft_wrap=True)
    if args.json:
        from stalerow.simulator.commands import answers

        answers.write(args, answers.ConformAnswer(runs=tuple(results)))
    return 1 if differing or raised or held else 0


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
