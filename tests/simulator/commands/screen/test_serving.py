"""Serving runs as a table: rates relative to the row that breaks least, and what users reported of the same bug."""

import re

import msgspec

from stalerow.simulator.commands.screen.serving import PUBLISHED, print_serving
from stalerow.simulator.serve.report import RunResult

HEALTHY = RunResult(
    kernels="reference:req-idx",
    pipeline_parallel_size=2,
    max_concurrency=4,
    num_requests=10,
    stuck=0,
    differing=0,
    inherited=0,
    acceptance_length=3.97,
    output_tokens=40.0,
    healthy_tokens=40.0,
    cached_blocks=12,
    poisoned_blocks=0,
    request_throughput=8.0,
    output_throughput=320.0,
    time_to_first_token=1.0,
    time_per_output_token=1.0,
    inter_token_latency=5.0,
    preemptions=0,
    steps=30,
    duration_s=1.25,
    died="",
    outputs="abcdef0123",
    digest="d",
    memory="m",
    requests=(),
)
BROKEN = msgspec.structs.replace(
    HEALTHY,
    kernels="reference:batch-row",
    stuck=2,
    differing=5,
    inherited=1,
    poisoned_blocks=3,
    request_throughput=4.0,
    inter_token_latency=7.5,
    outputs="fedcba9876",
)


def shown(capsys, *results: RunResult) -> str:
    print_serving(results, 4.0)
    return capsys.readouterr().out


def rows(out: str) -> list[list[str]]:
    """The cells of each run, at every space."""
    return [line.split() for line in out.splitlines() if line.lstrip().startswith("ref:")]


def test_a_run_is_a_row_with_its_rates_relative_to_the_one_that_breaks_least(capsys):
    assert [" ".join(row) for row in rows(shown(capsys, BROKEN, HEALTHY))] == [
        "ref:batch-row 2 4 2 = 20 % 5 3.97 40 3 / 12 1 0.50x 1.50x fedcba",
        "ref:req-idx 2 4 0 = 0 % 0 3.97 40 0 / 12 0 1.00x 1.00x abcdef",
    ]


def test_other_concurrencies_are_not_compared(capsys):
    other = msgspec.structs.replace(BROKEN, max_concurrency=0)
    first, _ = rows(shown(capsys, other, HEALTHY))
    assert first[2] == "-"
    assert first[-3:-1] == ["1.00x", "1.00x"]


def test_what_is_healthy_is_said_below_the_table(capsys):
    out = " ".join(shown(capsys, HEALTHY).split())
    assert "a healthy model: acceptance length 4.00, 40 output tokens." in out


def test_a_run_that_died_or_held_what_it_should_not_says_how(capsys):
    dead = msgspec.structs.replace(BROKEN, died="out of bounds in step 9", held="r1 holds block 4")
    out = shown(capsys, dead)
    assert "reference:batch-row, PP 2: out of bounds in step 9\n" in out
    assert "reference:batch-row, PP 2: r1 holds block 4\n" in out


def test_published_figures_stand_beside_and_say_whose_they_are(capsys):
    _, title, table = shown(capsys, HEALTHY).partition("reported by users of the engine")
    assert title
    for _, figure, before, after in PUBLISHED:
        assert before in table
        assert after in table
        assert re.search(figure.split()[0], table)
