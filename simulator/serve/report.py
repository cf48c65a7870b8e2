"""What a finished serving run showed: broken requests, outputs, cache contents and latencies, as one value.

Outputs are compared with what each request alone would have answered, computed here without engine, ranks or memory.
`job` makes one `RunResult` a run; `commands.screen` prints a table of them; the command writes them as JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from stalerow.kernels.base.device import HostArray
from stalerow.kernels.base.layout import Layout, StateEntry
from stalerow.kernels.base.patterns import pattern, salt
from stalerow.simulator.engine.step import CachedBlock
from stalerow.simulator.serve.model import NAN_TOKEN, Progress, TokenHistory
from stalerow.simulator.serve.serving import Serving

US = 1e6


class RequestResult(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its user saw it. Times in microseconds of virtual time, lengths in tokens.

    `stuck`: the last token delivered came from NaN logits. `differs`: the answer is not the request's own.
    `damaged_at`: answer tokens known when a forward first met damage, -1: never; `inherited`: it was a prefix hit's.
    """

    id: str
    prompt_len: int
    hit_tokens: int
    output_len: int
    healthy_len: int
    finish: str
    stuck: bool
    differs: bool
    damaged_at: int
    inherited: bool
    time_to_first_token: int
    latency: int


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Rates are per second and lengths are means; times in milliseconds; all of virtual time.

    `acceptance_length`: tokens per verification step. `poisoned_blocks` of the `cached_blocks` that the prefix cache
    offers at the end hold something else than their prefix on some rank. `held`: what the engine held without need.
    `outputs`: digest of all answers; `digest`: of what happened, the same on every backend; `memory`: of the pages at
    the end, which is too unless copies collide. `first_damage`: the first step whose forward met damage, and the
    request whose row it was; None if none did.
    """

    kernels: str
    pipeline_parallel_size: int
    max_concurrency: int
    num_requests: int
    stuck: int
    differing: int
    inherited: int
    acceptance_length: float
    output_tokens: float
    healthy_tokens: float
    cached_blocks: int
    poisoned_blocks: int
    request_throughput: float
    output_throughput: float
    time_to_first_token: float
    time_per_output_token: float
    inter_token_latency: float
    preemptions: int
    steps: int
    duration_s: float
    died: str
    held: str = ""
    outputs: str
    digest: str
    memory: str
    first_damage: tuple[int, str] | None = None
    requests: tuple[RequestResult, ...]

    @property
    def clean(self) -> bool:
        return not (self.stuck or self.differing or self.poisoned_blocks or self.died or self.held)


def summarise(serving: Serving, max_concurrency: int, seed: int) -> RunResult:
    """Sum a finished run up. `seed` made its tokens."""
    requests = tuple(_request(serving, p, seed) for p in serving.model.progress.values())
    served = [r for r in requests if r.output_len]
    records = serving.client.records.values()
    end = max((r.last for r in records), default=0)
    gaps = sum(r.deliveries - 1 for r in records if r.deliveries)
    after_first = sum(r.output_len - 1 for r in served)
    waited = sum(r.last - r.first for r in records if r.deliveries)
    tokens = sum(r.output_len for r in served)
    hashed = serving.last_step.hashed if serving.last_step else {}
    poisoned = poisoned_blocks(serving, hashed.items())
    drafting = serving.drafting
    return RunResult(
        kernels=serving.kernels.name,
        pipeline_parallel_size=serving.pp,
        max_concurrency=max_concurrency,
        num_requests=len(requests),
        stuck=sum(r.stuck for r in requests),
        differing=sum(r.differs for r in requests),
        inherited=sum(r.inherited for r in requests),
        acceptance_length=1 + drafting.accepted / drafting.steps if drafting.steps else 1.0,
        output_tokens=tokens / len(requests),
        healthy_tokens=sum(r.healthy_len for r in requests) / len(requests),
        cached_blocks=len(hashed),
        poisoned_blocks=len(poisoned),
        request_throughput=len(served) / (end / US) if end else 0.0,
        output_throughput=tokens / (end / US) if end else 0.0,
        time_to_first_token=sum(r.time_to_first_token for r in served) / max(len(served), 1) / 1e3,
        time_per_output_token=waited / max(after_first, 1) / 1e3,
        inter_token_latency=waited / max(gaps, 1) / 1e3,
        preemptions=serving.preemptions,
        steps=serving.engine.steps,
        duration_s=end / US,
        died=serving.died,
        held=f"{serving.found[0].kind}: {serving.found[0].explanation}" if serving.found else "",
        outputs=_outputs(serving.model.progress.values()),
        digest=_digest(serving, poisoned),
        memory=_memory(serving),
        first_damage=serving.model.first_damage,
        requests=requests,
    )


def _request(serving: Serving, progress: Progress, seed: int) -> RequestResult:
    spec, record = progress.history.spec, serving.client.records.get(progress.history.spec.id)
    answer = progress.answer
    alone = TokenHistory(spec, seed, 1).continuation(spec.healthy_len)
    started = record is not None and record.first >= 0
    return RequestResult(
        id=spec.id,
        prompt_len=spec.prompt_len,
        hit_tokens=progress.hit_tokens,
        output_len=len(answer),
        healthy_len=spec.healthy_len,
        finish=record.finish if record else "",
        stuck=answer[-1:] == [NAN_TOKEN],
        differs=answer != [token for token, _ in alone],
        damaged_at=progress.damaged_at,
        inherited=progress.inherited,
        time_to_first_token=record.first - record.sent if record and started else 0,
        latency=record.last - record.sent if record and started else 0,
    )


def _outputs(all_progress: Iterable[Progress]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for progress in all_progress:
        digest.update(np.array(progress.answer, dtype=np.int64).tobytes())
    return digest.hexdigest()


def _digest(serving: Serving, poisoned: Iterable[int]) -> str:
    """Every row of the last rank, damaged or not, every token, the poisoned blocks and the time it all took.

    No memory: where batch-row copies meet in the null block, parallel programs race for bytes that nobody owns.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(serving.model.digest.digest())
    digest.update(_outputs(serving.model.progress.values()).encode())
    digest.update(f"{sorted(poisoned)} {serving.times.engine} {serving.died}".encode())
    return digest.hexdigest()


