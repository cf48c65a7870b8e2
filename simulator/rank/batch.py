"""One step's batch on one rank: who sits in which row, and the small per-row arrays that the host computes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import msgspec
import numpy as np

from stalerow.simulator.engine.step import ScheduledRow, Step


class Batch(msgspec.Struct, frozen=True):
    """Rows in batch order. slots int64 [rows]; query_start_loc int32 [max_reqs + 1]; masks bool [rows]."""

    step: int
    rows: tuple[ScheduledRow, ...]
    requests: tuple[str, ...]
    slots: np.ndarray
    query_start_loc: np.ndarray
    is_spec: np.ndarray
    needs_output: np.ndarray
    num_padded: int

    @property
    def num_rows(self) -> int:
        return len(self.requests)


def batch_order(step: Step, decode_query_len: int) -> list[ScheduledRow]:
    """Verification rows first, then rows of decode length, then by token count; stable (vLLM 0.32)."""
    return sorted(step.rows, key=lambda r: (r.num_drafts == 0, r.num_tokens != decode_query_len, r.num_tokens))


def query_start_loc(rows: Sequence[ScheduledRow], size: int) -> np.ndarray:
    """Exclusive prefix sums of the rows' token counts; entries past the last row repeat the total."""
    starts = list(accumulate([r.num_tokens for r in rows], initial=0))
    return np.array(starts + starts[-1:] * (size - len(starts)), dtype=np.int32)
