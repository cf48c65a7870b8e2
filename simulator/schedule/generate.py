"""A schedule from choices: the one generator behind seeds and Hypothesis.

Every choice goes through a `Chooser`, and the first option is always the simplest, so that shrinking a list of
choices shrinks the schedule. What there may be several of (requests, holds) is drawn as a count, whose options grow
by one at most, and then one part each: a shrinker lowers the count and leaves out a part. The same seed gives the
same requests at every pipeline size and under both runners.

A seed draws every feature from a stream of its own, keyed by the label. To draw another feature: pick it anywhere
under a label that no other pick has (within a request or a hold, one that begins with its name), the simple answer
first, and without asking another label more or less often than before. Seeds for which the simple answer comes out
then stand for the same schedule as before. Options of an existing feature that may become more (releases, say) are
drawn with `named`: only seeds that get a new option change. `tests/simulator/schedule/test_seed_stability.py` holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, assert_never

import msgspec

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.engine.config import DraftRanges, SchedulingPolicy
from stalerow.simulator.schedule.choices import Choices
from stalerow.simulator.schedule.choosers import Chooser
from stalerow.simulator.schedule.choosers.family import seeded
from stalerow.simulator.schedule.choosers.swarm import SwarmChooser
from stalerow.simulator.schedule.draw import Draw, Runner
from stalerow.simulator.schedule.faithful import as_faithful
from stalerow.simulator.schedule.order import Hold, Interleaving, Order
from stalerow.simulator.schedule.rules import Rule
from stalerow.simulator.schedule.rules.pct import Priorities
from stalerow.simulator.schedule.rules.pos import PartialOrder
from stalerow.simulator.schedule.rules.uniform import Uniform
from stalerow.simulator.schedule.values import (
    PROFILES,
    WITH_RUNNER_V1,
    Abort,
    Limits,
    Pipeline,
    Request,
    Reset,
    Schedule,
    actors,
    validate,
    with_profile,
)
from stalerow.simulator.schedule.widen import widen

PP_SIZES = (2, 4, 2, 3, 1)
MAX_REQUESTS = 7
LONG_BLOCKS = (0,) * 76 + (8, 12, 24, 40)
"""Blocks by which a prompt may be longer; few are, since each costs dozens of steps."""
PHASES: tuple[Literal["pre_schedule", "pre_update"], ...] = ("pre_schedule", "pre_update")
ORDER_LABELS = ("order", "hold", "pct")
"""How the labels begin under which the order of events is drawn: first its kind, for a planned one then its holds."""
OrderKind = Literal["planned", "uniform", "pct", "pos"]
ORDERS: tuple[OrderKind, ...] = ("planned", "planned", "pct", "pos", "pct", "uniform")
"""Kinds by their shares. `tests/bench/schedules_needed.py` measures what each finds alone: the canonical order misses
what the others find at once, and no kind is ahead of all of them together."""
WIDE_WINDOW = 64
"""Channels with which two tokens of a window are more than the 256 bytes that a warp copies at once."""
HOLDS = (0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8)


def from_draw(draw: Draw) -> Schedule:
    """The schedule that a draw stands for."""
    schedule = generate(chooser_of(draw), draw.pp, draw.runner)
    return msgspec.structs.replace(as_asked(schedule, draw), draw=draw)


def chooser_of(draw: Draw) -> Chooser:
    """What makes the draw's choices."""
    chooser = seeded(draw.seed, draw.family)
    return chooser if draw.swarm is None else SwarmChooser(chooser, draw.swarm)


def as_asked(schedule: Schedule, draw: Draw) -> Schedule:
    """A generated schedule (or a candidate in shrinking one) under the draw's profile, and faithful if it asks so."""
    if draw.profile is not None:
        schedule = with_profile(schedule, draw.profile)
    if draw.faithful:
        schedule = as_faithful(schedule, keep_runner=draw.runner is not None)
    return interleaved(schedule, draw.seed) if draw.interleave else schedule


def interleaved(schedule: Schedule, seed: int) -> Schedule:
    """With the programs of its launches interleaved, as drawn with `seed` if no lags are given, and wide windows."""
    order, layout = schedule.order, schedule.layout
    if order.lags is msgspec.UNSET:
        order = msgspec.structs.replace(order, threads=Interleaving(seed=seed))
    groups = tuple(msgspec.structs.replace(g, states=tuple(map(_wide, g.states))) for g in layout.groups)
    return validate(
        msgspec.structs.replace(schedule, order=order, layout=msgspec.structs.replace(layout, groups=groups))
    )


def _wide(state: StateSpec) -> StateSpec:
    """A window of several warps, so that it can tear between them."""
    return msgspec.structs.replace(state, dim=max(state.dim, WIDE_WINDOW)) if state.kind == "conv" else state


def from_seed(seed: int, pp: int | None = None, runner: Runner | None = None) -> Schedule:
    """The schedule of a seed; `pp` and `runner` override what it would choose."""
    return from_draw(Draw(seed, pp=pp, runner=runner))


def genuine(schedule: Schedule) -> bool:
    """Whether the schedule's draw makes this very schedule: it may have been edited since."""
    return schedule.draw is not None and from_draw(schedule.draw) == schedule


