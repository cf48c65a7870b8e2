"""Whole-block attention gives what position-by-position attention gives: same damage, same bytes, same refusals."""

from __future__ import annotations

import numpy as np
import pytest

from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.base.memory import BlockTables, OutOfBounds, Pool, SlotState
from stalerow.kernels.own import forward as forward_module
from stalerow.kernels.own.forward import ForwardStep, forward
from stalerow.kernels.own.forward_classes import forward_classes
from stalerow.kernels.own.forward_spans import takes_spans

BLOCK, ROWS, DRAFTS = 64, 4, 3
LAYOUT = Layout(
    groups=(
        GroupSpec("attention", BLOCK, kv_bytes=8),
        GroupSpec("recurrent", BLOCK, (StateSpec("temporal", 8),)),
        GroupSpec("attention", 2 * BLOCK, kv_bytes=8),
    ),
    layers=2,
    num_blocks=40,
    num_drafts=DRAFTS,
    base_offset=8,
)


class _Rank:
    """Rows that prefill, cross blocks, verify drafts and do nothing, over a pool with some bytes damaged."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        backend = NumpyBackend()
        self.pool = Pool(LAYOUT, backend)
        self.tables = BlockTables(LAYOUT, ROWS, 8, backend)
        self.slots = SlotState(ROWS, 400, backend)
        ids = rng.permutation(np.arange(1, 40))
        for g, table in enumerate(self.tables.gathered):
            table[:, :3] = ids[g * 12 : g * 12 + 12].reshape(4, 3)
        self.hashes = rng.integers(-(2**62), 2**62, (ROWS, 256))
        self.indices = np.zeros((1, ROWS, DRAFTS + 1), dtype=np.int32)
        self.rng = rng

    def step(self, lengths: list[int], counts: list[int], activation: int = 0) -> tuple[np.ndarray, np.ndarray]:
        qsl = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        step = ForwardStep(
            idx_mapping=np.arange(ROWS),
            query_start_loc=qsl,
            seq_lens=np.array(lengths, dtype=np.int32) + np.array(counts, dtype=np.int32),
            state_indices=self.indices,
            is_spec=np.array([0, 0, 1, 0], dtype=np.int32),
            hashes=self.hashes,
            activation_in=np.full(ROWS, activation),
            num_rows=ROWS,
        )
        damage = np.zeros((ROWS, forward_classes(LAYOUT).num_units), dtype=np.int64)
        leaving = np.zeros(ROWS, dtype=np.int64)
        forward(self.pool, self.tables, self.slots, step, damage, leaving)
        return damage, leaving

    def story(self) -> list[np.ndarray]:
        """A prefill, some decodes, damage to the pool in between; everything that came out."""
        found = [*self.step([0, 0, 0, 0], [130, 64, 4, 0])]
        found += self.step([130, 64, 4, 0], [20, 1, 4, 1], activation=5)
        self.pool.array[self.rng.integers(8, LAYOUT.pool_bytes, 200)] ^= 1
        found += self.step([140, 65, 6, 1], [30, 3, 2, 70])
        return [*found, self.pool.array]


@pytest.mark.parametrize("seed", range(4))
def test_spans_and_positions_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert takes_spans(LAYOUT, forward_classes(LAYOUT))
    spans = _Rank(seed).story()
    monkeypatch.setattr(forward_module, "takes_spans", lambda *_: False)
    positions = _Rank(seed).story()
    for a, b in zip(spans, positions):
        assert np.array_equal(a, b)
    assert spans[4].any()


@pytest.mark.parametrize(("column", "block", "length"), [(1, 40, 70), (0, -1, 0), (7, 1, 600)])
def test_wild_blocks_are_refused_alike(column: int, block: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = []
    for force in (False, True):
        if force:
            monkeypatch.setattr(forward_module, "takes_spans", lambda *_: False)
        rank = _Rank(0)
        rank.hashes = np.zeros((ROWS, 700), dtype=np.int64)
        rank.tables.gathered[0][1, column] = block
        before = rank.pool.array.copy()
        with pytest.raises(OutOfBounds) as error:
            rank.step([0, length, 0, 0], [1, 2, 1, 1])
        assert np.array_equal(before, rank.pool.array)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
