"""The `stalerow` command: finds the subcommand, imports only that one, and turns errors into one line and an exit code.

Exit codes: 0 clean, 1 violation found, 2 usage error, 3 internal or determinism error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "compare": "run the same schedules through two or more kernel sets, side by side",
    "run": "run one schedule (a seed or a file) and print its events",
    "fuzz": "run many random schedules; shrink, save and draw what fails",
    "replay": "run a saved failure or a seed again and say whether it fails in the same way",
    "worker": "make or show the environment of --worker, an engine's own scheduler and worker",
    "failures": "list saved failures, and prune them",
    "kernels": "say what a kernel set is and what it expects of its caller",
    "explore": "search every order of events and every workload up to a bound",
    "conform": "compare the scheduler with recorded or live runs of a released engine",
    "scenarios": "the catalogue of public bugs: list, show, run, add",
    "explain": "what a kind of violation or a mark means, and what to look at next",
    "serve": "a serving run in closed loop: what a user of the engine would have seen",
}

TAKE_KERNELS = ("run", "replay", "fuzz", "explore", "compare", "serve", "kernels")

OWN_ERRORS = (
    "stalerow.kernels.sets:UnknownKernelSet",
    "stalerow.kernels.base.device:DeviceError",
    "stalerow.kernels.external.errors:ExternalKernelError",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _top_parser()
    if not arguments or arguments[0] not in COMMANDS:
        args = parser.parse_args(arguments)
        parser.print_help()
        return 2 if not arguments else int(bool(args))
    name = arguments[0]
    module = importlib.import_module(f"stalerow.simulator.commands.{name}")
    command = argparse.ArgumentParser(prog=f"stalerow {name}", description=module.__doc__)
    module.configure(command)
    if name in TAKE_KERNELS:
        command.add_argument(
            "--bind",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="value of a parameter of an engine's kernels that is not known here (repeatable)",
        )
    return _guarded(module, command.parse_args(arguments[1:]))


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="stalerow",
        description="Deterministic schedule simulator and fuzzer for the state-copy kernels of LLM serving engines.",
        epilog=f"commands:\n{listing}\n\n'stalerow COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="stalerow [-h] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument("command", nargs="?", choices=list(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when asked: package metadata is slow to import."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"stalerow {version('stalerow')}")
        except PackageNotFoundError:
            print("stalerow (not installed)")
        parser.exit(0)


def _bind(args: argparse.Namespace) -> None:
    """Put `--bind` into the names of the kernel sets that are an engine's own: there it travels with them."""
    pairs = getattr(args, "bind", [])
    if not pairs:
        return
    from stalerow.kernels.external.bind import join
    from stalerow.kernels.sets import looks_external
    from stalerow.simulator.errors import UsageError

    name = "name" if hasattr(args, "name") else "kernels"
    given = getattr(args, name) or ()
    bound = [join(n, pairs) if looks_external(n) else n for n in ([given] if isinstance(given, str) else given)]
    if bound == ([given] if isinstance(given, str) else list(given)):
        raise UsageError(f"--bind {pairs[0]}: no engine's own kernels are given; give a release or a path")
    setattr(args, name, bound[0] if isinstance(given, str) else bound)


def _guarded(module, args: argparse.Namespace) -> int:
    """Run a command. ValueErrors of our own say what to do in one line; anything else is a bug and shows itself."""
    from stalerow.simulator.errors import InternalError, UsageError

    usage: list[type[BaseException]] = [UsageError]
    for path in OWN_ERRORS:
        where, what = path.split(":")
        usage.append(getattr(importlib.import_module(where), what))
    try:
        _bind(args)
        return int(module.execute(args))
    except tuple(usage) as error:
        print(f"stalerow: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except InternalError as error:
        print(f"stalerow: internal error: {' '.join(str(error).split())}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("stalerow: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
