"""What layers are told about a batch, read back from attention metadata."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec  # noqa: E402, after the skip
from stalerow.simulator.worker.inside.metadata import written_blocks  # noqa: E402, after the skip

LAYOUT = Layout(
    groups=(GroupSpec("recurrent", 4, states=(StateSpec("temporal", 8, 2),)), GroupSpec("attention", 4, kv_bytes=8)),
    layers=2,
    num_blocks=20,
    num_drafts=1,
)
CONTEXT = dict.fromkeys(("r0", "r1", "a0", "a1"))
"""Layers by name, those of a group together."""


def metadata(spec, plain, slots):
    recurrent = SimpleNamespace(
        spec_state_indices_tensor=None if spec is None else torch.tensor(spec, dtype=torch.int32),
        non_spec_state_indices_tensor=None if plain is None else torch.tensor(plain, dtype=torch.int32),
    )
    attention = SimpleNamespace(slot_mapping=torch.tensor(slots, dtype=torch.int64))
    return {"r0": recurrent, "r1": recurrent, "a0": attention, "a1": attention}


@pytest.mark.parametrize(
    ("spec", "plain", "slots", "blocks"),
    [
        ([[0, 0], [-1, -1]], None, [-1, -1], []),
        ([[0, 7], [3, -1]], None, [-1], [3, 7]),
        (None, [5, 0], [-1], [5]),
        (None, [0], [3, 4, 11, 13], [1, 2, 3]),
        ([[9, 2]], [2], [8], [2, 9]),
    ],
)
def test_what_a_dummy_run_writes_is_every_block_that_a_row_or_a_token_points_at(spec, plain, slots, blocks):
    assert written_blocks(metadata(spec, plain, slots), CONTEXT, LAYOUT) == blocks
