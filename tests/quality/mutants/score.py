"""The mutation score: every mutant in a copy of the package, run against the oracle with the reference kernels.

    python tests/quality/mutants/score.py [--seeds 150] [--jobs 2] [--only TEXT ...] [--write]

Without a mutant the same schedules must be clean, which is checked first. `--write` puts the table into RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
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

from catalogue import MUTANTS, Mutant  # noqa: E402

TIMEOUT = 600


class Verdict(NamedTuple):
    mutant: Mutant | None
    caught: bool
    how: str


class Copy:
    """A copy of the package's sources that one mutant at a time is written into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("kernels", "simulator", "scenarios"):
            shutil.copytree(
                ROOT / name, folder / "stalerow" / name, ignore=shutil.ignore_patterns("__pycache__", "*.toml")
            )

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

    def trial(self, mutant: Mutant | None, seeds: int) -> Verdict:
        command = [sys.executable, "-B", str(HERE / "trial.py"), str(seeds)]
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


def score(mutants: Sequence[Mutant | None], seeds: int, jobs: int) -> Iterator[Verdict]:
    """Verdicts in the mutants' order."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for i in range(jobs):
            copies.put(Copy(Path(folder) / str(i)))

        def one(mutant: Mutant | None) -> Verdict:
            copy = copies.get()
            try:
                return copy.trial(mutant, seeds)
            finally:
                copies.put(copy)

        yield from pool.map(one, mutants)


def report(verdicts: Sequence[Verdict], seeds: int) -> str:
    """The Markdown table."""
    caught = sum(v.caught for v in verdicts)
    lines = [
        "# Mutation score",
        "",
        f"{caught} of {len(verdicts)} mutants caught ({caught / len(verdicts):.1%}) on {datetime.date.today()}, at "
        f"most {seeds} schedules each, reference kernels. Made by `python tests/quality/mutants/score.py --write`.",
        "",
        "| file | mutant | caught | seed and first finding |",
        "|---|---|---|---|",
    ]
    for v in verdicts:
        assert v.mutant is not None
        change = v.mutant.name.split(": ", 1)[1]
        how = v.how.removeprefix("caught ") if v.caught else v.mutant.survives or "**not explained**"
        cells = (v.mutant.file, f"`{change}`", "yes" if v.caught else "no", how)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[""], help="mutants whose name contains one of these texts")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    (baseline,) = score([None], min(args.seeds, 60), 1)
    if baseline.caught:
        print(f"the package itself is not clean: {baseline.how}")
        return 1
    mutants = [m for m in MUTANTS if any(text in m.name for text in args.only)]
    verdicts = []
    for verdict in score(mutants, args.seeds, args.jobs):
        assert verdict.mutant is not None
        verdicts.append(verdict)
        print(f"{'caught  ' if verdict.caught else 'SURVIVED'} {verdict.mutant.name}: {verdict.how}", flush=True)
    caught = sum(v.caught for v in verdicts)
    unexplained = [v for v in verdicts if not v.caught and v.mutant and not v.mutant.survives]
    print(f"{caught} of {len(verdicts)} caught, {len(unexplained)} survivors not explained")
    if args.write:
        (HERE / "RESULTS.md").write_text(report(verdicts, args.seeds), encoding="utf-8")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
