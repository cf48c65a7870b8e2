"""A released kernel set's calling convention, as decisions of a worker and as layouts that it refuses."""

from types import SimpleNamespace

import msgspec
import pytest

from stalerow.kernels.base.binding import EagerBinder, LazyBinder
from stalerow.kernels.external import CallingConvention
from stalerow.simulator.engine.step import NewRequest
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.rank.released import RefusedLayout, check_layout, worker_policy
from stalerow.simulator.schedule.generate import from_seed

SCHEDULE = from_seed(3, pp=2)
CONVENTION = msgspec.json.decode(
    """{"binds": "slot", "binds_when": "cache_init", "indices_bind": "slot", "copy_row": "slot", "zero_padding": true,
    "clears_dirty_rows": true, "seed_unit": "mamba", "accepted": "snapshot", "tiles": 1, "ds_conv_with_drafts": true,
    "draftless_decode": "spec", "temporal_alignment": 1}""",
    type=CallingConvention,
)


def released(**facts) -> SimpleNamespace:
    return SimpleNamespace(name="vllm==0.0.0", caller=msgspec.structs.replace(CONVENTION, **facts))


def policy(base=RankPolicy, **facts) -> RankPolicy:
    return worker_policy(base, released(**facts))(SCHEDULE)


def test_the_projects_own_kernels_leave_the_worker_as_it_is():
    assert worker_policy(RankPolicy, SimpleNamespace(name="req-idx")) is RankPolicy


@pytest.mark.parametrize(("when", "binder"), [("cache_init", EagerBinder), ("first_use", LazyBinder)])
def test_kernels_are_bound_when_the_release_binds_them(when, binder):
    rank = SimpleNamespace(backend=None, align=SimpleNamespace(reads_slot_tables=True))
    assert type(policy(binds_when=when).binder(rank)) is binder


def test_the_gather_zeroes_what_the_release_zeroes():
    assert policy(zero_padding=True).zero_padding
    assert not policy(zero_padding=False).zero_padding


def test_the_running_column_is_seeded_in_the_releases_unit():
    smallest = min(group.block_size for group in SCHEDULE.layout.groups)
    new = NewRequest("r0", 40, (), 4 * smallest + 1, (), False, 0, 4)
    assert policy(seed_unit="scheduler").seed_column(new, 8 * smallest) == 4
    assert policy(seed_unit="mamba").seed_column(new, 8 * smallest) == 0


def test_a_fault_goes_before_what_the_release_does():
    class Fault(RankPolicy):
        zero_padding = False

    assert not policy(Fault, zero_padding=True).zero_padding
    assert (
        type(policy(Fault).binder(SimpleNamespace(backend=None, align=SimpleNamespace(reads_slot_tables=True))))
        is EagerBinder
    )


def test_layouts_that_the_release_refuses_are_refused_by_name():
    layout = msgspec.structs.replace(SCHEDULE.layout, conv_layout="DS", num_drafts=1)
    check_layout(layout, released())
    with pytest.raises(RefusedLayout, match="refuses the DS conv layout with drafts"):
        check_layout(layout, released(ds_conv_with_drafts=False))
    with pytest.raises(RefusedLayout, match="not aligned to 4096 bytes"):
        check_layout(layout, released(temporal_alignment=4096))
