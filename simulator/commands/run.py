"""Run one schedule, from a seed or a file, print its events and what the oracle found."""

from __future__ import annotations

import argparse

from stalerow.simulator.commands.options import add_device, positive, schedule_source


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("schedule", metavar="SEED|FILE", help="a seed, or a schedule file (.json, .toml)")
    parser.add_argument("--kernels", default="req-idx", metavar="SET", help="kernel set (default: %(default)s)")
    parser.add_argument("--pp", type=positive, default=None, metavar="P", help="pipeline size, for a seed")
    parser.add_argument("--runner", choices=("v1", "v2"), default=None, help="model runner, for a seed")
    parser.add_argument("--save", metavar="FILE", default=None, help="write the schedule to FILE (.json)")
    parser.add_argument("--quiet", action="store_true", help="print the result only")
    add_device(parser)


def execute(args: argparse.Namespace) -> int:
    from stalerow.kernels.sets import kernel_set
    from stalerow.simulator.draw.events import EventPrinter
    from stalerow.simulator.draw.results import console
    from stalerow.simulator.draw.timeline import draw_failure
    from stalerow.simulator.run import run
    from stalerow.simulator.schedule import to_json, write_beside

    schedule = schedule_source(args.schedule, args.pp, args.runner)
    kernels = kernel_set(args.kernels, "auto" if args.kernels.startswith("reference:") else args.device)
    out = console()
    if args.save:
        write_beside(args.save, to_json(schedule))
    outcome = run(schedule, kernels, observer=None if args.quiet else EventPrinter(out))
    for violation in outcome.violations:
        out.print(f"{violation.kind}: {violation.explanation}", markup=False, soft_wrap=True)
    if outcome.violations:
        out.print(draw_failure(schedule, kernels, outcome, width=min(out.width, 100)), markup=False)
    marks = ", ".join(f"{name} {count}" for name, count in sorted(outcome.marks.items())) or "none"
    ended = f", stopped early: {outcome.stopped}" if outcome.stopped else ""
    out.print(f"marks: {marks}", markup=False, soft_wrap=True)
    verdict = f"{len(outcome.violations)} violations" if outcome.violations else "clean"
    out.print(f"{verdict}: {kernels.name}, {outcome.steps} steps, digest {outcome.digest}{ended}", markup=False)
    return 1 if outcome.violations else 0
