"""Recorded runs of a released scheduler: the file format, typed and validated.

Read from .json or .json.gz; used by `compare` (replay and comparison) and by `live` (records of a child
process have the same shape). Field names are the recorder's.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from stalerow.simulator.engine import EngineConfig, GroupConfig
from stalerow.simulator.engine.config import Drafter, DraftRanges
from stalerow.simulator.engine.request import RequestOptions
from stalerow.simulator.files import LARGEST, not_modelled

BlockIds = list[list[int]]


class TraceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The recorder's options: P, K (drafts), sizes in tokens or blocks.

    From `accept_seed` on they say how the run was made and mean nothing to the engine.
    """

    P: int
    K: int
    block_size: int
    num_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    prefix_match_unit: int | None
    retention_interval: int | None
    steps: int
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    max_num_active_seqs: int | None = None
    prefill_schedule_interval: int = 1
    cache_aware_admission_window: int = 0
    cache_aware_admission_threshold: float = 0.5
    reserve_full_isl: bool | None = None
    watermark: float | None = None
    shared_prefix_ckpt: bool = False
    disable_eagle_block_drop: bool = False
    lookahead_hashes: bool = True
    num_prefill_checkpoint_blocks: int = 0
    prefill_checkpoint_alignment: int | None = None
    asynchronous: bool = True
    drafter: Drafter = "mtp"
    drafts_per_batch_size: DraftRanges = ()
    policy: Literal["fcfs", "priority"] = "fcfs"
    attention_block_size: int | None = None
    accept_seed: int = 0
    accept_prob: float = 0.0
    pad_accept: int = 0
    n_gdn: int = 0
    n_fa: int = 0
    n_swa: int = 0
    sliding_window: int = 0
    recurrent_specs: int = 1
    marks_draft_group: bool = True
    engine: Literal["batch_queue"] = "batch_queue"
    groups: list[tuple[str, int, int]] | None = None


class TraceGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One KV-cache group as the released code formed it."""

    type: Literal["MambaSpec", "FullAttentionSpec", "SlidingWindowSpec"]
    is_eagle_group: bool
    block_size: int
    spec: int = 0
    layers: int | None = None
    num_speculative_blocks: int | None = None
    sliding_window: int = 0


class Meta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Versions, options and what the released code derived from them.

    From `num_lookahead_tokens` on the recorder wrote down what follows from the options; blocks kept back at a free
    (`defer_block_free`, which a KV connector asks for) are not modelled.
    """

    versions: dict[str, str]
    config: TraceConfig
    groups: list[TraceGroup]
    scheduler_block_size: int
    hash_block_size: int
    max_concurrent_batches: int
    scheduler_reserve_full_isl: bool
    num_lookahead_tokens: int = 0
    num_prefill_lookahead: int = 0
    defer_block_free: bool = False
    needs_kv_cache_zeroing: bool = True
    mamba_partial_cache_hit: bool = False
    use_eagle_block_drop: bool = False
    retention_interval: int | None = None
    watermark_blocks: int = 0

    def __post_init__(self) -> None:
        if "vllm" not in self.versions:
            raise ValueError(f"versions name {sorted(self.versions) or 'nothing'}, expected 'vllm' among them")
        if self.defer_block_free:
            raise ValueError("defer_block_free is set: blocks kept back at a free (a KV connector's) are not modelled")

    @property
    def version(self) -> str:
        """The recorded release."""
        return self.versions["vllm"]

    def engine_config(self) -> EngineConfig:
        """The same options for our engine. ValueError if it does not take them."""
        c = self.config
        kinds: dict[str, Literal["attention", "recurrent"]] = {
            "MambaSpec": "recurrent",
            "FullAttentionSpec": "attention",
            "SlidingWindowSpec": "attention",
        }
        return EngineConfig(
            groups=tuple(
                GroupConfig(kinds[g.type], g.block_size, g.is_eagle_group, g.spec, g.sliding_window)
                for g in self.groups
            ),
            num_blocks=c.num_blocks,
            pipeline_parallel_size=c.P,
            num_speculative_tokens=c.K,
            drafter=c.drafter,
            num_speculative_tokens_per_batch_size=c.drafts_per_batch_size,
            max_num_seqs=c.max_num_seqs,
            max_num_batched_tokens=c.max_num_batched_tokens,
            max_model_len=c.max_model_len,
            prefix_match_unit=c.prefix_match_unit,
            retention_interval=c.retention_interval,
            long_prefill_token_threshold=c.long_prefill_token_threshold,
            long_prefill_token_threshold_adaptive=c.long_prefill_token_threshold_adaptive,
            max_num_active_seqs=c.max_num_active_seqs,
            prefill_schedule_interval=c.prefill_schedule_interval,
            cache_aware_admission_window=c.cache_aware_admission_window,
            cache_aware_admission_threshold=c.cache_aware_admission_threshold,
            reserve_full_isl=self.scheduler_reserve_full_isl,
            watermark=c.watermark or 0.0,
            policy=c.policy,
            shared_prefix_checkpoint=c.shared_prefix_ckpt,
            drop_draft_block=not c.disable_eagle_block_drop,
            lookahead_hashes=c.lookahead_hashes,
            prefill_checkpoint_alignment=c.prefill_checkpoint_alignment if c.num_prefill_checkpoint_blocks else None,
            async_scheduling=c.asynchronous,
        )


class TraceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request of the workload; `arrival` is the engine iteration before whose schedule it is added.

    The first `share[1]` prompt tokens come from stream `share[0]`, or from request X's tokens for "req:X".
    """

    id: str
    prompt_len: int
    max_tokens: int
    seed: int | str
    arrival: int = 1
    share: tuple[int | str, int] | None = None
    stop_token_ids: list[int] = []
    cache_salt: str = ""
    skip_reading_prefix_cache: bool = False
    priority: int = 0

    @property
    def options(self) -> RequestOptions:
        return RequestOptions(self.cache_salt, self.skip_reading_prefix_cache, self.priority)


class TraceAbort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An abort right before schedule number `step`, or before the update that follows it."""

    id: str
    step: int
    phase: Literal["pre_schedule", "pre_update"] = "pre_schedule"


class TraceReset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reset of the prefix cache right before schedule number `step`; `running` preempts running requests first."""

    step: int
    running: bool = True


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens from outside."""

    requests: list[TraceRequest]
    aborts: list[TraceAbort] = []
    resets: list[TraceReset] = []


class ScheduledRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of a recorded schedule; counters are those before it."""

    req: str
    n: int
    drafts: int
    computed: int
    placeholders_before: int
    known_tokens: int
    final_or_decode: bool
    will_sample: int


class NewRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded admission."""

    req: str
    prompt_len: int
    prefill_len: int
    computed: int
    block_ids: BlockIds
    resumed: bool
    junction: int


class CachedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded update of a request that the ranks know."""

    req: str
    computed: int
    new_block_ids: BlockIds | None


class ScheduleRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of schedule(). `skip_drafts` is there only where the release says so and the recorder wrote it down."""

    step: int
    inflight_before: list[int]
    scheduled: list[ScheduledRecord]
    total: int
    running: list[str]
    waiting: list[str]
    sched_blocks: dict[str, BlockIds]
    free_blocks: int
    deferred_frees: int
    new: list[NewRecord] = []
    cached: list[CachedRecord] = []
    finished_req_ids: list[str] = []
    preempted_req_ids: list[str] = []
    zero: list[int] = []
    copies: list[tuple[int, int]] = []
    aborts_before_schedule: list[str] = []
    resets_before_schedule: list[bool] = []
    skip_drafts: bool | msgspec.UnsetType = msgspec.UNSET


Counters = tuple[int, int, int, str]


class StateRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Computed tokens, placeholders, stale tokens and status of a request around an update."""

    before: Counters
    after: Counters | Literal["freed"]


class UpdateRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One processed output."""

    processed_step: int
    after_schedule_of: int
    sampled: dict[str, int]
    delivered: dict[str, tuple[int, str | None]]
    state: dict[str, StateRecord]
    aborts_before_update: list[str] = []
    ignored_already_gone: list[str] = []


Record = ScheduleRecord | UpdateRecord


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded run; the recorder may add a `name`, and `examples` of what can be seen in it."""

    meta: Meta
    workload: Workload
    trace: list[dict[str, Any]]
    name: str = ""
    examples: list[Any] = []

    def records(self) -> list[Record]:
        """The records, typed. msgspec.ValidationError names what does not fit."""
        return [as_record(item) for item in self.trace]


def as_record(item: dict[str, Any]) -> Record:
    """A record from its JSON object."""
    if "processed_step" in item:
        return msgspec.convert(item, UpdateRecord)
    return msgspec.convert(item, ScheduleRecord)


def load_trace(path: str | Path) -> Trace:
    """Read a recorded run; ValueError (one line, with the path) if it is not one."""
    path = Path(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"{path}: more than the {LARGEST:,} bytes that are read: record a shorter run")
        trace = msgspec.json.decode(data, type=Trace)
        trace.records()
        return trace
    except (msgspec.MsgspecError, OSError, EOFError, zlib.error, UnicodeDecodeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if foreign := not_modelled(error):
            raise ValueError(f"{path}: recorded with {foreign}, which is not modelled; record without it") from error
        raise ValueError(f"{path}: expected a recorded scheduler run ({error}); record it again") from error
