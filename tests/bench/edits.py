"""How many schedules `--worker` needs to find each of the small edits of a release's own files.

    python tests/bench/edits.py [--python PATH] [--schedules 40] [--results FILE] [NAME ...]
    python tests/bench/edits.py --table [--results FILE]      what is in the file, as Markdown

Needs the environment of --worker (see 'stalerow worker'). Each edit is applied to a copy of the installed release
(`tests/quality/edits`), of which everything but one file is a link; seeds 0, 1, ... are run until one fails. An engine
that does not start with the edit counts as found by no schedule. Every figure is one line of the results file, written
as soon as it is known; a second call does what is missing. NAME: only edits whose name holds one of these.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1] / "quality" / "edits"))
from release_edit import Edit, edited
from release_edits import EDITS

from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw
from stalerow.simulator.subject.subject import Subject
from stalerow.simulator.worker.environment import BASE, environment
from stalerow.simulator.worker.process import child


class Tried(msgspec.Struct, frozen=True):
    """Schedules `tried`; `found` is what the last of them said, empty if none failed. `ours`: the tool's own error."""

    edit: str
    tried: int
    found: str
    ours: str = ""


def installed(python: str) -> Path:
    """The folder of the release that is installed in the environment."""
    made = environment(f"vllm=={BASE}", python)
    code = "import importlib.util; print(importlib.util.find_spec('vllm').submodule_search_locations[0])"
    done = subprocess.run([made.python, "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.split()[-1])


def tried(edit: Edit, vllm: Path, python: str, schedules: int) -> Tried:
    with tempfile.TemporaryDirectory(prefix="stalerow-edit-") as folder:
        worker = str(edited(vllm, edit, Path(folder)))
        subject = Subject(worker=worker, python=python)
        try:
            child(environment(worker, python))
        except (UsageError, InternalError) as error:
            return Tried(edit.name, 0, f"does not start: {str(error).replace(folder, '')}")
        try:
            return _searched(edit, subject, schedules)
        finally:
            child(environment(worker, python)).close()
            child.cache_clear()


def _searched(edit: Edit, subject: Subject, schedules: int) -> Tried:
    for seed in range(schedules):
        try:
            outcome = subject.run(from_draw(Draw(seed=seed, runner="v2", faithful=True)))
        except InternalError as error:
            return Tried(edit.name, seed + 1, "", str(error))
        if outcome.violations:
            (first, *_) = outcome.violations
            return Tried(edit.name, seed + 1, f"{first.kind}: {first.explanation}")
    return Tried(edit.name, schedules, "")


def table(results: Sequence[Tried]) -> str:
    lines = ["| edit | schedules | found as |", "|---|---|---|"]
    for result in results:
        words = result.found or (f"the tool's own error: {result.ours}" if result.ours else "not found")
        lines.append(f"| {result.edit} | {result.tried} | {words.replace('|', '/')[:160]} |")
    found = sum(bool(r.found) for r in results)
    lines.append(f"\n{found} of {len(results)} found ({found / max(len(results), 1):.0%}).")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--python", default=os.environ.get("STALEROW_WORKER_PYTHON", ""))
    parser.add_argument("--schedules", type=int, default=40)
    parser.add_argument("--results", type=Path, default=Path("edits.jsonl"))
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    lines = args.results.read_bytes().splitlines() if args.results.exists() else []
    known = {r.edit: r for r in (msgspec.json.decode(line, type=Tried) for line in lines)}
    if args.table:
        print(table([known[e.name] for e in EDITS if e.name in known]))
        return
    vllm = installed(args.python)
    for edit in EDITS:
        if edit.name in known or (args.names and not any(name in edit.name for name in args.names)):
            continue
        result = tried(edit, vllm, args.python, args.schedules)
        with args.results.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        print(f"{result.edit}: {result.tried}, {result.found or result.ours or 'not found'}", flush=True)


if __name__ == "__main__":
    main()
