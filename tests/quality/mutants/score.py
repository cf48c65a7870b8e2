"""The mutation score: every mutant in a copy of the package, shown to the tests that know its file, then to its trial.

    python tests/quality/mutants/score.py [--seeds 150] [--jobs 2] [--only TEXT ...] [--unmeasured] [--write]

The tests answer in seconds; only a mutant that they let pass goes on to its trial, which is against the oracle. Both
are shown the package itself first. `--write` puts the table into RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))

from catalogue import MUTANTS  # noqa: E402
from mutant import Mutant  # noqa: E402

SCENARIOS, WORDS = ROOT / "scenarios", ROOT / "tests/simulator/oracle/words.txt"
RESULTS = HERE / "RESULTS.md"
TIMEOUT = 600

UNCHANGED = Mutant("simulator/errors.py", "class UsageError(ValueError):", "class UsageError(ValueError):")


class Verdict(NamedTuple):
    mutant: Mutant | None
    caught: bool
    how: str


class Copy:
    """A copy of the package's sources that one mutant at a time is written into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("kernels", "simulator", "scenarios"):
            shutil.copytree(ROOT / name, folder / "stalerow" / name, ignore=shutil.ignore_patterns("__pycache__"))

    @contextlib.contextmanager
    def with_mutant(self, mutant: Mutant | None) -> Iterator[None]:
        if mutant is None:
            yield
            return
        path = self.folder / "stalerow" / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.file}: {mutant.old!r} occurs {text.count(mutant.old)} times, expected once")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def passes(self, files: Sequence[str]) -> str:
        """The first test of these files that fails in this copy, "" if none does."""
        command = [
            sys.executable,
            "-B",
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-rfE",
            "--tb=no",
            *files,
        ]
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, cwd=ROOT)
        if done.returncode == 0:
            return ""
        found = re.search(r"^(?:FAILED|ERROR) \S*?([^/\s]+\.py\S*(?: \S+\])?)", done.stdout, re.MULTILINE)
        if found is None:
            raise ValueError(f"{' '.join(files)}: {_last(done.stdout + done.stderr)}")
        return found[1]

    def verdict(self, mutant: Mutant, seeds: int) -> Verdict:
        """By the tests that know the mutant's file; by its trial if they pass, or take too long to say anything."""
        with self.with_mutant(mutant), contextlib.suppress(subprocess.TimeoutExpired):
            if failed := self.passes(mutant.tests):
                return Verdict(mutant, True, f"caught {failed}")
        return self.trial(mutant, seeds)

    def trial(self, mutant: Mutant | None, seeds: int) -> Verdict:
        if mutant is not None and mutant.trial == "tests":
            with self.with_mutant(mutant):
                failed = self.passes([mutant.own_tests])
            return Verdict(mutant, bool(failed), f"caught {failed}" if failed else "survived its own tests")
        trial = "healthy" if mutant is None else mutant.trial
        command = [sys.executable, "-B", str(HERE / "trial.py"), trial, str(seeds), str(SCENARIOS), str(WORDS)]
        if mutant is not None and mutant.runner:
            command.append(mutant.runner)
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        with self.with_mutant(mutant):
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, cwd=self.folder
                )
            except subprocess.TimeoutExpired:
                return Verdict(mutant, True, f"never ends ({TIMEOUT} s)")
        line = (done.stdout.strip().splitlines() or ["caught - " + _last(done.stderr)])[-1]
        return Verdict(mutant, line.startswith("caught"), line)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1][:90]


