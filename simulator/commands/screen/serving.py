"""The table of serving runs, with what users reported of the same bug below it."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from stalerow.simulator.commands.screen.results import console
from stalerow.simulator.serve.report import RunResult, baseline

PUBLISHED = (
    ("PP 4", "requests stuck in one token", "14 to 33 %", "none"),
    ("PP 2, 2048 random tokens in, 1024 out, concurrency 8", "acceptance length", "3.65", "4.45"),
    ("PP 2, a user's own load", "acceptance length", "1.73", "2.95"),
    ("PP 2, GSM8K, cap 4096", "output tokens per question", "235", "82 (as PP 1)"),
    ("PP 2", "first seen at concurrency", "3", "-"),
)
"""Setting, figure, before and after the fix: vLLM #54173, #55506, #57807. Shown beside results, never fitted to."""

COLUMNS = (
    "PP",
    "conc.",
    "stuck",
    "differ",
    "acc.\nlength",
    "output\ntokens",
    "poisoned\n/ cached",
    "by hit",
    "req/s",
    "ITL",
    "outputs",
)


def print_serving(results: Sequence[RunResult], expected_length: float) -> None:
    """One row a run; throughput and inter-token latency relative to the best run of the same concurrency."""
    out = console()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("kernels", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        table.add_row(*_cells(result, baseline(results, result)), style="" if result.clean else "red")
    out.print(table)
    healthy = results[0].healthy_tokens
    out.print(
        f"a healthy model: acceptance length {expected_length:.2f}, {healthy:.0f} output tokens. stuck: ends in the "
        "token of NaN logits; differ: not the answer that the request gets alone; by hit: broken by a poisoned "
        "prefix; req/s and inter-token latency: relative to the row of the same concurrency that "
        "breaks least; outputs: equal where every answer is.",
        markup=False,
    )
    for result in results:
        if result.held:
            out.print(f"{result.kernels}, PP {result.pipeline_parallel_size}: {result.held}", markup=False)
        if result.died:
            out.print(f"{result.kernels}, PP {result.pipeline_parallel_size}: {result.died}", markup=False)
    _print_published(out)


def _cells(result: RunResult, base: RunResult) -> tuple[str, ...]:
    def ratio(value: float, other: float) -> str:
        return f"{value / other:.2f}x" if other else "-"

    return (
        result.kernels.replace("reference:", "ref:"),
        str(result.pipeline_parallel_size),
        str(result.max_concurrency or "-"),
        f"{result.stuck} = {100 * result.stuck / result.num_requests:.0f} %",
        str(result.differing),
        f"{result.acceptance_length:.2f}",
        f"{result.output_tokens:.0f}",
        f"{result.poisoned_blocks} / {result.cached_blocks}",
        str(result.inherited),
        ratio(result.request_throughput, base.request_throughput),
        ratio(result.inter_token_latency, base.inter_token_latency),
        result.outputs[:6],
    )


def _print_published(out) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="reported by users of the engine", title_justify="left")
    for name in ("setting", "figure", "before the fix", "after"):
        table.add_column(name)
    for row in PUBLISHED:
        table.add_row(*row)
    out.print(table)
