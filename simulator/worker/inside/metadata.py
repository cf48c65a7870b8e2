"""What the worker told its layers about a batch, read back from the attention metadata, row by row.

Recurrent layers get their rows in two parts (verification rows and the others), attention layers in batch order.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from stalerow.kernels.base.layout import Layout


class Batch(msgspec.Struct):
    """query_start_loc int32 [rows + 1]; seq_lens int32 [rows]; is_spec int32 [rows]; accepted int32 [rows] (1 where a
    row is none of verification); columns int32 [recurrent groups, rows, K + 1] of block ids; reads bool
    [recurrent groups, rows], whether the layer starts from a state in memory; tables: for each group int32
    [rows, columns] of block ids as gathered (attention only, else None); slot_mapping: for each group int64 [tokens].
    """

    query_start_loc: np.ndarray
    seq_lens: np.ndarray
    is_spec: np.ndarray
    accepted: np.ndarray
    columns: np.ndarray
    reads: np.ndarray
    tables: list[np.ndarray | None]
    slot_mapping: list[np.ndarray | None]


def batch_of(metadata: Any, context: Any, layout: Layout, rows: int) -> Batch:
    """The batch as the layers see it; `metadata` by layer name, `context` the layers by name."""
    by_group = _by_group(metadata, context, layout)
    common = next(by_group[g] for g in layout.attention_groups)
    batch = Batch(
        query_start_loc=common.query_start_loc.numpy()[: rows + 1].copy(),
        seq_lens=common.seq_lens.numpy()[:rows].copy(),
        is_spec=np.zeros(rows, dtype=np.int32),
        accepted=np.ones(rows, dtype=np.int32),
        columns=np.zeros((len(layout.recurrent_groups), rows, layout.num_drafts + 1), dtype=np.int32),
        reads=np.zeros((len(layout.recurrent_groups), rows), dtype=bool),
        tables=[None] * len(layout.groups),
        slot_mapping=[None] * len(layout.groups),
    )
    for group in layout.attention_groups:
        batch.tables[group] = by_group[group].block_table_tensor.numpy()[:rows].copy()
        batch.slot_mapping[group] = by_group[group].slot_mapping.numpy().copy()
    for index, group in enumerate(layout.recurrent_groups):
        _recurrent(batch, index, by_group[group], rows)
    return batch


def written_blocks(metadata: Any, context: Any, layout: Layout) -> list[int]:
    """The blocks, but for the null block, that layers write to whatever rows there are: states, and keys."""
    by_group, blocks = _by_group(metadata, context, layout), set[int]()
    for group in layout.recurrent_groups:
        meta = by_group[group]
        for name in ("spec_state_indices_tensor", "non_spec_state_indices_tensor"):
            indices = getattr(meta, name, None)
            blocks.update([] if indices is None else indices.flatten().tolist())
    for group in layout.attention_groups:
        size = layout.groups[group].block_size
        blocks.update(slot // size for slot in by_group[group].slot_mapping.tolist())
    return sorted(block for block in blocks if block > 0)


def _by_group(metadata: Any, context: Any, layout: Layout) -> list[Any]:
    """Layers were registered layer by layer within each group."""
    names = list(context)
    return [metadata[names[g * layout.layers]] for g in range(len(layout.groups))]


def _recurrent(batch: Batch, index: int, meta: Any, rows: int) -> None:
    spec = _spec_rows(meta, rows)
    others = [row for row in range(rows) if row not in spec]
    if spec:
        blocks, accepted = meta.spec_state_indices_tensor.numpy(), meta.num_accepted_tokens.numpy()
        for at, row in enumerate(spec):
            batch.is_spec[row] = 1
            batch.accepted[row] = accepted[at]
            batch.columns[index, row, : blocks.shape[1]] = blocks[at]
            batch.reads[index, row] = True
    if others:
        blocks = meta.non_spec_state_indices_tensor.numpy()
        initial = None if meta.has_initial_state is None else meta.has_initial_state.numpy()
        for at, row in enumerate(others):
            batch.columns[index, row, 0] = blocks[at]
            batch.reads[index, row] = initial is None or bool(initial[at])


def _spec_rows(meta: Any, rows: int) -> list[int]:
    if not meta.num_spec_decodes:
        return []
    mask = getattr(meta, "spec_sequence_masks_cpu", None)
    if mask is None:
        mask = meta.spec_sequence_masks
    if mask is None:
        return list(range(min(meta.num_spec_decodes, rows)))
    return [row for row, is_spec in enumerate(mask.tolist()[:rows]) if is_spec]
