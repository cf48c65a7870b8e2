"""A workload on which two engines differ, made small by Hypothesis.

In: the workload with its options, and a function that says whether a smaller one still differs. Out: the smallest one
found. Every value of the original is drawn again from "as it was or smaller"; Hypothesis starts from the draws that
give the original and shrinks from there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from stalerow.simulator.conform.driver_setup import DEFAULTS
from stalerow.simulator.conform.workloads import Task
from stalerow.simulator.schedule.choosers.known import KnownFailure, unhurried

BUDGET = 300
"""Workloads to try: bounded by count, so that the result is the same on any machine."""

PLAIN = {
    name: DEFAULTS[name]
    for name in (
        "retention_interval",
        "prefix_match_unit",
        "long_prefill_token_threshold",
        "long_prefill_token_threshold_adaptive",
        "max_num_active_seqs",
        "prefill_schedule_interval",
        "reserve_full_isl",
        "watermark",
        "policy",
        "drafter",
        "drafts_per_batch_size",
        "shared_prefix_ckpt",
        "disable_eagle_block_drop",
        "lookahead_hashes",
        "num_prefill_checkpoint_blocks",
        "prefill_checkpoint_alignment",
        "marks_draft_group",
        "asynchronous",
        "recurrent_specs",
    )
}
"""Options that go back to their plain value if the difference does not need them."""

COUNTS = {"P": 1, "max_num_seqs": 1, "num_blocks": 2}
"""Options that are lowered, with the least value."""


class _Values:
    """What a reduction is drawn from. `first` are the choices that change nothing."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any] | None) -> None:
        self._draw = draw
        self.first: list[int] = []

    def keep(self) -> bool:
        return bool(self._next(st.booleans(), True))

    def up_to(self, value: int, least: int) -> int:
        """From `least` to `value`."""
        return int(self._next(st.integers(least, value), value)) if value > least else value

    def _next(self, strategy: st.SearchStrategy[Any], original: int | bool) -> Any:
        self.first.append(original)
        return original if self._draw is None else self._draw(strategy)


def _reduction(values: _Values, task: Task) -> Task:
    options, workload = task
    reduced = dict(options)
    for name, plain in PLAIN.items():
        if name in options and options[name] != plain and not values.keep():
            reduced[name] = plain
    for name, least in COUNTS.items():
        if name in options:
            reduced[name] = values.up_to(options[name], least)
    requests = [_request(values, r) for r in workload["requests"] if values.keep()]
    known = {f"req:{r['id']}" for r in requests}
    for request in requests:
        share = request.get("share")
        if share and str(share[0]).startswith("req:") and share[0] not in known:
            del request["share"]
    aborts = [{**a, "step": values.up_to(a["step"], 1)} for a in workload.get("aborts", ()) if values.keep()]
    resets = [{**r, "step": values.up_to(r["step"], 1)} for r in workload.get("resets", ()) if values.keep()]
    return reduced, {"requests": requests, "aborts": aborts, "resets": resets}


def _request(values: _Values, request: dict[str, Any]) -> dict[str, Any]:
    reduced = {**request}
    for name in ("arrival", "prompt_len", "max_tokens"):
        reduced[name] = values.up_to(request.get(name, 1), 1)
    if request.get("share") and values.keep():
        reduced["share"] = (request["share"][0], values.up_to(request["share"][1], 1))
    else:
        reduced.pop("share", None)
    for name in ("stop_token_ids", "cache_salt", "skip_reading_prefix_cache", "priority"):
        if request.get(name) and not values.keep():
            del reduced[name]
    return reduced


def reduce(task: Task, differs: Callable[[Task], bool], budget: int = BUDGET) -> tuple[Task, int]:
    """The smallest workload found that differs, and how many were tried; the original if none smaller does."""
    known: dict[str, bool] = {}

    def tried(candidate: Task) -> bool:
        if not candidate[1]["requests"]:
            return False
        key = json.dumps(candidate, sort_keys=True)
        if key not in known:
            known[key] = len(known) < budget and differs(candidate)
        return known[key]

    @st.composite
    def reductions(draw: Any) -> Task:
        return _reduction(_Values(draw), task)

    original = _Values(None)
    _reduction(original, task)
    smallest = task

    @settings(
        database=KnownFailure(original.first),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        deadline=None,
        verbosity=Verbosity.quiet,
        max_examples=1,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @seed(0)  # inside `settings`: a seeded test would lose its database
    @given(reductions())
    def shrinks(candidate: Task) -> None:
        nonlocal smallest
        if tried(candidate):
            smallest = candidate
            raise _Differs

    with contextlib.suppress(_Differs), unhurried():
        shrinks()
    return smallest, min(len(known), budget)


class _Differs(Exception):
    """What Hypothesis takes for the failure to keep."""
