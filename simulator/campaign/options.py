"""What a campaign is asked for: whom to run, which seeds, for how long, and where findings go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from stalerow.simulator.campaign import failures
from stalerow.simulator.schedule.draw import SEEDS, Draw
from stalerow.simulator.subject.subject import Subject


@dataclass(frozen=True, slots=True)
class Options:
    """What to fuzz and how long. `draw` is the first; the others differ from it by their seeds.

    `seeds`: these instead of those from the first on, in this order; `runs` is their number then.

    `shard` is (i, n): every n-th seed beginning with the i-th, i from 1.

    `jobs`: worker processes; with 0 all runs in this one, whose end a kernel that crashes is.

    `schedule_s`: seconds after which a schedule's run is taken for hung.
    `universes`: schedules that run side by side in a pack, of `families` memory layouts in turn. `resume`: go on with
    the campaign of these options. `ray`: the address of a cluster to run on instead of worker processes.
    """

    subject: Subject
    draw: Draw = field(default_factory=lambda: Draw(0))
    runs: int | None = None
    seeds: tuple[int, ...] | None = None
    seconds: float | None = None
    jobs: int = 1
    shard: tuple[int, int] = (1, 1)
    keep_going: bool = False
    folder: Path = failures.FOLDER
    universes: int | None = None
    families: int = 1
    schedule_s: float | None = None
    resume: bool = False
    ray: str | None = None

    def draws(self) -> Iterator[Draw]:
        i, n = self.shard
        start = self.draw.seed
        stop = SEEDS if self.runs is None else min(start + self.runs, SEEDS)
        seeds: Sequence[int] = range(start, stop) if self.seeds is None else self.seeds
        return (msgspec.structs.replace(self.draw, seed=seed) for seed in seeds[i - 1 :: n])
