"""The part of `driver` that knows vLLM's classes: environment, configuration and scheduler of one run.

Imported by `driver` only, inside an environment that has vLLM. What is real: configuration classes, grouping
of layers, block sizes, hashing, scheduler, KV-cache manager. What stands in: layer specs written by hand, no
structured output.
"""

import importlib
import importlib.util
import inspect
from types import SimpleNamespace
from typing import Any

if __package__:
    from stalerow.simulator.conform.driver_setup import DEFAULTS
else:
    from driver_setup import DEFAULTS  # type: ignore[import-not-found, no-redef]

DRAFT_LAYER = "mtp.layers.0.self_attn.attn"


def import_vllm() -> Any:
    """What a run needs from vLLM; where releases moved a function, from wherever it is."""
    module = importlib.import_module
    # Validation refuses the V2 model runner where Triton has no backend; the scheduler needs none.
    # The CPU platform of 0.34 asks the package itself, so both names are set.
    for name in ("vllm.config.vllm", "vllm.triton_utils"):
        vars(module(name))["HAS_TRITON"] = True
    homes = [module("vllm.v1.core.kv_cache_utils")]
    if importlib.util.find_spec("vllm.v1.core.kv_cache_planning"):
        homes.append(module("vllm.v1.core.kv_cache_planning"))

    def moved(name: str) -> Any:
        return next(getattr(home, name) for home in homes if hasattr(home, name))

    return SimpleNamespace(
        version=module("vllm").__version__,
        torch=module("torch"),
        config=module("vllm.config"),
        interface=module("vllm.v1.kv_cache_interface"),
        outputs=module("vllm.v1.outputs"),
        Request=module("vllm.v1.request").Request,
        RequestStatus=module("vllm.v1.request").RequestStatus,
        SamplingParams=module("vllm.sampling_params").SamplingParams,
        gdn_backend=module("vllm.v1.attention.backends.registry").MambaAttentionBackendEnum.GDN_ATTN,
        AsyncScheduler=module("vllm.v1.core.sched.async_scheduler").AsyncScheduler,
        Scheduler=module("vllm.v1.core.sched.scheduler").Scheduler,
        get_kv_cache_groups=moved("get_kv_cache_groups"),
        resolve_kv_cache_block_sizes=moved("resolve_kv_cache_block_sizes"),
        get_request_block_hasher=moved("get_request_block_hasher"),
        init_none_hash=moved("init_none_hash"),
        sha256=module("vllm.utils.hashing").get_hash_fn_by_name("sha256"),
    )