def generate(chooser: Chooser, pp: int | None = None, runner: Runner | None = None) -> Schedule:
    """Draw a valid schedule."""
    draw = Choices(chooser)
    chosen_pp = draw.of(PP_SIZES, "pp")
    chosen_runner: Runner = "v1" if draw.chance(10, "runner") else "v2"
    pp, runner = pp or chosen_pp, runner or chosen_runner
    drafts = draw.of((1, 2, 3, 4, 2, 1, 4, 0), "drafts")
    pipeline = Pipeline(
        pp=pp,
        drafts=drafts,
        async_scheduling=runner == "v2",
        runner=runner,
        profile=draw.named(PROFILES if runner == "v2" else WITH_RUNNER_V1, "profile"),
        drafter="ngram" if drafts and draw.chance(12, "n-gram drafter") else "mtp",
        drafts_per_batch_size=_draft_ranges(draw, drafts),
    )
    # A decode step that spans more than one block makes the engine relocate a block that is still in use.
    block_size = draw.of([b for b in (4, 8, 16) if b > drafts], "block size")
    policy: SchedulingPolicy = "priority" if draw.chance(8, "priorities") else "fcfs"
    requests, aborts = _requests(draw, drafts, block_size, policy)
    limits = _limits(draw, drafts, block_size, requests, policy)
    layout = _layout(draw, drafts, block_size, limits, requests)
    resets = _resets(draw, preempting=runner == "v2" or pp == 1)
    order = _order(draw, pp)
    simple = Schedule(
        pipeline=pipeline,
        layout=layout,
        limits=limits,
        requests=requests,
        aborts=aborts,
        resets=resets,
        order=order,
    )
    return validate(widen(chooser, simple))


def _requests(
    draw: Choices, drafts: int, block_size: int, policy: SchedulingPolicy
) -> tuple[tuple[Request, ...], tuple[Abort, ...]]:
    count = draw.between(1, MAX_REQUESTS, "requests")
    shared = draw.of((0, 2, 3), "shared prefix blocks") * block_size
    requests: list[Request] = []
    aborts: list[Abort] = []
    for i in range(count):
        arrival = requests[-1].arrival if requests else 1
        one = partial(
            _request,
            i=i,
            arrival=arrival,
            drafts=drafts,
            block_size=block_size,
            shared=shared,
            priorities=policy == "priority",
        )
        request, its_aborts = draw.part(one)
        requests.append(request)
        aborts += its_aborts
    return tuple(requests), tuple(aborts)


