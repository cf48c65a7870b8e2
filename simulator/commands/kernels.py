"""Say what a kernel set is: for an engine's own kernels, what was found in its source and how."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stalerow.simulator.commands.options import add_json
from stalerow.simulator.errors import UsageError

if TYPE_CHECKING:
    from stalerow.kernels.external.describe import Description


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the kernel sets that need no loader")
    show = actions.add_parser("show", help="what a kernel set is and what it expects of its caller")
    check = actions.add_parser("check", help="what a release changed: kernels, parameters, caller, scheduler")
    check.add_argument("name", metavar="SET", help="an engine's own kernels: a release (vllm==X) or a path")
    check.add_argument("--against", metavar="SET", default=None, help="compare with (default: the newest known)")
    check.add_argument("--python", metavar="PATH", default=None, help="Python of an environment that has the release")
    show.add_argument("name", metavar="SET", help="a kernel set: built in, a release (vllm==X), a checkout or a file")
    for action in actions.choices.values():
        add_json(action, "kernels", instead=True)


def execute(args: argparse.Namespace) -> int:
    from stalerow.kernels.sets import KERNEL_SETS, ROW_IS_SLOT

    if args.action == "list":
        return _tell(args, KERNEL_SETS, KERNEL_SETS)
    if args.action == "check":
        from stalerow.kernels.external.check import KNOWN, check

        if args.python is not None and args.json == "-":
            raise UsageError("--json with --python needs a file: the comparison with the environment is text")
        rules, lines = _scheduler(args)
        _tell(args, (args.name,), [*check(args.name, args.against or KNOWN), "", *lines])
        return 0 if args.python is None else _conform(args.python, rules)
    if args.name in KERNEL_SETS:
        variant = args.name.removeprefix("reference:")
        form = "NumPy reference of the" if args.name != variant else "the project's own Triton kernels,"
        by = (
            "request slot in the persistent block tables"
            if ROW_IS_SLOT[variant]
            else ("batch row in the tables gathered for the current batch")
        )
        return _tell(args, (args.name,), [f"{args.name}: {form} {variant} kernels; copies look blocks up by {by}"])
    import logging

    from stalerow.kernels.external import describe
    from stalerow.kernels.sets import refuse_unknown
    from stalerow.simulator.subject.subject import Subject, made_by_function

    if made_by_function(args.name):
        made = Subject(kernels=args.name).load()
        text = f"the kernel set {made.name!r} that the function makes; align kernels {_place(made.align)}"
        return _tell(args, (args.name,), [f"{args.name}: {text}"])
    refuse_unknown(args.name)

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    description = describe(args.name)
    return _tell(args, (args.name,), str(description).splitlines(), description)


def _tell(
    args: argparse.Namespace, sets: Sequence[str], lines: Sequence[str], description: Description | None = None
) -> int:
    if args.json:
        from stalerow.simulator.commands import answers

        made = answers.KernelsAnswer(sets=tuple(sets), description=description, lines=tuple(lines))
        answers.write(args, made)
    if args.json != "-":
        print("\n".join(lines))
    return 0


def _place(kernels: object) -> str:
    """Class and file of an object, as far as Python knows them."""
    import inspect

    made = type(kernels)
    try:
        return f"{made.__name__} in {inspect.getsourcefile(made)}"
    except TypeError:
        return made.__name__


def _scheduler(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The rules that a release's scheduler is compared with, and whether they are known for it."""
    from stalerow.simulator.engine import profile, profile_names

    lines = ["the scheduler"]
    release = args.name.partition("==")[2].partition("[")[0]
    rules = None
    if release:
        try:
            rules = profile(release).name
        except ValueError:
            lines.append(f"  no rules for {release}; the newest known are those of {profile_names()[-1]}")
    if rules is not None:
        lines.append(f"  the rules of {rules} are known")
    if args.python is None:
        lines.append("  compare it with --python PATH, or: stalerow conform --live --python PATH --profile RELEASE")
    return rules or profile_names()[-1], lines


def _conform(python: str, rules: str) -> int:
    """With the release's environment at hand: whether the rules hold."""
    from stalerow.simulator.commands import conform

    parser = argparse.ArgumentParser()
    conform.configure(parser)
    return conform.execute(parser.parse_args(["--live", "--python", python, "--profile", rules]))
