"""A rank of a serving run: Model Runner V2 as it is, with the model's outcomes decided where the last rank samples."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.simulator.engine.step import Step
from stalerow.simulator.rank.batch import Batch
from stalerow.simulator.rank.v2 import RankV2
from stalerow.simulator.rank.wires import SampledOutput
from stalerow.simulator.serve.model import ClosedLoop


class NoPoison:
    """Recurrent blocks keep their old owner's bytes when they change hands, as they do in an engine."""

    def poison(self, step: Step) -> list[int]:
        return []


class ServeRank(RankV2):
    """`digest` (last rank) covers which rows left it damaged and every token sampled."""

    def __init__(self, *args: Any, model: ClosedLoop, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model = model
        self.harness = NoPoison()
        self.digest = hashlib.blake2b(digest_size=16)

    def hash_table(self, batch: Batch) -> HostArray:
        return self.model.resolve(batch.step, batch.rows).table

    def sampler_output(self, batch: Batch) -> SampledOutput:
        damage = np.ascontiguousarray(self.backend.to_host(self.leaving)[: batch.num_rows])
        step = self.model.sample(batch.step, damage)
        tokens = np.zeros((batch.num_rows, self.pipeline.drafts + 1), dtype=np.int64)
        for row, ids in zip(tokens, (step.sampled.get(r, ()) for r in batch.requests)):
            row[: len(ids)] = ids
        self.digest.update((damage != 0).tobytes() + tokens.tobytes())
        return SampledOutput(
            batch.requests,
            self.device(tokens, "int64"),
            self.device(step.num_sampled, "int32"),
            self.device(step.num_rejected, "int32"),
        )
