"""What a runner expects of its caller, read from source snippets: one decision changed at a time."""

from pathlib import Path

import pytest

from stalerow.kernels.external import CallingConvention, UnclearCaller, describe

from .synthetic import BATCH_ROW, kernels_text, write_engine


def caller(root: Path, **choices: str) -> CallingConvention:
    return describe(str(write_engine(root, **choices))).caller


def test_a_runner_that_binds_the_persistent_tables(tmp_path: Path) -> None:
    assert caller(tmp_path) == CallingConvention(
        binds="slot",
        binds_when="cache_init",
        indices_bind="row",
        copy_row="slot",
        zero_padding=True,
        clears_dirty_rows=True,
        seed_unit="mamba",
        accepted="snapshot",
        tiles=4,
        ds_conv_with_drafts=True,
        draftless_decode="spec",
        temporal_alignment=1,
    )


def test_a_runner_that_binds_the_gathered_tables(tmp_path: Path) -> None:
    found = caller(tmp_path, **BATCH_ROW)
    assert (found.binds, found.binds_when, found.copy_row) == ("row", "first_use", "row")
    assert (found.seed_unit, found.clears_dirty_rows, found.zero_padding) == ("scheduler", False, True)


@pytest.mark.parametrize(
    ("choices", "field", "value"),
    [
        ({"BOUND_TABLES": "[block_tables.input_block_tables[g] for g in self.groups]"}, "binds", "row"),
        (
            {"BOUND_TABLES": "block_tables=[block_tables.block_tables[g].gpu for g in self.groups]"},
            "binds",
            "slot",
        ),
        ({"BIND_IN": "preprocess_state"}, "binds_when", "first_use"),
        ({"PRECOPY_ROW": "batch_idx"}, "copy_row", "mixed"),
        ({"PRECOPY_ROW": "batch_idx", "POSTPROCESS_ROW": "batch_idx.to(tl.int64)"}, "copy_row", "row"),
        ({"POSTPROCESS_ROW": "req_idx if HAS_IDX_MAPPING else batch_idx"}, "copy_row", "slot"),
        ({"PAD_ROW": "pass"}, "zero_padding", False),
        ({"GATHERED_ROWS": "num_reqs_padded"}, "clears_dirty_rows", False),
        ({"SEED_DIVISOR": "self.cache_config.block_size"}, "seed_unit", "scheduler"),
        ({"TAKE_SNAPSHOT": "pass"}, "accepted", "stale"),
        ({"READ_COUNTS": "counts"}, "accepted", "in_place"),
        ({"READ_COUNTS": "counts", "WRITE_COUNTS": "None"}, "accepted", "in_place"),
    ],
)
def test_one_decision_of_the_source_changes_one_field(
    tmp_path: Path, choices: dict[str, str], field: str, value: object
) -> None:
    assert getattr(caller(tmp_path, **choices), field) == value


def test_a_runner_and_kernels_that_disagree_are_not_reconciled(tmp_path: Path) -> None:
    found = caller(tmp_path, PRECOPY_ROW="batch_idx", POSTPROCESS_ROW="batch_idx")
    assert (found.binds, found.copy_row) == ("slot", "row")


@pytest.mark.parametrize(("choices", "binds"), [({}, "slot"), (BATCH_ROW, "row"), ({"SECOND_TABLES": "*rest"}, "slot")])
def test_a_single_file_is_inferred_and_says_so(tmp_path: Path, choices: dict[str, str], binds: str) -> None:
    file = tmp_path / "mamba_utils.py"
    file.write_text(kernels_text(**choices))
    described = describe(str(file))
    assert described.origin == "file"
    assert described.caller.binds == binds
    how = {fact.name: fact.how for fact in described.facts}
    assert how["copy_row"] == how["accepted"] == how["tiles"] == "read"
    assert how["binds"] == how["binds_when"] == how["seed_unit"] == "inferred"
    assert how["zero_padding"] == "assumed"


def test_a_single_file_whose_kernels_disagree_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mamba_utils.py"
    file.write_text(kernels_text(PRECOPY_ROW="batch_idx", SECOND_TABLES="*rest"))
    with pytest.raises(UnclearCaller, match="look up different rows"):
        describe(str(file))


def test_a_runner_whose_tables_are_not_recognised_is_refused(tmp_path: Path) -> None:
    root = write_engine(tmp_path, BOUND_TABLES="self.everything")
    with pytest.raises(UnclearCaller, match="initialize_from_forward_context"):
        describe(str(root))


def test_a_fact_says_where_it_was_seen_and_prints(tmp_path: Path) -> None:
    described = describe(str(write_engine(tmp_path, **BATCH_ROW)))
    seed = next(fact for fact in described.facts if fact.name == "seed_unit")
    assert seed.where.endswith("mamba_hybrid.py:6")
    assert seed.expression == "(request.num_computed_tokens - 1) // self.cache_config.block_size"
    printed = str(described)
    assert f"seed_unit = scheduler (read at {seed.where}: {seed.expression})" in printed
    assert "token_bias_ptr = slots.src_off" in printed
