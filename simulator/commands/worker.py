"""The environment of `--worker`: make it in the user's cache, with releases' Python files, or say what is there."""

from __future__ import annotations

import argparse

from stalerow.simulator.commands.options import add_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("setup", "show"), help="make what is missing, or say what is there")
    parser.add_argument("releases", metavar="vllm==RELEASE", nargs="*", help="releases whose Python files are wanted")
    parser.add_argument("--python", metavar="PATH", default="", help="use this Python instead of making one")
    add_json(parser, "worker")


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.errors import UsageError
    from stalerow.simulator.worker import environment
    from stalerow.simulator.worker.process import child

    numbers = []
    for release in args.releases:
        if not release.startswith(environment.PREFIX):
            raise UsageError(f"{release!r} is no release: give {environment.PREFIX}RELEASE")
        numbers.append(release.removeprefix(environment.PREFIX))
    if args.action == "show":
        found = _releases()
        made = environment.environment(f"{environment.PREFIX}{environment.BASE}", args.python)
        print(f"Python: {made.python}\nreleases: {', '.join([environment.BASE + ' (installed)', *found])}")
        _answer(args, str(made.python))
        return 0
    if not args.python:
        print(f"making {environment.root() / 'python'}: {environment.SIZE}", flush=True)
    python = args.python or str(environment.make_python())
    for number in numbers:
        print(f"vllm=={number}: {environment.fetch_release(number, python)}", flush=True)
    engine = child(environment.environment(f"{environment.PREFIX}{environment.BASE}", python))
    print(f"ready: vLLM {engine.version} starts in {engine.seconds:.1f} s; try 'stalerow fuzz --worker vllm==0.32.0'")
    _answer(args, python)
    return 0


def _releases() -> list[str]:
    """Releases whose Python files are there beside the installed one's."""
    from stalerow.simulator.worker import environment

    return sorted(path.name for path in environment.overlays().glob("*") if (path / "vllm").is_dir())


def _answer(args: argparse.Namespace, python: str) -> None:
    if args.json:
        from stalerow.simulator.commands import answers
        from stalerow.simulator.worker import environment

        answers.write(args, answers.WorkerAnswer(python=python, releases=(environment.BASE, *_releases())))
