"""Workloads: the random dataset's lengths, and files of recorded requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalerow.simulator.errors import UsageError
from stalerow.simulator.serve.workload import RandomDataset, read_requests


def test_random_lengths_stay_in_range_and_count_the_prefix_on_top() -> None:
    made = RandomDataset(num_prompts=200, ignore_eos=True).requests()
    inputs, outputs = [r.prompt_len - 1024 for r in made], [r.output_len for r in made]
    assert 512 <= min(inputs) < 700
    assert 3400 < max(inputs) <= 3584
    assert min(outputs) >= 256
    assert max(outputs) <= 1792
    assert all(r.max_tokens == r.output_len and not r.stops and r.arrival == 0 for r in made)


def test_same_seed_same_requests() -> None:
    assert RandomDataset(seed=3).requests() == RandomDataset(seed=3).requests()
    assert RandomDataset(seed=3).requests() != RandomDataset(seed=4).requests()


def test_request_rate_spreads_arrivals() -> None:
    made = RandomDataset(num_prompts=400, request_rate=10).requests()
    arrivals = [r.arrival for r in made]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] / 1e6 == pytest.approx(40, rel=0.2)


def test_cap_applies_to_answers_that_may_stop() -> None:
    request = RandomDataset(num_prompts=1, output_len=80, range_ratio=0, max_tokens=4096).requests()[0]
    assert (request.output_len, request.max_tokens, request.healthy_len, request.stops) == (80, 4096, 80, True)


def test_recorded_requests_are_sorted_by_arrival(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    path.write_text(
        '{"arrival": 0.5, "prompt_len": 900, "prefix_id": 2, "output_len": 7}\n'
        '\n{"prompt_len": 30, "output_len": 3, "max_tokens": 9}\n'
    )
    late, early = sorted(read_requests(path, 600, False, 50), key=lambda r: -r.arrival)
    assert (late.arrival, late.prefix_id, late.prefix_len, late.max_tokens) == (500_000, 2, 600, 50)
    assert (early.arrival, early.prefix_len, early.max_tokens) == (0, 0, 9)


@pytest.mark.parametrize("text", ["", "{}", '{"prompt_len": 0, "output_len": 1}', '{"prompt_len": 1, "lenght": 1}'])
def test_bad_request_files_are_refused_by_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "traffic.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"traffic\.jsonl"):
        read_requests(path, 0, False, None)
