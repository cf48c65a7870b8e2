"""A launch that damages what it may reach is blamed itself: whichever launch it is, whatever it damages, wherever."""

from random import Random
from typing import get_args

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.rank.operations import Operation

from .damaging import blamed, flip_one

HEALTHY = kernel_set("reference:req-idx")
PLACES = [0.0, 0.5, 1.0, *(Random(number).random() for number in range(4))]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place:.2f}")
@pytest.mark.parametrize("kind", get_args(Operation), ids=lambda kind: kind.kind)
def test_a_flipped_byte_is_blamed_on_the_launch_that_flipped_it(kind: type, place: float) -> None:
    operation, found = flip_one(HEALTHY, kind, int(place * 3), place)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]


WRITTEN = [
    ("preprocess", "state_idx"),
    ("preprocess", "num_accepted"),
    ("preprocess", "src_col"),
    ("preprocess", "src_off"),
    ("precopy", "pool"),
    ("aligned_indices", "state_indices"),
    ("postprocess", "pool"),
    ("postprocess", "num_accepted"),
    ("post_update", "num_computed"),
    ("post_update", "total_len"),
    ("post_update", "last_token"),
    ("scatter_accepted", "num_accepted"),
    ("seed_slots", "state_idx"),
    ("seed_slots", "num_accepted"),
    ("seed_slots", "num_computed"),
    ("seed_slots", "total_len"),
    ("gather", "gathered"),
    ("seq_lens", "seq_lens"),
    ("advance_computed", "num_computed"),
    ("fill_accepted", "num_accepted"),
]
"""What each kernel writes: those under test, then the project's own that keep numbers."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("call", "array"), WRITTEN)
def test_a_wrong_byte_is_blamed_on_the_kernel_that_wrote_it(call: str, array: str, seed: int) -> None:
    operation, found = blamed(HEALTHY, call, array, seed)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]
    assert array == "pool" or found[0].request


@pytest.mark.parametrize(("call", "array"), WRITTEN[:8])
def test_so_it_is_of_triton_kernels(call: str, array: str) -> None:
    operation, found = blamed(kernel_set("req-idx"), call, array, 0)
    assert [(v.launch, v.during) for v in found[:1]] == [(operation.kind, operation.step)]
