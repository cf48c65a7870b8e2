"""What decides a serving run besides its requests: the engine's options and the memory they imply.

`ServeOptions` uses the engine's names. `schedule` turns it into the value that the engine and the ranks are built from.
The memory is lean where size changes nothing (one layer a group, small states) and real where it does: block size in
tokens, one attention group and several recurrent groups in one pool, every KV position with its own bytes.
"""

from __future__ import annotations

import msgspec

from stalerow.kernels.base.layout import GroupSpec, Layout, StateSpec
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.values import PROFILES, Limits, Pipeline, Schedule

RECURRENT_GROUPS = 3
"""Three recurrent layers to one of full attention, as in the hybrids of the reports."""
KV_BYTES = 8


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's options under its names; `block_size` in tokens, for attention and recurrent groups alike.

    `retention_interval`: 0 keeps the boundary states that the engine keeps by default, None every one.
    """

    pipeline_parallel_size: int = 2
    num_speculative_tokens: int = 4
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    block_size: int = 784
    num_gpu_blocks: int = 2000
    async_scheduling: bool = True
    enable_prefix_caching: bool = True
    cudagraph_capture_sizes: tuple[int, ...] = ()
    retention_interval: int | None = 0
    profile: str = "0.32"

    def graph_sizes(self) -> tuple[int, ...]:
        """Rows of the captured decode graphs: capture sizes are in tokens, rounded up to whole rows (vLLM 0.32)."""
        width = self.num_speculative_tokens + 1
        sizes = self.cudagraph_capture_sizes or (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
        rows = {-(-size // width) for size in sizes}
        return tuple(sorted(r for r in rows if r <= self.max_num_seqs))

    def schedule(self, longest_request: int) -> Schedule:
        """The engine and the memory for requests of at most so many tokens. Raises `UsageError`."""
        if self.profile not in PROFILES:
            raise UsageError(f"--profile {self.profile}: known profiles are {', '.join(PROFILES)}")
        drafts = self.num_speculative_tokens
        if not 0 <= drafts < self.block_size:
            raise UsageError(
                f"--num-speculative-tokens {drafts}: give 0 to {self.block_size - 1}, below the block size"
            )
        pipeline = Pipeline(
            pp=self.pipeline_parallel_size,
            drafts=drafts,
            async_scheduling=self.async_scheduling,
            runner="v2",
            profile=self.profile,
        )
        limits = Limits(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=longest_request + 2 * (drafts + 1),
            retention_interval=self.retention_interval,
            prefix_caching=self.enable_prefix_caching,
            graph_sizes=self.graph_sizes(),
        )
        return Schedule(pipeline=pipeline, layout=self._layout(), limits=limits, requests=())

    def _layout(self) -> Layout:
        states = (StateSpec("conv", 4, 2), StateSpec("temporal", 2, 4))
        recurrent = GroupSpec("recurrent", self.block_size, states=states)
        attention = GroupSpec("attention", self.block_size, kv_bytes=KV_BYTES)
        try:
            return Layout(
                groups=(*(recurrent,) * RECURRENT_GROUPS, attention),
                layers=1,
                num_blocks=self.num_gpu_blocks,
                num_drafts=self.num_speculative_tokens,
            )
        except ValueError as error:
            raise UsageError(str(error)) from None
