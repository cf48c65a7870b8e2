"""Say what a kernel set is: for an engine's own kernels, what was found in its source and how."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the kernel sets that need no loader")
    show = actions.add_parser("show", help="what a kernel set is and what it expects of its caller")
    show.add_argument("name", metavar="SET", help="a kernel set: built in, a release (vllm==X), a checkout or a file")


def execute(args: argparse.Namespace) -> int:
    from stalerow.kernels.sets import KERNEL_SETS, ROW_IS_SLOT

    if args.action == "list":
        print("\n".join(KERNEL_SETS))
        return 0
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

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(describe(args.name))
    return 0