def _request(
    draw: Choices, *, i: int, arrival: int, drafts: int, block_size: int, shared: int, priorities: bool
) -> tuple[Request, list[Abort]]:
    """Request number `i` and its abort, if it has one."""
    name = f"r{i}"
    arrival += draw.of((0, 0, 1, 2, 5) if i else (0,), f"{name} arrival gap")
    prompt = draw.between(1, 3 * block_size + 2, f"{name} prompt")
    share = None
    if shared and draw.chance(2, f"{name} shares"):
        prompt = max(prompt, draw.between(shared, shared + block_size + 1, f"{name} prompt past prefix"))
        share = (1000, shared)
    blocks, outputs = draw.of(LONG_BLOCKS, f"{name} long prompt"), 0
    if blocks:
        prompt += blocks * block_size
        outputs = draw.of((0, 20, 48), f"{name} long output")
    accepted = tuple(
        min(draw.of((drafts, 0, 1, drafts, 2), f"{name} accepted"), drafts)
        for _ in range(draw.between(1, 4, f"{name} acceptance pattern"))
    )
    max_tokens = draw.between(1, 14, f"{name} max tokens") + outputs
    request = Request(
        id=name,
        arrival=arrival,
        prompt_len=prompt,
        max_tokens=max_tokens,
        stop=draw.of((0,) * 14 + (min(3, max_tokens), (max_tokens + 1) // 2), f"{name} stop"),
        stream=draw.of((i, 0), f"{name} stream"),
        cache_salt=draw.of(("",) * 10 + ("salt",), f"{name} cache salt"),
        priority=draw.of((0, 0, 1, 2), f"{name} priority") if priorities else 0,
        skip_reading_prefix_cache=draw.chance(12, f"{name} skips cache reads"),
        share=share,
        accepted=accepted,
    )
    aborts = []
    if draw.chance(6, f"{name} abort"):
        step = arrival + draw.between(1, 16, f"{name} abort step")
        phase = draw.of(PHASES, f"{name} phase")
        aborts.append(Abort(request=request.id, step=step, phase=phase))
    return request, aborts


def _draft_ranges(draw: Choices, drafts: int) -> DraftRanges:
    """Fewer drafts, or none, where more rows share a step."""
    if not drafts or not draw.chance(10, "drafts per batch size"):
        return ()
    alone, fewer = draw.between(1, 2, "rows with all drafts"), draw.between(0, drafts - 1, "drafts of larger batches")
    return (1, alone, drafts), (alone + 1, 64, fewer)


def _resets(draw: Choices, preempting: bool) -> tuple[Reset, ...]:
    """Resets of the prefix cache, most of them with requests running if `preempting`."""
    if not draw.chance(10, "cache reset"):
        return ()
    steps = sorted(draw.between(2, 24, f"cache reset {i} step") for i in range(draw.between(1, 2, "cache resets")))
    idle = {step for step in steps if draw.chance(5, f"cache reset at {step} idle")}
    return tuple(Reset(step=step, running=preempting and step not in idle) for step in steps)


def _limits(
    draw: Choices, drafts: int, block_size: int, requests: Sequence[Request], policy: SchedulingPolicy
) -> Limits:
    longest = max(r.prompt_len + r.max_tokens for r in requests)
    threshold = draw.of((0,) * 10 + (block_size, block_size + 3), "chunk threshold")
    if drafts and draw.chance(20, "chunks of a few tokens"):
        threshold = draw.between(1, drafts, "short chunk threshold")
    window = draw.of((0,) * 16 + (2, 4), "window of admission")
    return Limits(
        max_num_seqs=draw.of((4, 3, 2, 6), "max_num_seqs"),
        max_num_batched_tokens=max(draw.of((64, 16, 24, 32), "token budget"), block_size + drafts + 1),
        max_model_len=longest + drafts + 2,
        retention_interval=draw.of((0, None, block_size, 2 * block_size), "retention"),
        graph_sizes=draw.of(((), (4,), (2, 4, 8)), "graph sizes"),
        long_prefill_token_threshold=threshold,
        long_prefill_token_threshold_adaptive=threshold > 0 and draw.chance(3, "adaptive chunk threshold"),
        max_num_active_seqs=draw.of((None,) * 10 + (1, 2), "active requests"),
        reserve_full_isl=not draw.chance(8, "admission without reservation"),
        watermark=draw.of((0.0,) * 10 + (0.05, 0.2), "watermark"),
        shared_prefix_checkpoint=draw.chance(10, "shared-prefix checkpoints"),
        lookahead_hashes=not draw.chance(12, "look-ahead hashes off"),
        policy=policy,
        prefill_schedule_interval=draw.of((1,) * 10 + (2, 4), "prefill interval"),
        cache_aware_admission_window=window,
        cache_aware_admission_threshold=draw.of((0.5, 0.0, 0.2, 0.0), "admission threshold") if window else 0.5,
    )


def _layout(draw: Choices, drafts: int, block_size: int, limits: Limits, requests: Sequence[Request]) -> Layout:
    conv = StateSpec("conv", draw.of((4, 5, 9), "conv dim"), draw.of((2, 4), "conv element"))
    temporal = StateSpec("temporal", draw.of((8, 13, 11), "temporal dim"), draw.of((2, 1, 4), "temporal element"))
    shapes = ((conv, temporal), (temporal,), (conv,), (conv, temporal, temporal))
    recurrent = [
        GroupSpec("recurrent", block_size, states=draw.of(shapes, "states"))
        for _ in range(draw.of((1, 2, 2, 3), "recurrent groups"))
    ]
    groups = (*recurrent, GroupSpec("attention", block_size, kv_bytes=draw.of((8, 9), "kv bytes")))
    longest = max(r.prompt_len + r.max_tokens for r in requests) + drafts + 1
    attention = -(-longest // block_size) + 1
    single = attention + len(recurrent) * (drafts + 8)
    extra = draw.of((4, 1, 2, 0), "pool slack") * single // 2
    return Layout(
        groups=groups,
        layers=draw.of((1, 2), "layers"),
        num_blocks=1 + single + extra,
        num_drafts=drafts,
        conv_kernel=draw.of((4, 2, 3), "conv kernel"),
        conv_layout=draw.of(("SD", "DS"), "conv layout"),
        page_padding=draw.of((0, 8, 3), "page padding"),
        base_offset=draw.of((0, 1, 4), "base offset"),
    )


def _order(draw: Choices, pp: int) -> Order:
    kind = draw.of(ORDERS, "order kind")
    if kind != "planned":
        return Order(rule=_rule(draw, kind))
    names = [a for a in actors(pp) if a != "engine"]
    holds: list[Hold] = []
    for i in range(draw.of(HOLDS, "holds")):
        at = holds[-1].at if holds else 0
        holds.append(draw.part(partial(_hold, i=i, at=at, names=names)))
    return Order(holds=tuple(holds))


def _rule(draw: Choices, kind: Literal["uniform", "pct", "pos"]) -> Rule:
    seed = draw.between(0, (1 << 32) - 1, "order seed")
    match kind:
        case "uniform":
            return Uniform(seed=seed)
        case "pct":
            return Priorities(seed=seed, depth=draw.between(1, 5, "pct depth"))
        case "pos":
            return PartialOrder(seed=seed)
        case _:
            assert_never(kind)


def _hold(draw: Choices, *, i: int, at: int, names: Sequence[str]) -> Hold:
    at += draw.between(1, 120, f"hold {i} gap")
    length = draw.of((1, 4, 16, 64), f"hold {i} length")
    return Hold(at=at, actor=draw.of(names, f"hold {i} actor"), decisions=length)