def _memory(serving: Serving) -> str:
    """Every page of every rank but the null block's."""
    digest = hashlib.blake2b(digest_size=16)
    for rank in serving.ranks:
        pages = rank.pool.pages(rank.backend.to_host(rank.pool.array))
        digest.update(np.ascontiguousarray(pages[:, 1:]).tobytes())
    return digest.hexdigest()


def poisoned_blocks(serving: Serving, hashed: Iterable[tuple[int, CachedBlock]]) -> set[int]:
    """Blocks of the prefix cache that hold something else, on some rank, than the prefix they are cached for."""
    layout = serving.layout
    poisoned = set()
    cached = [(block, c, serving.model.progress[c.request].history.hashes.view(np.int64)) for block, c in hashed]
    for rank in serving.ranks:
        pages = rank.pool.pages(rank.backend.to_host(rank.pool.array))
        for block, entry, hashes in cached:
            if layout.groups[entry.group].kind == "attention":
                good = _kv_is_good(layout, pages, block, entry, hashes)
            else:
                states = [s for s in layout.states if s.group == entry.group]
                good = all(_state_is_good(layout, pages, block, entry, hashes, s) for s in states)
            if not good:
                poisoned.add(block)
    return poisoned


def _kv_is_good(layout: Layout, pages: HostArray, block: int, entry: CachedBlock, hashes: HostArray) -> bool:
    group = layout.groups[entry.group]
    first = (entry.num_tokens - 1) // group.block_size * group.block_size
    count = entry.num_tokens - first
    for layer in range(layout.layers):
        keys = hashes[first + 1 : entry.num_tokens + 1] ^ salt(entry.group, layer, 0)
        found = pages[layer, block, : count * group.kv_bytes].reshape(count, group.kv_bytes)
        if not np.array_equal(found, pattern(keys, group.kv_bytes)):
            return False
    return True


def _state_is_good(
    layout: Layout, pages: HostArray, block: int, entry: CachedBlock, hashes: HostArray, state: StateEntry
) -> bool:
    """A saved conv window holds the last positions in its first rows (token-major windows only)."""
    rows = layout.window if state.conv_width else 1
    rows = min(rows, entry.num_tokens)
    keys = hashes[entry.num_tokens + 1 - rows : entry.num_tokens + 1] ^ salt(state.group, state.layer, state.state)
    size = state.spec.row_bytes
    skipped = (layout.window - rows) * size if state.conv_width else 0
    start = state.offset + skipped
    found = pages[state.layer, block, start : start + rows * size].reshape(rows, size)
    return np.array_equal(found, pattern(keys, size))


def baseline(results: Sequence[RunResult], result: RunResult) -> RunResult:
    """What a row's speed is compared with: the same concurrency, fewest broken requests, then the smallest pipeline."""
    rivals = [r for r in results if r.max_concurrency == result.max_concurrency]
    return min(rivals, key=lambda r: (r.stuck + r.differing, r.pipeline_parallel_size))
