"""The aligned indices and a decode step's kernels, captured in a CUDA graph once and replayed over padded rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_machine import Machine, assert_same, triton_set

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.sets import kernel_set

pytestmark = pytest.mark.gpu

BLOCK_SIZE, DRAFTS, COLUMNS, REQUESTS, PADDED = 4, 2, 12, 8, 6


class Step:
    """A decode step with its inputs in fixed buffers of `PADDED` rows, as a captured graph needs them."""

    def __init__(self, kernels, seed: int) -> None:
        states = (StateSpec("conv", 12, 2), StateSpec("temporal", 40, 2))
        groups = (GroupSpec("recurrent", BLOCK_SIZE, states), GroupSpec("recurrent", BLOCK_SIZE, states))
        layout = Layout(groups, 2, 1 + 2 * REQUESTS * COLUMNS, DRAFTS)
        m = self.m = Machine(layout, kernels, REQUESTS, COLUMNS, 64)
        rng = np.random.default_rng(seed)
        ids = 1 + np.arange(2 * REQUESTS * COLUMNS, dtype=np.int32).reshape(2, REQUESTS, COLUMNS)
        m.load({"pool": rng.integers(0, 256, layout.pool_bytes, dtype=np.uint8)})
        m.load({"num_computed": rng.integers(1, 9, REQUESTS, dtype=np.int32)})
        m.load({"state_idx": (m.host(m.slots.num_computed) - 1) // BLOCK_SIZE})
        m.load({f"persistent[{g}]": ids[g] for g in range(2)})
        m.load({"num_blocks": np.full((2, REQUESTS), COLUMNS, np.int32)})
        self.idx, self.loc = m.idx([-1] * PADDED), m.query_start_loc([0] * PADDED)
        self.sampled = m.up(np.zeros((PADDED, DRAFTS + 1)), "int64")
        self.num_sampled, self.num_rejected = m.up([0] * PADDED, "int32"), m.up([0] * PADDED, "int32")

    def give(self, slots: list[int], accepted: list[int]) -> None:
        """The next step's batch, as many rows as slots, the rest padding; gathered before the graph, as runners do."""
        m, padding = self.m, PADDED - len(slots)
        lengths = [DRAFTS + 1] * len(slots) + [0] * padding
        m.backend.write(self.idx, np.array(slots + [-1] * padding))
        m.backend.write(self.loc, np.array([0, *np.cumsum(lengths), *[sum(lengths)] * (REQUESTS - PADDED)]))
        m.backend.write(self.num_sampled, np.array(accepted + [0] * padding))
        m.backend.write(self.num_rejected, np.array([DRAFTS + 1 - a for a in accepted] + [0] * padding))
        m.ops.gather(m.tables, self.idx, len(slots), PADDED)

    def run(self) -> None:
        """What a rank launches for the step around the forward, over all padded rows."""
        m, rows = self.m, PADDED
        m.align.preprocess(m.slots, self.idx, self.loc, rows, BLOCK_SIZE)
        m.align.precopy(m.slots, m.binding, self.idx, rows)
        m.ops.seq_lens(m.slots, self.idx, self.loc, rows, rows, m.seq_lens)
        m.align.aligned_indices(m.binding, m.seq_lens, rows, BLOCK_SIZE, m.state_indices)
        done = (self.sampled, self.num_sampled)
        m.ops.post_update(m.slots, self.idx, *done, self.num_rejected, self.loc, rows)
        m.ops.scatter_accepted(m.slots, self.idx, self.num_sampled, rows)
        m.align.postprocess(m.slots, m.binding, self.idx, rows, BLOCK_SIZE)


def compare(ours: Step, spec: Step, replay: Callable[[], object], steps: int = 12) -> None:
    """Drive both through random decode batches, ours by `replay`, and compare every array after each step."""
    rng = np.random.default_rng(2)
    before = spec.m.pool_bytes()
    for _ in range(steps):
        slots = rng.permutation(REQUESTS)[: rng.integers(0, PADDED + 1)].tolist()
        accepted = rng.integers(1, DRAFTS + 2, len(slots)).tolist()
        for step in (ours, spec):
            step.give(slots, accepted)
        replay()
        spec.run()
        assert_same(ours.m.contents(), spec.m.contents())
    assert (spec.m.pool_bytes() != before).any(), "no step crossed a boundary"


def captured(step: Step) -> Any:
    """A graph of the step, captured over padding only. What runs first compiles the kernels and changes no slot."""
    import torch

    step.give([], [])
    step.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.run()
    return graph


@pytest.mark.parametrize("name", ["req-idx", "batch-row"])
def test_a_captured_decode_step_replays_like_the_reference(name: str) -> None:
    ours, spec = Step(triton_set(name, "cuda"), 1), Step(kernel_set(f"reference:{name}"), 1)
    graph = captured(ours)
    spec.give([], [])
    spec.run()
    compare(ours, spec, graph.replay)


def test_a_decode_step_outside_a_graph_is_the_reference() -> None:
    ours, spec = Step(triton_set("req-idx", "cuda"), 1), Step(kernel_set("reference:req-idx"), 1)
    compare(ours, spec, ours.run)


def test_captured_indices_of_padded_rows_are_the_null_block() -> None:
    step = Step(triton_set("req-idx", "cuda"), 3)
    graph = captured(step)
    m = step.m
    for rows in (PADDED, 2, 0):
        m.load({"state_indices": np.full(m.host(m.state_indices).shape, -9, np.int32)})
        step.give(list(range(rows)), [1] * rows)
        graph.replay()
        found = m.host(m.state_indices)[:, :PADDED]
        assert (found[:, :rows] > 0).all()
        assert (found[:, rows:] == 0).all()
