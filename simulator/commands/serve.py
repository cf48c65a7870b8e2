"""Serve a workload in closed loop and show what a user would have seen: broken requests, acceptance, lengths, speed."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.commands import display
from stalerow.simulator.commands.options import add_device, add_jobs, add_json, count_of, job_count, positive, ranks
from stalerow.simulator.errors import UsageError
from stalerow.simulator.oracle.explain.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stalerow.simulator.draw.serving_record import Served
    from stalerow.simulator.serve.job import ServeJob
    from stalerow.simulator.serve.report import RunResult
    from stalerow.simulator.serve.workload import ServeRequest

MOST = 1 << 24
MEAN_ACCEPTANCE_LENGTH = 4.45
"""Of a healthy model on random tokens with four drafts, as reported (vLLM #57807); scaled for other draft counts."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernels",
        nargs="+",
        default=["reference:batch-row", "reference:req-idx"],
        metavar="SET",
        help="kernel sets: [reference:]batch-row, [reference:]req-idx, a release (vllm==X), a path",
    )
    _workload(parser.add_argument_group("workload, as vllm bench serve names it"))
    _engine(parser.add_argument_group("engine, as vllm serve names it"))
    model = parser.add_argument_group("model")
    model.add_argument("--acceptance-length", type=float, default=None, metavar="L", help="mean tokens per step to fit")
    model.add_argument(
        "--acceptance-rates", type=float, nargs="+", default=None, metavar="R", help="share of steps accepting draft i"
    )
    model.add_argument("--cost", action="append", default=[], metavar="NAME=N", help="one entry of the cost model anew")
    parser.add_argument("--trace", metavar="FILE", default=None, help="write the run, if it is one, for Perfetto")
    display.add_html(parser, "every run, plots, and the requests that broke,")
    add_json(parser, "serve")
    add_jobs(parser)
    add_device(parser)


