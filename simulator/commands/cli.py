"""The `stalerow` command: finds the subcommand, imports only that one, and turns errors into one line and an exit code.

Exit codes: 0 clean, 1 violation found, 2 usage error, 3 internal or determinism error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stalerow.simulator.errors import CannotCompile


@dataclass(frozen=True)
class Command:
    """A subcommand: its line of help, and the module (`configure`, `execute`) that is imported when it is called."""

    summary: str
    module: str


_SUMMARIES = {
    "compare": "run the same schedules through two or more kernel sets, side by side",
    "run": "run one schedule (a seed or a file) and print its events",
    "fuzz": "run many random schedules; shrink, save and draw what fails",
    "merge": "add up the shards of a campaign as one page",
    "replay": "run a saved failure or a seed again and say whether it fails in the same way",
    "worker": "make or show the environment of --worker, an engine's own scheduler and worker",
    "failures": "list saved failures, and prune them",
    "kernels": "say what a kernel set is and what it expects of its caller",
    "explore": "search every order of events and every workload up to a bound",
    "conform": "compare the scheduler with recorded or live runs of a released engine",
    "explain": "what a kind of violation or a mark means, and what to look at next",
    "serve": "a serving run in closed loop: what a user of the engine would have seen",
    "completion": "what a shell needs to complete commands, options and names",
}
COMMANDS: Mapping[str, Command] = {
    name: Command(summary, f"stalerow.simulator.commands.{name}") for name, summary in _SUMMARIES.items()
}

TAKE_KERNELS = ("run", "replay", "fuzz", "explore", "compare", "serve", "kernels")
SURVIVABLE = ("run", "replay", "explore")
"""Commands that run the kernels under test themselves: as programs, they do it in a child process."""

VIOLATION, USAGE, INTERNAL, INTERRUPTED = 1, 2, 3, 130

OWN_ERRORS = (
    "stalerow.kernels.sets:UnknownKernelSet",
    "stalerow.kernels.base.device:DeviceError",
    "stalerow.kernels.external.errors:ExternalKernelError",
)


def main(argv: Sequence[str] | None = None, commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run one of `commands`, named by the first argument. Returns the exit code."""
    try:
        return _main(argv, commands)
    except KeyboardInterrupt:  # before the command had begun: what it needs takes a while to be imported
        _say("interrupted")
        return INTERRUPTED


def _main(argv: Sequence[str] | None, commands: Mapping[str, Command]) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _top_parser(commands)
    if not arguments or arguments[0] not in commands:
        args = parser.parse_args(arguments)
        parser.print_help()
        return 2 if not arguments else int(bool(args))
    name = arguments[0]
    module = importlib.import_module(commands[name].module)
    command = argparse.ArgumentParser(prog=f"stalerow {name}", description=module.__doc__)
    _configure(command, name, module)
    command.set_defaults(whole=partial(whole_parser, commands), again=argv is None)
    args = command.parse_args(arguments[1:])
    if argv is None and name in SURVIVABLE and hasattr(os, "fork"):
        return _survivable(module, args)
    return _guarded(module, args)


def _configure(parser: argparse.ArgumentParser, name: str, module: ModuleType) -> None:
    module.configure(parser)
    if name in TAKE_KERNELS:
        parser.add_argument(
            "--bind",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="value of a parameter of an engine's kernels that is not known here (repeatable)",
        )


def whole_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """One parser with all commands and their options, which imports them all: for whoever asks about the whole."""
    parser = argparse.ArgumentParser(prog="stalerow")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    made = parser.add_subparsers(metavar="COMMAND")
    for name, command in commands.items():
        _configure(made.add_parser(name, help=command.summary), name, importlib.import_module(command.module))
    return parser


def _top_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    width = max(map(len, commands))
    listing = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in commands.items())
    parser = argparse.ArgumentParser(
        prog="stalerow",
        description="Deterministic schedule simulator and fuzzer for the state-copy kernels of LLM serving engines.",
        epilog=f"commands:\n{listing}\n\n'stalerow COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="stalerow [-h] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument("command", nargs="?", choices=list(commands), metavar="COMMAND", help=argparse.SUPPRESS)
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
    """Run a command: its exit code, or that of whatever it raised, told in one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale without a character must not end a run
            stream.reconfigure(errors="replace")
    try:
        code = _told(module, args)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the command began, or after it had answered
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has gone before the end: nothing can be said to be clean.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as error:  # what was printed has nowhere to go
        _say(f"error: standard output: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USAGE
    return code


def _told(module, args: argparse.Namespace) -> int:
    from stalerow.simulator.errors import CannotCompile, InternalError, UsageError

    usage: list[type[BaseException]] = [UsageError]
    for path in OWN_ERRORS:
        where, what = path.split(":")
        usage.append(getattr(importlib.import_module(where), what))
    try:
        _bind(args)
        return int(module.execute(args))
    except tuple(usage) as error:
        if isinstance(error, CannotCompile) and args.again and getattr(args, "device", "") == "auto":
            _interpret(error)
        _say(f"error: {error}")
        return USAGE
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich's answer to a reader that has gone
            return INTERRUPTED
        raise
    except MemoryError:
        _say("error: out of memory: fewer --jobs or --universes take less, and so do smaller schedules")
        return USAGE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"error: {where}{error.strerror or error}: make room, or name a file or folder that can be written")
        return USAGE
    except Exception as error:
        kind = "internal error" if isinstance(error, InternalError) else f"internal error: {type(error).__name__}"
        _say(f"{kind}: {error}{_traceback_file()}")
        return INTERNAL


def _interpret(error: CannotCompile) -> None:
    """Become the same command with kernels interpreted, which a process that has begun to compile them cannot."""
    _say(f"{str(error).partition('; use')[0]}: kernels are interpreted, which is 15 times slower")
    sys.stdout.flush()
    os.environ["TRITON_INTERPRET"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _say(text: str) -> None:
    print(f"stalerow: {' '.join(text.split())}", file=sys.stderr)


def _traceback_file() -> str:
    """Writes the traceback where it can be sent from; ' (traceback: PATH)', or nothing where no file can be made."""
    import tempfile
    import traceback

    try:
        handle, name = tempfile.mkstemp(prefix="stalerow-traceback-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
    except OSError:
        return ""
    return f" (traceback: {name})"


def _survivable(module, args: argparse.Namespace) -> int:
    """Run a command in a child process, so that a wild copy which kills it is told as what it is."""
    import signal

    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = INTERNAL
        try:
            code = _guarded(module, args)
        finally:
            os._exit(code)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child's to answer
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        if code in (0, VIOLATION, USAGE, INTERNAL, INTERRUPTED):
            return code
        _say(f"crash: the kernels or a fault ended the process with exit code {code}")
        return VIOLATION
    by = signal.Signals(os.WTERMSIG(status))
    if by in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        _say(f"error: killed from outside by {by.name}: nothing can be said of this schedule")
        return USAGE
    _say(f"crash: the run was killed by {by.name}, most likely by a wild copy of the kernels under test")
    return VIOLATION


if __name__ == "__main__":
    sys.exit(main())
