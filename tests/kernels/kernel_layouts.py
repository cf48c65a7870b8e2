"""Hypothesis strategies of the kernel tests: small layouts of every shape the kernels must survive."""

from __future__ import annotations

from hypothesis import strategies as st

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec


@st.composite
def state_specs(draw) -> StateSpec:
    elem_size = draw(st.sampled_from((1, 2, 4, 8)))
    dim = draw(st.integers(-(-8 // elem_size), max(-(-8 // elem_size), 21 // elem_size)))
    return StateSpec(draw(st.sampled_from(("conv", "temporal"))), dim, elem_size)


@st.composite
def layouts(draw, num_blocks: int = 12, max_drafts: int = 4, min_block: int = 2, attention: bool = True):
    """One to three recurrent groups with one to three states each, zero to two attention groups, odd sizes."""
    block_size = draw(st.integers(min_block, 9))
    recurrent = [
        GroupSpec("recurrent", block_size, tuple(draw(st.lists(state_specs(), min_size=1, max_size=3))))
        for _ in range(draw(st.integers(1, 3)))
    ]
    kv = [
        GroupSpec("attention", draw(st.integers(1, 6)), kv_bytes=draw(st.integers(8, 13)))
        for _ in range(draw(st.integers(0, 2 if attention else 0)))
    ]
    return Layout(
        groups=tuple(draw(st.permutations(recurrent + kv))),
        layers=draw(st.integers(1, 2)),
        num_blocks=num_blocks,
        num_drafts=draw(st.integers(0, max_drafts)),
        conv_kernel=draw(st.integers(2, 5)),
        conv_layout=draw(st.sampled_from(("SD", "DS"))),
        page_padding=draw(st.integers(0, 9)),
        base_offset=draw(st.integers(0, 9)),
    )
