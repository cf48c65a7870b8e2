"""Execute a pack in lockstep: frame by frame, each rank on a stream of its own, all universes in every launch.

A rank's main stream waits for the previous rank's activations; the last rank's side stream hands sampled tokens to the
others, which take them P frames later, as the workers do. Checks lower a universe's verdict on the device; the host
reads verdicts and fingerprints once, at the end.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from stalerow.kernels.own.universes import NEVER
from stalerow.kernels.sets import KernelSet
from stalerow.simulator.run.outcome import digest_of
from stalerow.simulator.universes.arrays import arrays
from stalerow.simulator.universes.group import CHECKS, RankGroup
from stalerow.simulator.universes.launches import run_frame
from stalerow.simulator.universes.memory import Wire
from stalerow.simulator.universes.pack import Pack


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one universe's execution showed. `memory` as in `run.Outcome`.

    first: number of the first check that failed, None if none did: `group.CHECKS[first % len(CHECKS)]` on `rank` in
    frame `first // len(CHECKS)`.
    """

    memory: str
    first: int | None
    rank: int

    @property
    def check(self) -> str:
        """The same in words, "" if no check failed."""
        if self.first is None:
            return ""
        frame, check = divmod(self.first, len(CHECKS))
        return f"{CHECKS[check]}, step {frame + 1}, rank {self.rank}"


def execute(pack: Pack, kernels: KernelSet) -> list[Verdict]:
    """Run a pack on the kernel set's device. Raises what the reference kernels raise for a block out of bounds."""
    made = arrays(kernels.backend)
    num_ranks = len(pack.ranks)
    wire = Wire(pack, made, kernels.backend, num_ranks)
    groups = [RankGroup(pack, r, num_ranks, kernels, made, wire) for r in range(num_ranks)]
    kernels.backend.synchronize()
    for frame in range(pack.frames):
        for group in groups:
            with made.on(group.stream):
                run_frame(group, frame)
    for group in groups:
        with made.on(group.stream):
            group.finish()
    kernels.backend.synchronize()
    verdicts = np.stack([group.verdicts_on_host() for group in groups])
    prints = [group.prints_on_host() for group in groups]
    ends = [group.ends_on_host() for group in groups]
    out = []
    for u in range(pack.count):
        ran = pack.ran[:, u]
        memory = b"".join(
            hashlib.blake2b(prints[r][ran, u].tobytes() + ends[r][:, u].tobytes(), digest_size=16).digest()
            for r in range(num_ranks)
        )
        first = int(verdicts[:, u].min())
        out.append(Verdict(digest_of(memory), None if first == NEVER else first, int(verdicts[:, u].argmin())))
    return out
