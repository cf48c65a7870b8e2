"""A rank as those who watch it and its own model see it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from stalerow.kernels.base.layout import Layout
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Planner
from stalerow.simulator.worker.inside.truth import Truth


class Pages(Protocol):
    """`pages` is uint8 [layers, blocks, page_bytes], in place."""

    layout: Layout
    pages: np.ndarray


class Stage(Protocol):
    """What the model asks of the rank that it is a part of."""

    is_last: bool
    step: int
    truth: Truth

    def forward(self, metadata: Any, input_ids: Any, positions: Any, arriving: Any, hidden: Any) -> None: ...


class Watched(Protocol):
    """What the judge looks at. `rows` are the batch in hand, `gathered` the step whose tables were gathered last;
    `max_rows` and `max_blocks` are the sizes of the worker's block tables."""

    index: int
    schedule: Schedule
    planner: Planner
    truth: Truth
    is_last: bool
    rows: tuple[str, ...]
    gathered: int | None

    @property
    def memory(self) -> Pages: ...

    @property
    def max_rows(self) -> int: ...

    @property
    def max_blocks(self) -> int: ...

    def numbers(self, request: str) -> dict[str, int] | None: ...

    def gathered_row(self, group: int, row: int, count: int) -> list[int]: ...