class Released:
    """vLLM's scheduler for one configuration."""

    def __init__(self, api: Any, model_dir: str, options: dict[str, Any]) -> None:
        if unknown := sorted(set(options) - set(DEFAULTS)):
            raise ValueError(f"options {unknown}: not modelled; known are {sorted(DEFAULTS)}")
        self.api = api
        self.options = options
        self.num_requests = 0
        self.drafts_with_layers = options["K"] > 0 and options["drafter"] == "mtp"
        self.config = self._vllm_config(model_dir)
        self.kv_config = self._kv_cache_config()
        sizes = api.resolve_kv_cache_block_sizes(self.kv_config, self.config)
        self.scheduler_block_size, self.hash_block_size = sizes
        self.block_hasher = self._block_hasher()
        self.output_has_rows = "req_id_to_index" in inspect.signature(api.outputs.ModelRunnerOutput).parameters
        scheduler = api.AsyncScheduler if options["asynchronous"] else api.Scheduler
        self.scheduler = scheduler(
            vllm_config=self.config,
            kv_cache_config=self.kv_config,
            structured_output_manager=NoStructuredOutput(),
            block_size=self.scheduler_block_size,
            hash_block_size=self.hash_block_size,
            log_stats=False,
        )

    def _vllm_config(self, model_dir: str) -> Any:
        c, o = self.api.config, self.options
        model = c.ModelConfig(
            model=model_dir, skip_tokenizer_init=True, max_model_len=o["max_model_len"], dtype="bfloat16"
        )
        cache = c.CacheConfig(
            block_size=o["block_size"],
            enable_prefix_caching=True,
            mamba_cache_mode="align",
            prefix_match_unit=o["prefix_match_unit"],
            prefix_cache_retention_interval=o["retention_interval"],
            enable_mamba_shared_prefix_checkpoint=o["shared_prefix_ckpt"],
        )
        # Older releases have no such options, and our engine leaves them alone under their rules.
        named = ("cache_aware_admission_window", "cache_aware_admission_threshold")
        known = inspect.signature(c.SchedulerConfig).parameters
        newer = {name: o[name] for name in named if name in known}
        scheduler = c.SchedulerConfig(
            **newer,
            max_num_seqs=o["max_num_seqs"],
            max_num_batched_tokens=o["max_num_batched_tokens"],
            max_model_len=o["max_model_len"],
            enable_chunked_prefill=True,
            long_prefill_token_threshold=o["long_prefill_token_threshold"],
            long_prefill_token_threshold_adaptive=o["long_prefill_token_threshold_adaptive"],
            max_num_active_seqs=o["max_num_active_seqs"],
            prefill_schedule_interval=o["prefill_schedule_interval"],
            async_scheduling=True,
            is_encoder_decoder=False,
            scheduler_reserve_full_isl=o["reserve_full_isl"],
            watermark=o["watermark"],
            policy=o["policy"],
        )
        parallel = c.ParallelConfig(pipeline_parallel_size=o["P"])
        speculative = None
        extra: dict[str, Any] = {}
        if "disable_eagle_block_drop" in inspect.signature(c.SpeculativeConfig).parameters:
            extra["disable_eagle_block_drop"] = o["disable_eagle_block_drop"]
        if "disable_lookahead_block_hashes" in inspect.signature(c.SpeculativeConfig).parameters:
            extra["disable_lookahead_block_hashes"] = not o["lookahead_hashes"]
        if o["drafter"] == "ngram":
            extra["prompt_lookup_max"] = 3
        if o["drafts_per_batch_size"]:
            extra["num_speculative_tokens_per_batch_size"] = [tuple(entry) for entry in o["drafts_per_batch_size"]]
        if o["K"]:
            speculative = c.SpeculativeConfig(
                # Its twin on the host refuses asynchronous scheduling up to 0.33; to the scheduler they are the same.
                method="ngram_gpu" if o["drafter"] == "ngram" else "mtp",
                num_speculative_tokens=o["K"],
                target_model_config=model,
                target_parallel_config=parallel,
                **extra,
            )
        config = c.VllmConfig(
            model_config=model,
            cache_config=cache,
            scheduler_config=scheduler,
            parallel_config=parallel,
            speculative_config=speculative,
        )
        # Undo what the CPU platform changes: it has no asynchronous scheduling.
        config.scheduler_config.async_scheduling = o["asynchronous"]
        config.scheduler_config.max_num_scheduled_tokens = o["max_num_batched_tokens"]
        config.cache_config.kv_cache_layout = "NHD"
        config.cache_config.num_gpu_blocks = o["num_blocks"]
        if config.cache_config.mamba_block_size != o["block_size"]:
            raise ValueError(f"mamba block size {config.cache_config.mamba_block_size}: expected {o['block_size']}")
        return config

    def _kv_cache_config(self) -> Any:
        api, o = self.api, self.options
        bfloat16, float32 = api.torch.bfloat16, api.torch.float32
        attention_size = o["attention_block_size"] or o["block_size"]

        def attention(page: int | None = None) -> Any:
            return api.interface.FullAttentionSpec(
                block_size=attention_size, num_kv_heads=2, head_size=32, dtype=bfloat16, page_size_padded=page
            )

        spec = inspect.signature(api.interface.MambaSpec).parameters
        checkpoints = {
            name: o[name]
            for name in ("num_prefill_checkpoint_blocks", "prefill_checkpoint_alignment")
            if o[name] or name in spec
        }

        def recurrent(page: int | None = None, kind: int = 0) -> Any:
            return api.interface.MambaSpec(
                shapes=((3, 96), (4, 16, 16 - 4 * kind)),
                dtypes=(bfloat16, float32),
                block_size=o["block_size"],
                page_size_padded=page,
                mamba_type=api.gdn_backend,
                mamba_cache_mode="align",
                num_speculative_blocks=o["K"],
                **checkpoints,
            )

        def windowed(page: int | None = None) -> Any:
            return api.interface.SlidingWindowSpec(
                block_size=attention_size,
                num_kv_heads=2,
                head_size=32,
                dtype=bfloat16,
                page_size_padded=page,
                sliding_window=o["sliding_window"],
            )

        page = max(attention().page_size_bytes, recurrent().page_size_bytes)
        if o["groups"]:
            groups = [
                api.interface.KVCacheGroupSpec(
                    [f"group.{index}" if kind == "recurrent" or not self.drafts_with_layers else DRAFT_LAYER],
                    recurrent(page, label) if kind == "recurrent" else attention(page),
                )
                for index, (kind, _, label) in enumerate(o["groups"])
            ]
            return self._cache_config(groups)
        layers: dict[str, Any] = {}
        repeats = max(o["n_fa"], 1)
        for _ in range(repeats):
            for index in range(o["n_gdn"] // repeats):
                kind = index % o["recurrent_specs"]
                layers[f"model.layers.{len(layers)}.linear_attn"] = recurrent(page, kind)
            for _ in range(o["n_swa"] // repeats):
                layers[f"model.layers.{len(layers)}.self_attn.attn"] = windowed(page)
            if o["n_fa"]:
                layers[f"model.layers.{len(layers)}.self_attn.attn"] = attention(page)
        if self.drafts_with_layers:
            layers[DRAFT_LAYER] = attention(page)
        return self._cache_config(api.get_kv_cache_groups(self.config, layers))

    def _cache_config(self, groups: Any) -> Any:
        api, o = self.api, self.options
        speculative = self.config.speculative_config
        # Before 0.30 a drafter of the Eagle kind always drops.
        asked = "use_eagle_block_drop" if hasattr(speculative, "use_eagle_block_drop") else "use_eagle"
        drops = speculative is not None and getattr(speculative, asked)()
        for group in groups:
            # Releases tell the drafter's group by its place or by its layer specs; both come to this.
            group.is_eagle_group = drops and o["marks_draft_group"] and DRAFT_LAYER in group.layer_names
        return api.interface.KVCacheConfig(
            num_blocks=o["num_blocks"],
            kv_cache_tensors=[],
            kv_cache_groups=groups,
            prefix_cache_retention_interval=self.config.cache_config.prefix_cache_retention_interval,
        )

    def _block_hasher(self) -> Any:
        api = self.api
        api.init_none_hash(api.sha256)
        extra: dict[str, Any] = {}
        if "num_hash_lookahead_tokens" in inspect.signature(api.get_request_block_hasher).parameters:
            extra["num_hash_lookahead_tokens"] = self.config.num_hash_lookahead_tokens
        return api.get_request_block_hasher(self.hash_block_size, api.sha256, **extra)

    def request(
        self, request_id: str, prompt: list[int], max_tokens: int, stop_token_ids: list[int], asked: dict[str, Any]
    ) -> Any:
        """A request as the engine core would make it; `asked` may name what a client asks for beside tokens."""
        self.num_requests += 1
        sampling = self.api.SamplingParams(
            max_tokens=max_tokens,
            temperature=0.0,
            ignore_eos=True,
            stop_token_ids=stop_token_ids,
            skip_reading_prefix_cache=asked.get("skip_reading_prefix_cache") or None,
        )
        return self.api.Request(
            request_id=request_id,
            prompt_token_ids=prompt,
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=self.block_hasher,
            arrival_time=float(self.num_requests),
            priority=asked.get("priority", 0),
            cache_salt=asked.get("cache_salt") or None,
        )

    def runner_output(self, order: list[str], sampled: list[list[int]]) -> Any:
        """What a worker returns; up to 0.33 it also says in which row each request sits."""
        extra: dict[str, Any] = {}
        if self.output_has_rows:
            extra["req_id_to_index"] = {key: index for index, key in enumerate(order)}
        return self.api.outputs.ModelRunnerOutput(req_ids=order, sampled_token_ids=sampled, **extra)

    def meta(self) -> dict[str, Any]:
        """What the released code derived from the options."""
        groups = self.kv_config.kv_cache_groups
        specs = [group.kv_cache_spec for group in groups]
        return {
            "versions": {"vllm": self.api.version},
            "config": self.options,
            "groups": [
                {
                    "type": type(spec).__name__,
                    "is_eagle_group": group.is_eagle_group,
                    "block_size": spec.block_size,
                    "spec": specs.index(spec),
                    "sliding_window": getattr(spec, "sliding_window", None) or 0,
                }
                for group, spec in zip(groups, specs)
            ],
            "scheduler_block_size": self.scheduler_block_size,
            "hash_block_size": self.hash_block_size,
            "max_concurrent_batches": self.config.max_concurrent_batches,
            "scheduler_reserve_full_isl": self.scheduler.scheduler_reserve_full_isl,
        }


class NoStructuredOutput:
    """Stands in for the structured-output manager: accepts everything."""

    def accept_tokens(self, request: Any, tokens: Any) -> bool:
        return True

    def validate_tokens(self, request: Any, tokens: Any) -> Any:
        return tokens

    def trim_spec_tokens(self, request: Any, tokens: Any) -> Any:
        return tokens

    def should_advance(self, request: Any) -> bool:
        return False

    def grammar_bitmask(self, *args: Any, **kwargs: Any) -> None:
        return None