def score(mutants: Sequence[Mutant | None], seeds: int, jobs: int, tests_first: bool = False) -> Iterator[Verdict]:
    """Verdicts in the mutants' order."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for i in range(jobs):
            copies.put(Copy(Path(folder) / str(i)))

        def one(mutant: Mutant | None) -> Verdict:
            copy = copies.get()
            try:
                asked = tests_first and mutant is not None and mutant.trial != "tests"
                return copy.verdict(mutant, seeds) if mutant and asked else copy.trial(mutant, seeds)
            finally:
                copies.put(copy)

        yield from pool.map(one, mutants)


class Row(NamedTuple):
    """A line of the table. caught: "yes", "no", or "" where it was never measured; when: the day on which it was."""

    file: str
    mutant: str
    caught: str
    how: str
    when: str


def measured(text: str) -> dict[tuple[str, str], Row]:
    """The rows of a table by file and mutant."""
    cells = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| "))
    whole = (c for c in cells if len(c) == len(Row._fields))
    return {(c[0], c[1]): Row(*(cell.strip().replace("\\|", "|") for cell in c)) for c in whole}


def rows(verdicts: Sequence[Verdict], before: str) -> list[Row]:
    """One row for every mutant of the list: what was measured now, else what an earlier table says."""
    today, now = str(datetime.date.today()), {}
    for v in verdicts:
        assert v.mutant is not None
        how = v.how.removeprefix("caught ") if v.caught else v.mutant.survives or "**not explained**"
        now[v.mutant.name] = ("yes" if v.caught else "no", how, today)
    earlier, made = measured(before), []
    for mutant in MUTANTS:
        change = f"`{mutant.name.split(': ', 1)[1]}`"
        known = earlier.get((mutant.file, change.replace("|", "\\|"))) or earlier.get((mutant.file, change))
        caught, how, when = now.get(mutant.name) or (known[2:] if known else ("", "not measured", ""))
        made.append(Row(mutant.file, change, caught, how, when))
    return made


def report(table: Sequence[Row], seeds: int) -> str:
    """The Markdown table."""
    known = [row for row in table if row.caught]
    caught = sum(row.caught == "yes" for row in known)
    lines = [
        "# Mutation score",
        "",
        f"{caught} of {len(known)} mutants caught ({caught / len(known):.1%}), {len(table) - len(known)} not measured "
        "yet. Made by `python tests/quality/mutants/score.py --write`, which measures what it is told to and keeps the "
        f"other rows. First the tests that know the file, then at most {seeds} schedules, reference kernels; "
        "scenarios, Triton forms and packs where these are mutated.",
        "",
        "| file | mutant | caught | where and first finding | measured |",
        "|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[""], help="mutants whose name contains one of these texts")
    parser.add_argument("--unmeasured", action="store_true", help="those only of which the table says nothing yet")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    known = {row.mutant for row in rows([], RESULTS.read_text(encoding="utf-8")) if row.caught}
    mutants = [m for m in MUTANTS if any(text in m.name for text in args.only)]
    if args.unmeasured:
        mutants = [m for m in mutants if f"`{m.name.split(': ', 1)[1]}`" not in known]
    with tempfile.TemporaryDirectory() as folder:
        untouched = Copy(Path(folder))
        for file in dict.fromkeys(file for m in mutants for file in m.tests):
            if failed := untouched.passes([file]):
                print(f"the package itself does not pass {failed}")
                return 1
    for trial in dict.fromkeys(m.trial for m in mutants if m.trial != "tests"):
        # A mutant that changes nothing shows whether a trial tells anything at all.
        (baseline,) = score([UNCHANGED._replace(trial=trial)], min(args.seeds, 60), 1)
        if baseline.caught:
            print(f"the package itself does not pass the trial {trial!r}: {baseline.how}")
            return 1
    verdicts = []
    for verdict in score(mutants, args.seeds, args.jobs, tests_first=True):
        assert verdict.mutant is not None
        verdicts.append(verdict)
        if args.write:
            table = rows(verdicts, RESULTS.read_text(encoding="utf-8"))
            RESULTS.write_text(report(table, args.seeds), encoding="utf-8")
        print(f"{'caught  ' if verdict.caught else 'SURVIVED'} {verdict.mutant.name}: {verdict.how}", flush=True)
    caught = sum(v.caught for v in verdicts)
    unexplained = [v for v in verdicts if not v.caught and v.mutant and not v.mutant.survives]
    print(f"{caught} of {len(verdicts)} caught, {len(unexplained)} survivors not explained")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
