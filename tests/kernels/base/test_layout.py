"""Layouts: where every byte is, and which shapes are refused."""

import msgspec
import pytest

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec

CONV, TEMPORAL = StateSpec("conv", 5, 2), StateSpec("temporal", 19)
GROUPS = (
    GroupSpec("attention", 4, kv_bytes=9),
    GroupSpec("recurrent", 8, (CONV, TEMPORAL)),
    GroupSpec("recurrent", 8, (TEMPORAL,)),
)


def test_a_page_holds_the_largest_group_and_the_padding():
    layout = Layout(GROUPS, layers=2, num_blocks=6, num_drafts=2, page_padding=7, base_offset=3)
    assert layout.width == 5
    assert layout.page_bytes == 5 * 10 + 19 + 7
    assert layout.pool_bytes == 3 + 2 * 6 * layout.page_bytes
    assert layout.page_start(1, 2) == 3 + (6 + 2) * layout.page_bytes
    assert Layout(GROUPS[:1], 1, 2, 0).page_bytes == 36


def test_states_are_flattened_group_by_group_layer_by_layer():
    layout = Layout(GROUPS, layers=2, num_blocks=6, num_drafts=2)
    assert layout.recurrent_groups == (1, 2)
    assert layout.attention_groups == (0,)
    assert [(e.group, e.group_index, e.layer, e.state) for e in layout.states] == [
        (1, 0, 0, 0),
        (1, 0, 0, 1),
        (1, 0, 1, 0),
        (1, 0, 1, 1),
        (2, 1, 0, 0),
        (2, 1, 1, 0),
    ]
    assert [(e.offset, e.conv_width, e.data_bytes) for e in layout.states[:2]] == [(0, 5, 50), (50, 0, 19)]


def test_a_layout_survives_json():
    layout = Layout(GROUPS, layers=2, num_blocks=6, num_drafts=2, conv_layout="DS")
    assert msgspec.json.decode(msgspec.json.encode(layout), type=Layout) == layout
    assert hash(layout) == hash(msgspec.json.decode(msgspec.json.encode(layout), type=Layout))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StateSpec("temporal", 7), "holds 7 bytes; expected at least 8; raise dim or elem_size"),
        (lambda: StateSpec("conv", 7, 3), "elem_size is 3; expected 1, 2, 4 or 8"),
        (lambda: StateSpec("kv", 8), "state kind is 'kv'; expected 'conv' or 'temporal'"),
        (lambda: GroupSpec("recurrent", 4), "has no states; expected at least one"),
        (lambda: GroupSpec("attention", 4, (CONV,)), "has 1 states; expected none; use kv_bytes"),
        (lambda: GroupSpec("attention", 4, kv_bytes=7), "kv_bytes is 7; expected at least 8"),
        (lambda: GroupSpec("attention", 0), "block_size is 0; expected at least 1"),
        (lambda: Layout((), 1, 4, 0), "has no groups"),
        (lambda: Layout(GROUPS, 1, 1, 0), "num_blocks is 1; expected at least 2"),
        (lambda: Layout(GROUPS, 1, 4, -1), "num_drafts is -1; expected at least 0"),
        (lambda: Layout(GROUPS, 1, 4, 0, conv_layout="XY"), "conv_layout is 'XY'; expected 'SD' or 'DS'"),
        (
            lambda: Layout((*GROUPS, GroupSpec("recurrent", 4, (CONV,))), 1, 4, 0),
            r"block sizes \[4, 8\]; expected one size",
        ),
        (lambda: Layout(GROUPS[:1], 1, 4, 0).recurrent_block_size, "has no recurrent group"),
    ],
)
def test_a_refusal_names_value_and_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()
