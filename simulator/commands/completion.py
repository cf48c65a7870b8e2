"""Print what bash or zsh needs to complete commands, options and names: `eval "$(stalerow completion bash)"`.

The script is made once, from the commands' own parsers, so that a Tab starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from stalerow.simulator.commands.options import add_json
from stalerow.simulator.errors import UsageError

FILES = ("FILE", "DIR", "PATH", "TRACE")
"""What a metavar holds if its value is a file or a folder."""
NAMES = {"--kernels": "stalerow_kernels", "--fault": "stalerow_faults"}
"""Options whose values have names, and what the shell function is called that lists them."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell that is to run what is printed")
    add_json(parser, "completion", instead=True)


def execute(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise UsageError("shtab is not installed: pip install 'stalerow[completion]'") from None
    from stalerow.simulator.commands import answers

    parser = args.whole()
    for action in _actions(parser):
        words = str(action.metavar or "")
        names = next((NAMES[option] for option in action.option_strings if option in NAMES), None)
        if names:
            _set(action, {"bash": names, "zsh": names})
        elif any(word in words for word in FILES):
            _set(action, shtab.FILE)
    script = shtab.complete(parser, args.shell, preamble=_preamble(args.shell))
    if args.json:
        answers.write(args, answers.CompletionAnswer(shell=args.shell, script=script))
    if args.json != answers.STDOUT:
        print(script)
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every option and argument, those of subcommands too."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _set(action: argparse.Action, how: Any) -> None:
    action.complete = how  # type: ignore[attr-defined]  # where shtab looks


def _preamble(shell: str) -> str:
    """The functions of `NAMES`. A kernel set or a fault may be a file too."""
    from stalerow.kernels.sets import KERNEL_SETS
    from stalerow.simulator.faults import builtin_faults

    known = {"stalerow_kernels": KERNEL_SETS, "stalerow_faults": builtin_faults()}
    function = _bash if shell == "bash" else _zsh
    return "\n".join(function(name, names) for name, names in known.items())


def _bash(name: str, names: Iterable[str]) -> str:
    return f'{name}() {{ compgen -W "{" ".join(names)}" -- "$1"; compgen -f -- "$1"; }}'


def _zsh(name: str, names: Iterable[str]) -> str:
    return f"{name}() {{ compadd -- {' '.join(names)}; _files }}"
