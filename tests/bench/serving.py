"""The serving tables: the reported benchmark, threshold, question answering, a poisoned prefix, and what broke first.

    python tests/bench/serving.py [benchmark] [threshold] [answers] [prefix] [causes] [--jobs 2]

Every table but `causes` is one `stalerow serve` command, printed before it runs, with the time it took after it.
`causes` looks over the shoulder of one run: which boundary copies went to another request's blocks, and what the first
forward of each broken request read that was not its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.commands.cli import main as stalerow
from stalerow.simulator.rank.operations import Forward, Operation, Postprocess
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.serve.acceptance import from_mean
from stalerow.simulator.serve.costs import Costs
from stalerow.simulator.serve.serving import Serving
from stalerow.simulator.serve.settings import ServeOptions
from stalerow.simulator.serve.workload import RandomDataset

ACCEPTANCE = 4.45
FOREIGN = "bytes of another kind (a state in attention KV, or KV or rubbish in a state)"
WHOLE = "a whole state, of another token or request"
BATCH_ROW = ("--kernels", "reference:batch-row")
TABLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "benchmark": (("--ignore-eos",),),
    "threshold": tuple(
        (
            "--ignore-eos",
            *BATCH_ROW,
            "-pp",
            "2",
            "--max-num-batched-tokens",
            budget,
            "--max-concurrency",
            *concurrencies,
        )
        for budget, concurrencies in (
            ("8192", ("1", "2", "3", "4", "5", "6", "8", "12", "16")),
            ("2048", ("1", "2", "3", "4", "8", "16")),
        )
    ),
    "answers": (
        (
            *("-pp", "1", "2", "4", "--num-prompts", "256", "--max-concurrency", "64", "--random-prefix-len", "750"),
            *("--random-input-len", "60", "--random-output-len", "82", "--max-tokens", "4096"),
        ),
    ),
}


def table(options: tuple[str, ...], jobs: list[str]) -> None:
    print(f"$ stalerow serve {' '.join(options)}", flush=True)
    began = time.monotonic()
    stalerow(["serve", *options, *jobs])
    print(f"{time.monotonic() - began:.0f} s\n", flush=True)


def poisoned_prefix(jobs: list[str]) -> None:
    """A shared system prompt of two blocks, in turn with short prompts that cross the same columns on their own."""
    lines = [
        f'{{"prompt_len": {1700 + 30 * i}, "prefix_id": 1, "prefix_len": 1600, "output_len": 400}}\n'
        f'{{"prompt_len": {500 + 17 * i}, "output_len": 700}}\n'
        for i in range(24)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.jsonl"
        path.write_text("".join(lines))
        table(("--ignore-eos", "-pp", "2", "--max-concurrency", "6", "--dataset-path", str(path)), jobs)


class Watched(Serving):
    """Counts deferred boundary copies by whose blocks they moved, and broken requests by what they read first."""

    def watch(self) -> None:
        self.copies: Counter[str] = Counter()
        self.causes: dict[str, str] = {}
        self._known: set[int] = set()

    def _announce(self, rank: RankV2, operation: Operation, done: int) -> None:
        super()._announce(rank, operation, done)
        if isinstance(operation, Forward):
            step = self.model.steps[operation.step]
            for row, hashes, damage in zip(step.rows, step.table, rank.damage):
                if damage.any():
                    self.causes.setdefault(row.progress.history.spec.id, self._cause(damage, int(hashes[row.start])))
                self._known.update(hashes[row.start : row.start + row.num_tokens + 1].tolist())
        if isinstance(operation, Postprocess) and operation.batch_step != operation.step:
            self._count(rank, operation)

    def _cause(self, damage: np.ndarray, expected: int) -> str:
        """A temporal state's damage is the identity that it carries minus the expected one."""
        states = self.layout.states
        if damage[len(states) :].any():
            return FOREIGN
        carried = [expected + int(d) for d, s in zip(damage, states) if d and not s.conv_width]
        known = all((c + (1 << 63)) % (1 << 64) - (1 << 63) in self._known for c in carried)
        return WHOLE if known else FOREIGN

    def _count(self, rank: RankV2, operation: Postprocess) -> None:
        step, size = self.model.steps[operation.batch_step], self.options.block_size
        for i, (row, count, rejected) in enumerate(zip(step.rows, step.num_sampled, step.num_rejected)):
            end = row.start + row.num_tokens - rejected
            running, saved = -(-(row.start + row.num_tokens) // size) - 1, end // size * size
            first = end - count + 1
            slot = rank.slot_table.slot_of.get(row.progress.history.spec.id)
            if not count or slot is None or saved < first or (running == saved // size - 1 and saved == first):
                continue
            columns = slice(running, running + count)
            tables = [
                (rank.tables.gathered[g][i], rank.tables.persistent[g][slot]) for g in self.layout.recurrent_groups
            ]
            own = all(np.array_equal(gathered[columns], kept[columns]) for gathered, kept in tables)
            self.copies["own blocks" if own else "another request's blocks"] += 1


def _length(run: Watched, broken: list[str]) -> float:
    """Acceptance length if only these requests had got stuck where they did."""
    total = sum(p.delivered for p in run.model.progress.values())
    stuck = sum(max(run.model.progress[r].delivered - run.model.progress[r].damaged_at, 0) for r in broken)
    return total / (stuck + (total - stuck) / ACCEPTANCE)


def causes() -> None:
    requests = RandomDataset(ignore_eos=True).requests()
    kernels, acceptance = kernel_set("reference:batch-row"), from_mean(ACCEPTANCE, 4)
    for pp in (2, 4):
        run = Watched(requests, ServeOptions(pipeline_parallel_size=pp), kernels, acceptance, Costs(), 8, 42)
        run.watch()
        run.run()
        print(f"PP {pp}: deferred boundary copies, by the blocks that batch rows named: {dict(run.copies)}")
        for cause in (FOREIGN, WHOLE):
            ids = [request for request, found in run.causes.items() if found == cause]
            print(
                f"      {len(ids)} requests first read {cause}; they alone: {_length(run, ids):.2f} tokens a step",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*TABLES, "prefix", "causes"]
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--jobs", type=int, default=None)
    args = parser.parse_args()
    jobs = [] if args.jobs is None else ["--jobs", str(args.jobs)]
    for name in args.tables or known:
        if name == "causes":
            causes()
        elif name == "prefix":
            poisoned_prefix(jobs)
        elif name in TABLES:
            for options in TABLES[name]:
                table(options, jobs)
        else:
            parser.error(f"{name!r} is no table: give some of {', '.join(known)}")


if __name__ == "__main__":
    main()
