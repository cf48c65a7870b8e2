"""Say what a kernel set is: for an engine's own kernels, what was found in its source and how."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the kernel sets that need no loader")
    show = actions.add_parser("show", help="what a kernel set is and what it expects of its caller")
    check = actions.add_parser("check", help="what a release changed: kernels, parameters, caller, scheduler")
    check.add_argument("name", metavar="SET", help="an engine's own kernels: a release (vllm==X) or a path")
    check.add_argument("--against", metavar="SET", default=None, help="compare with (default: the newest known)")
    check.add_argument("--python", metavar="PATH", default=None, help="Python of an environment that has the release")
    show.add_argument("name", metavar="SET", help="a kernel set: built in, a release (vllm==X), a checkout or a file")


def execute(args: argparse.Namespace) -> int:
    from stalerow.kernels.sets import KERNEL_SETS, ROW_IS_SLOT

    if args.action == "list":
        print("\n".join(KERNEL_SETS))
        return 0
    if args.action == "check":
        from stalerow.kernels.external.check import KNOWN, check

        print("\n".join(check(args.name, args.against or KNOWN)))
        return _scheduler(args)
    if args.name in KERNEL_SETS:
        variant = args.name.removeprefix("reference:")
        form = "NumPy reference of the" if args.name != variant else "the project's own Triton kernels,"
        by = "request slot in the persistent block tables" if ROW_IS_SLOT[variant] else (
            "batch row in the tables gathered for the current batch"
        )
        print(f"{args.name}: {form} {variant} kernels; copies look blocks up by {by}")
        return 0
    import logging

    from stalerow.kernels.external import describe
    from stalerow.kernels.sets import refuse_unknown
    from stalerow.simulator.run.subject import Subject, made_by_function

    if made_by_function(args.name):
        made = Subject(kernels=args.name).load()
        print(f"{args.name}: the kernel set {made.name!r} that the function makes; align kernels {_place(made.align)}")
        return 0
    refuse_unknown(args.name)

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(describe(args.name))
    return 0


def _place(kernels: object) -> str:
    """Class and file of an object, as far as Python knows them."""
    import inspect

    made = type(kernels)
    try:
        return f"{made.__name__} in {inspect.getsourcefile(made)}"
    except TypeError:
        return made.__name__


def _scheduler(args: argparse.Namespace) -> int:
    """Whether the release's scheduling rules are known; with its environment at hand, whether they hold."""
    from stalerow.simulator.engine import profile, profile_names

    print("\nthe scheduler")
    release = args.name.partition("==")[2].partition("[")[0]
    rules = None
    if release:
        try:
            rules = profile(release).name
        except ValueError:
            print(f"  no rules for {release}; the newest known are those of {profile_names()[-1]}")
    if rules is not None:
        print(f"  the rules of {rules} are known")
    if args.python is None:
        print("  compare it with --python PATH, or: stalerow conform --live --python PATH --profile RELEASE")
        return 0
    from stalerow.simulator.commands import conform

    parser = argparse.ArgumentParser()
    conform.configure(parser)
    return conform.execute(
        parser.parse_args(["--live", "--python", args.python, "--profile", rules or profile_names()[-1]])
    )
