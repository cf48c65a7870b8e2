"""The claim itself: which kernel set lets state cross requests, where, and through which launch."""

from collections import Counter

import pytest

from stalerow.kernels.sets import kernel_set
from stalerow.simulator.oracle.kinds import KINDS
from stalerow.simulator.oracle.violations import MARKS
from stalerow.simulator.run.outcome import Outcome, run
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.schedule.generate import from_draw, from_seed

SEEDS = range(60)
BATCH_ROW = kernel_set("reference:batch-row")
REQ_IDX = kernel_set("reference:req-idx")


def outcomes(kernels, pp: int, runner: str) -> list[Outcome]:
    return [run(from_seed(seed, pp, runner), kernels) for seed in SEEDS]


@pytest.mark.parametrize("runner", ["v1", "v2"])
@pytest.mark.parametrize("pp", [1, 2, 4])
def test_slot_lookup_is_clean_everywhere(pp: int, runner: str) -> None:
    assert [v.explanation for o in outcomes(REQ_IDX, pp, runner) for v in o.violations] == []


@pytest.mark.parametrize(("pp", "runner"), [(1, "v2"), (1, "v1"), (2, "v1"), (4, "v1")])
def test_row_lookup_is_clean_without_a_deferred_postprocess(pp: int, runner: str) -> None:
    assert [v.explanation for o in outcomes(BATCH_ROW, pp, runner) for v in o.violations] == []


@pytest.mark.parametrize("pp", [2, 4])
def test_row_lookup_lets_state_cross_out_of_a_deferred_postprocess_on_non_last_ranks(pp: int) -> None:
    firsts = [o.violations[0] for o in outcomes(BATCH_ROW, pp, "v2") if o.violations]
    assert len(firsts) >= len(SEEDS) // 6
    assert all(v.launch == "postprocess" and v.deferred and v.rank < pp - 1 for v in firsts)
    kinds = Counter(v.kind for v in firsts)
    assert kinds.most_common(1)[0][0] == "cross-request copy"
    assert {*kinds} <= {*KINDS}


def test_a_violation_names_blocks_owners_and_a_reason() -> None:
    found = [o for o in outcomes(BATCH_ROW, 2, "v2") if o.violations]
    first = next(o.violations[0] for o in found if o.violations[0].kind == "cross-request copy")
    assert first.target_block >= 0
    assert first.target_owner
    assert first.request
    assert "meant to copy" in first.explanation


def test_damage_reaches_the_last_rank_and_the_output() -> None:
    seen = {v.kind for o in outcomes(BATCH_ROW, 2, "v2") for v in o.violations}
    assert "output divergence" in seen


def test_every_mark_occurs_in_the_first_500_seeds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(500):
        seen.update(run(from_seed(seed), REQ_IDX).marks)
        if all(seen[m] for m in MARKS):
            break
    assert [m for m in MARKS if not seen[m]] == [], "marks that no schedule reached"
    assert {*seen} <= {*MARKS}


@pytest.mark.parametrize(("seed", "family"), [(45, 5), *((seed, seed % 7) for seed in range(60, 90))])
def test_no_operation_of_a_correct_rank_reads_a_later_step_s_staging(seed: int, family: int) -> None:
    schedule = from_draw(Draw(seed, pp=2, runner="v2", family=family))
    assert [v.explanation for v in run(schedule, REQ_IDX).violations] == []
