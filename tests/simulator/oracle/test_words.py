"""What users read about a violation: the kind, and one sentence with the right blocks, rows, reasons and bytes.

`words.txt` holds the first violation of every scenario. The situations below it are planted into a small schedule.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stalerow.kernels.align.kernels import ReferenceAlign
from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.kernels.sets import kernel_set
from stalerow.scenarios import Scenario, catalogue
from stalerow.simulator.faults.base import Wrapped
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.run.outcome import run
from stalerow.simulator.schedule.values import Limits, Pipeline, Request, Schedule, validate

HEALTHY = kernel_set("reference:req-idx")
SNAPSHOT = Path(__file__).with_name("words.txt")
SCENARIOS = [s for s in catalogue().values() if s.status == "modelled"]
CONV, TEMPORAL = StateSpec("conv", 4, 2), StateSpec("temporal", 8, 2)


def snapshots() -> dict[str, str]:
    return dict(re.findall(r"^\[([\w-]+)\]\n(.*)$", SNAPSHOT.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_scenario_is_told_in_these_words(scenario: Scenario) -> None:
    assert scenario.schedule is not None
    first = scenario.resolve().run(scenario.schedule, kernel_set(scenario.kernels)).violations[0]
    assert f"{first.kind}: {first.explanation}" == snapshots()[scenario.name]


def schedule(*prompts: int, drafts: int = 2, pp: int = 2, states=(CONV, TEMPORAL), **limits: Any) -> Schedule:
    """Requests with prompts of so many tokens that go on together; drafts are accepted, so boundaries are crossed."""
    groups = (GroupSpec("recurrent", 4, states=states), GroupSpec("attention", 4))
    return validate(
        Schedule(
            pipeline=Pipeline(pp=pp, drafts=drafts),
            layout=Layout(groups=groups, layers=1, num_blocks=60, num_drafts=drafts),
            limits=Limits(max_model_len=64, **limits),
            requests=tuple(
                Request(id=f"r{i}", prompt_len=prompt, max_tokens=20, stream=i, accepted=(drafts,))
                for i, prompt in enumerate(prompts)
            ),
        )
    )


class Planted(ReferenceAlign):
    """The correct align kernels; `plant` replaces one of them and is given the original first."""

    def __init__(self, method: str, plant: Callable[..., None]) -> None:
        super().__init__(True)
        original = getattr(self, method)
        setattr(self, method, lambda *args: plant(original, *args))


def first(made: Schedule, method: str, plant: Callable[..., None]) -> Violation:
    outcome = run(made, HEALTHY._replace(name="planted", align=Planted(method, plant)))
    assert outcome.violations, "nothing was found"
    return outcome.violations[0]


def copy_page(binding: Any, source: int, target: int) -> None:
    pages = binding.pool.pages(binding.pool.array)
    pages[:, target] = pages[:, source]


def test_a_copy_within_the_only_request_does_not_cross_requests() -> None:
    def unasked(original, slots, binding, idx_mapping, num_rows, *rest):
        original(slots, binding, idx_mapping, num_rows, *rest)
        row = binding.copy_tables[0][int(idx_mapping[0])]
        if slots.state_idx[idx_mapping[0]] == 1:
            copy_page(binding, int(row[0]), int(row[2]))

    found = first(schedule(3), "precopy", unasked)
    assert found.kind == "wrong position"
    assert "copied block 1 (r0 (group 0, column 0)) to block 3 (r0 (group 0, column 2))" in found.explanation
    assert "no copy between them was meant; looked up in slot" in found.explanation


def test_a_copy_between_two_requests_that_nobody_asked_for_crosses_them() -> None:
    def unasked(original, slots, binding, idx_mapping, num_rows, *rest):
        original(slots, binding, idx_mapping, num_rows, *rest)
        if num_rows == 2:
            mine, theirs = (binding.copy_tables[0][int(slot)] for slot in idx_mapping[:2])
            copy_page(binding, int(mine[0]), int(theirs[0]))

    assert first(schedule(3, 4), "precopy", unasked).kind == "cross-request copy"


def test_a_wrong_bias_is_named_and_not_the_right_blocks() -> None:
    def shifted(original, slots, binding, idx_mapping, num_rows, *rest):
        slots.src_off[...] = np.maximum(slots.src_off - 1, 0)
        original(slots, binding, idx_mapping, num_rows, *rest)

    found = first(schedule(3, states=(CONV,)), "precopy", shifted)
    assert found.kind == "wrong position"
    assert "r0's window was meant to be shifted by 2 rows" in found.explanation
    assert ", shifted by 1 row, to block" in found.explanation
    assert "meant to copy" not in found.explanation


def test_the_null_block_is_named_when_it_is_written() -> None:
    def to_null(original, slots, binding, idx_mapping, num_rows, *rest):
        original(slots, binding, idx_mapping, num_rows, *rest)
        copy_page(binding, int(binding.copy_tables[0][int(idx_mapping[0])][0]), 0)

    found = first(schedule(3), "precopy", to_null)
    assert found.kind == "null block write"
    assert "to block 0 (nobody (the null block))" in found.explanation


def test_a_masked_row_is_called_masked() -> None:
    batches: list[np.ndarray] = []

    def remembers(original, slots, idx_mapping, *rest):
        batches.append(np.array(idx_mapping))
        original(slots, idx_mapping, *rest)

    def unmasked(original, slots, binding, idx_mapping, num_rows, *rest):
        masked = np.flatnonzero(idx_mapping[:num_rows] < 0)
        original(slots, binding, idx_mapping, num_rows, *rest)
        for row in masked:
            for batch in batches:
                table = binding.copy_tables[0][int(batch[row])]
                if batch[row] >= 0 and table[0] and table[1]:
                    copy_page(binding, int(table[0]), int(table[1]))
                    return

    align = Planted("postprocess", unmasked)
    preprocess = align.preprocess
    align.preprocess = lambda *args: remembers(preprocess, *args)  # type: ignore[method-assign]
    made = schedule(3, 20, max_num_batched_tokens=8)
    outcome = run(made, HEALTHY._replace(name="planted", align=align))
    texts = [v.explanation for v in outcome.violations if v.launch == "postprocess"]
    assert any(", masked)" in text for text in texts), texts


def test_what_overtook_what_is_named() -> None:
    text = snapshots()["early-free"]
    assert "is still queued: it overtook deferred post_update of step 4 and 2 more operations" in text


def test_a_padded_row_is_named_with_the_bytes_it_left() -> None:
    text = snapshots()["dirty-rows"]
    assert "left 144 bytes from 0 to 143 of block 4" in text
    assert "padded row 1 names the block" in text


def test_the_block_that_a_forward_read_is_named_beside_the_right_one() -> None:
    def rotated(original, binding, seq_lens, rows, block_size, out):
        original(binding, seq_lens, rows, block_size, out)
        if seq_lens[0] == 6:
            out[0, :2] = out[0, 1::-1].copy()

    outcome = run(schedule(3, 4), HEALTHY._replace(name="planted", align=Planted("aligned_indices", rotated)))
    named, *others = outcome.violations
    assert (named.kind, named.launch) == ("cross-request copy", "indices")
    text = (
        "indices of step 3 on rank 0 names block 7 (r1 (group 0, column 1)) for row 0 (r0) after 0 drafts; its own is"
    )
    assert text in named.explanation
    read = next(v for v in others if v.launch == "forward")
    assert read.kind == "cross-request copy"
    assert "reads row 0's state, r0's after 3 tokens, from block" in read.explanation
    assert "(r1 (group 0, column 1)), which holds r1 after 4 tokens; the state is in block" in read.explanation


def test_a_count_that_shifts_a_window_is_told_as_a_shift() -> None:
    def counts(original, slots, binding, idx_mapping, num_rows, *rest):
        original(slots, binding, idx_mapping, num_rows, *rest)
        live = idx_mapping[:num_rows]
        slots.num_accepted[live[live >= 0]] += 1

    made = schedule(3, states=(CONV,))
    outcome = run(made, HEALTHY._replace(name="planted", align=Planted("precopy", counts)))
    reads = [v for v in outcome.violations if "reads row 0's state" in v.explanation]
    assert reads[0].explanation.endswith("; the shift should be 0 rows")
    assert ", shifted by 1 row, which holds" in reads[0].explanation


def test_foreign_attention_kv_names_its_block_and_column() -> None:
    class Swapped(Wrapped):
        def gather(self, tables, *rest):
            self.inner.gather(tables, *rest)
            table = tables.gathered[1]
            if table[1, 0] and table[0, 2]:
                table[:2] = table[1::-1].copy()

    outcome = run(schedule(3, 4), HEALTHY._replace(name="planted", ops=Swapped(HEALTHY.ops)))
    found = next(v for v in outcome.violations if "attention KV" in v.explanation)
    assert found.kind == "cross-request copy"
    assert "reads attention KV of r0 (row 0, layer 0) from block" in found.explanation
    assert "in column 0; its own is block" in found.explanation


def test_one_flipped_byte_is_told_by_its_place() -> None:
    def flip(original, slots, binding, idx_mapping, num_rows, *rest):
        original(slots, binding, idx_mapping, num_rows, *rest)
        binding.pool.array[-1] ^= 1

    found = first(schedule(3), "precopy", flip)
    assert (found.kind, found.launch) == ("use after free", "precopy")
    assert "left block 59 (nobody (a free block))" in found.explanation
