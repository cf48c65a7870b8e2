"""The oracle finds what is planted: each test breaks one thing in a healthy system and names what must be seen."""

from collections.abc import Callable

import numpy as np
import pytest

from stalerow.kernels.align import kernels as align_module
from stalerow.kernels.sets import KernelSet, kernel_set
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.rank.policy import RankPolicy
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.generate import from_seed

HEALTHY = kernel_set("reference:req-idx")


class Wrapped(align_module.ReferenceAlign):
    """The correct align kernels with one method that a test replaces."""

    def __init__(self) -> None:
        super().__init__(True)


def search(
    kernels: KernelSet = HEALTHY, policy: type[RankPolicy] = RankPolicy, seeds: range = range(60), pp: int | None = None
) -> list[Violation]:
    """First violations over some seeds; empty if nothing was found."""
    found = []
    for seed in seeds:
        outcome = run(from_seed(seed, pp, "v2"), kernels, rank_policy=policy)
        found += list(outcome.violations[:1])
    return found


def with_align(**methods: Callable[..., None]) -> KernelSet:
    align = Wrapped()
    for name, method in methods.items():
        original = getattr(align, name)
        setattr(align, name, lambda *a, _m=method, _o=original: _m(_o, *a))
    return HEALTHY._replace(name="planted", align=align)


def test_a_skipped_precopy_is_seen() -> None:
    found = search(with_align(precopy=lambda original, *a: None))
    assert found
    assert all(v.launch == "precopy" for v in found)


def test_a_skipped_postprocess_is_seen() -> None:
    found = search(with_align(postprocess=lambda original, *a: None))
    assert any(v.launch == "postprocess" for v in found)


def test_one_flipped_byte_anywhere_in_the_pool_is_seen() -> None:
    def flip(original, slots, binding, idx_mapping, num_rows):
        original(slots, binding, idx_mapping, num_rows)
        binding.pool.array[-1] ^= 1

    assert len(search(with_align(precopy=flip), seeds=range(5))) == 5


def test_a_copy_that_moves_the_page_padding_too_is_seen() -> None:
    def whole_page(original, slots, binding, idx_mapping, num_rows):
        original(slots, binding, idx_mapping, num_rows)
        pages = binding.pool.pages(binding.pool.array)
        table = binding.copy_tables[0]
        for slot in idx_mapping[:num_rows].tolist():
            if slot >= 0 and 0 <= slots.src_col[slot] != slots.state_idx[slot]:
                pages[:, table[slot, slots.state_idx[slot]]] = pages[:, table[slot, slots.src_col[slot]]]

    assert search(with_align(precopy=whole_page))


@pytest.mark.parametrize("column", [1, -1])
def test_a_wrong_running_column_is_seen(column: int) -> None:
    def shifted(original, slots, idx_mapping, qsl, num_rows, block_size):
        original(slots, idx_mapping, qsl, num_rows, block_size)
        live = idx_mapping[:num_rows]
        slots.state_idx[live[live >= 0]] += column

    assert search(with_align(preprocess=shifted), seeds=range(10))


def test_wrong_state_indices_are_seen() -> None:
    def rotated(original, binding, seq_lens, rows, block_size, out):
        original(binding, seq_lens, rows, block_size, out)
        out[:] = np.roll(out, 1, axis=1)

    assert search(with_align(aligned_indices=rotated), seeds=range(20))


class NoGenerationCheck(RankPolicy):
    def excluded(self, entry, generation):
        return ~entry.needs_output


class StaleAccepted(RankPolicy):
    def seed_accepted(self, new):
        return None


class IgnoresRejection(RankPolicy):
    def rejected(self, num_rejected, is_last):
        return num_rejected if is_last else np.zeros_like(num_rejected)


class NoZeroing(RankPolicy):
    def blocks_to_zero(self, step):
        return ()


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [
        (
            NoGenerationCheck,
            {"stale slot", "rank divergence", "cross-request copy", "use after free", "wrong position"},
        ),
        (StaleAccepted, {"stale slot", "wrong position", "torn copy"}),
        (IgnoresRejection, {"rank divergence", "wrong position", "stale slot"}),
        (NoZeroing, {"use after free", "uninitialised read"}),
    ],
)
def test_a_worker_that_skips_a_check_is_seen(policy: type[RankPolicy], kinds: set[str]) -> None:
    found = search(policy=policy, seeds=range(150), pp=2)
    assert found, "nothing was found"
    assert {v.kind for v in found} <= kinds


def test_the_healthy_system_is_clean_on_the_same_schedules() -> None:
    assert search(seeds=range(60)) == []