def _workload(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--dataset-name", choices=("random", "custom"), default=None, help="default: random")
    group.add_argument("--dataset-path", metavar="FILE", default=None, help="JSON lines of requests (custom)")
    for name, least, default, text in (
        ("--random-input-len", 0, 2048, "mean prompt tokens after the prefix"),
        ("--random-output-len", 1, 1024, "mean answer of a healthy model, tokens"),
        ("--random-prefix-len", 0, 1024, "shared prefix, tokens"),
        ("--num-prompts", 1, 64, "requests"),
        ("--seed", 0, 42, "of lengths, tokens and acceptance"),
    ):
        read = count_of(least, MOST)
        group.add_argument(name, type=read, default=default, metavar="N", help=f"{text} (default: {default})")
    group.add_argument("--random-range-ratio", type=float, default=0.75, metavar="R", help="spread of the lengths, +-R")
    read = count_of(0, MOST)
    group.add_argument("--max-concurrency", type=read, nargs="+", default=[8], metavar="N", help="0: no limit")
    group.add_argument("--request-rate", type=float, default=float("inf"), metavar="R", help="a second; default: inf")
    group.add_argument("--ignore-eos", action="store_true", help="every answer runs to its length")
    group.add_argument("--max-tokens", type=positive, default=None, metavar="N", help="cap of an endless answer")


def _engine(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--pipeline-parallel-size", "-pp", type=ranks, nargs="+", default=[1, 2, 4], metavar="P")
    for name, least, most, default in (
        ("--num-speculative-tokens", 0, 64, 4),
        ("--max-num-seqs", 1, 1 << 14, 256),
        ("--max-num-batched-tokens", 1, MOST, 8192),
        ("--block-size", 1, MOST, 784),
        ("--num-gpu-blocks", 2, MOST, 2000),
    ):
        read = count_of(least, most)
        group.add_argument(name, type=read, default=default, metavar="N", help=f"default: {default}")
    group.add_argument("--async-scheduling", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument("--cudagraph-capture-sizes", type=positive, nargs="+", default=[], metavar="N", help="tokens")
    group.add_argument("--retention", choices=("sparse", "dense"), default="sparse", help="boundary states kept cached")
    group.add_argument("--profile", default="0.32", metavar="V", help="release of the scheduler: 0.32 or 0.33")


def execute(args: argparse.Namespace) -> int:
    from stalerow.simulator.campaign.sweep import run_jobs
    from stalerow.simulator.commands.screen.progress import progress
    from stalerow.simulator.commands.screen.serving import print_serving
    from stalerow.simulator.draw.serving_record import serve_recorded
    from stalerow.simulator.serve.acceptance import from_mean, from_rates
    from stalerow.simulator.serve.costs import with_changes
    from stalerow.simulator.serve.job import ServeJob, serve
    from stalerow.simulator.serve.settings import ServeOptions
    from stalerow.simulator.subject.subject import Subject

    drafts = args.num_speculative_tokens
    if args.acceptance_rates and args.acceptance_length:
        raise UsageError("--acceptance-rates and --acceptance-length say the same thing twice: give one of them")
    if args.acceptance_rates:
        acceptance = from_rates(args.acceptance_rates, drafts)
    else:
        acceptance = from_mean(args.acceptance_length or 1 + (MEAN_ACCEPTANCE_LENGTH - 1) * drafts / 4, drafts)
    requests = _requests(args)
    subjects = [Subject(kernels=name, device=args.device) for name in args.kernels]
    for subject in subjects:
        subject.check()
    jobs = [
        ServeJob(
            subject=subject,
            options=ServeOptions(
                pipeline_parallel_size=pp,
                num_speculative_tokens=drafts,
                max_num_seqs=args.max_num_seqs,
                max_num_batched_tokens=args.max_num_batched_tokens,
                block_size=args.block_size,
                num_gpu_blocks=args.num_gpu_blocks,
                async_scheduling=args.async_scheduling,
                enable_prefix_caching=args.enable_prefix_caching,
                cudagraph_capture_sizes=tuple(args.cudagraph_capture_sizes),
                retention_interval=0 if args.retention == "sparse" else None,
                profile=args.profile,
            ),
            requests=requests,
            acceptance=acceptance,
            costs=with_changes(args.cost),
            max_concurrency=concurrency,
            seed=args.seed,
        )
        for concurrency in args.max_concurrency
        for pp in args.pipeline_parallel_size
        for subject in subjects
    ]
    workers = job_count(args.jobs) if all(k.startswith("reference:") for k in args.kernels) else args.jobs or 1
    _check_memory(jobs, workers)
    if args.trace and len(jobs) > 1:
        raise UsageError(
            f"--trace {args.trace}: is of one run and this makes {len(jobs)}: give one kernel set, one "
            "--pipeline-parallel-size and one --max-concurrency"
        )
    with progress(f"{len(jobs)} runs of {len(requests)} requests", len(jobs)) as advance:
        runs = []
        if args.html or args.trace:
            runs = run_jobs(jobs, workers, partial(serve_recorded, whole=bool(args.trace)), advance)
        results = [run.result for run in runs] or run_jobs(jobs, workers, serve, advance)
    print_serving(results, acceptance.mean_length)
    if args.json:
        _write(args, results)
    if args.html:
        about = (
            f"a healthy model: acceptance length {acceptance.mean_length:.2f}, "
            f"{results[0].healthy_tokens:.0f} output tokens; all times are of virtual time"
        )
        _report(args.html, about, runs)
    if args.trace:
        from stalerow.simulator.commands.screen.results import console
        from stalerow.simulator.draw.trace import trace

        assert runs[0].whole is not None
        display.save(args.trace, trace(runs[0].whole), "trace", console())
    return 0 if all(result.clean for result in results) else 1


def _report(path: str, about: str, runs: Sequence[Served]) -> None:
    """The page of all runs, and one of each beside it."""
    from stalerow.simulator.commands.screen.report import serving
    from stalerow.simulator.commands.screen.results import console
    from stalerow.simulator.commands.screen.serving import PUBLISHED
    from stalerow.simulator.draw.html import page

    out, whole = console(), Path(path)
    pages = [whole.with_stem(f"{whole.stem}-{i}") for i, _ in enumerate(runs, 1)]
    for shown, run in zip(pages, runs, strict=True):
        display.save(str(shown), page([run.shown]), "page", out)
    results = [run.result for run in runs]
    display.save(path, serving(results, about, PUBLISHED, [shown.name for shown in pages]), "page", out)


def _check_memory(jobs: Sequence[ServeJob], workers: int) -> None:
    """Raises `UsageError` if the runs that go on at once do not fit."""
    from stalerow.simulator.run.sizes import check_bytes, needed_bytes
    from stalerow.simulator.serve.workload import longest

    def needed(job: ServeJob) -> int:
        tokens = sum(r.prompt_len + r.max_tokens for r in job.requests)
        return needed_bytes(job.options.schedule(longest(job.requests)), tokens)

    largest = sorted(map(needed, jobs))[-workers:]
    names = "--num-gpu-blocks, --pipeline-parallel-size, --num-prompts, the lengths, or --jobs"
    take = "takes" if len(largest) == 1 else "take"
    check_bytes(sum(largest), f"{counted(len(largest), 'run')} at once {take}", names)


def _requests(args: argparse.Namespace) -> tuple[ServeRequest, ...]:
    from stalerow.simulator.run.sizes import TOKEN_BYTES, check_bytes
    from stalerow.simulator.serve.workload import RandomDataset, read_requests

    custom = args.dataset_path is not None
    if (args.dataset_name or ("custom" if custom else "random")) == "random":
        if custom:
            raise UsageError(f"--dataset-path {args.dataset_path} with --dataset-name random: use custom")
        each = args.random_prefix_len + args.random_input_len + args.random_output_len
        names = "--num-prompts, --random-prefix-len, --random-input-len or --random-output-len"
        check_bytes(args.num_prompts * each * TOKEN_BYTES, "the prompts and answers take", names)
        return RandomDataset(
            num_prompts=args.num_prompts,
            input_len=args.random_input_len,
            output_len=args.random_output_len,
            range_ratio=args.random_range_ratio,
            prefix_len=args.random_prefix_len,
            request_rate=None if args.request_rate == float("inf") else args.request_rate,
            ignore_eos=args.ignore_eos,
            max_tokens=args.max_tokens,
            seed=args.seed,
        ).requests()
    if not custom:
        raise UsageError("--dataset-name custom without --dataset-path: give the file of requests")
    return read_requests(args.dataset_path, args.random_prefix_len, args.ignore_eos, args.max_tokens)


def _write(args: argparse.Namespace, results: list[RunResult]) -> None:
    from stalerow.simulator.commands import answers

    settings = {k: v for k, v in sorted(vars(args).items()) if k not in ("json", "jobs", "device", "whole")}
    settings["request_rate"] = str(settings["request_rate"])  # JSON has no infinity
    answers.write(args, answers.ServeAnswer(settings=settings, runs=tuple(results)))
