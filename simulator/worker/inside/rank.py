"""One pipeline rank: an unmodified `GPUModelRunner`, built and called as the engine's worker does, and watched.

The runner's own methods mark where its work for a step begins and ends; there the judge compares memory with what the
requests' own plan asks for.
"""

from __future__ import annotations

import pickle
from typing import Any, Literal

import numpy as np
import torch
import vllm.v1.worker.gpu.model_runner as model_runner
from vllm.config import set_current_vllm_config

from stalerow.kernels.base.device import NumpyBackend
from stalerow.kernels.base.memory import BlockTables, SlotState
from stalerow.kernels.own.forward import ForwardStep, forward
from stalerow.simulator.engine.step import ScheduledRow, Step
from stalerow.simulator.schedule.values import Schedule
from stalerow.simulator.truth.plan import Planner
from stalerow.simulator.worker.inside import device, kernels
from stalerow.simulator.worker.inside.configure import RankConfig
from stalerow.simulator.worker.inside.judge import Judge
from stalerow.simulator.worker.inside.memory import OF_A_DUMMY, Memory
from stalerow.simulator.worker.inside.metadata import Batch, batch_of, written_blocks
from stalerow.simulator.worker.inside.model import Drafter, Model, place
from stalerow.simulator.worker.inside.pipeline import PipelineGroup
from stalerow.simulator.worker.inside.truth import Truth


class Rank:
    """`index` counts from 0. `step` is the step that the host is at, `batch` the batch of the forward to come."""

    def __init__(
        self, index: int, schedule: Schedule, config: RankConfig, planner: Planner, truth: Truth, group: PipelineGroup
    ) -> None:
        self.index, self.schedule, self.planner, self.truth = index, schedule, planner, truth
        self.is_last = index == schedule.pipeline.pp - 1
        self._config, self._group = config, group
        self.step = 0
        self.rows: tuple[str, ...] = ()
        self.batches: dict[int, tuple[str, ...]] = {}
        self.gathered: int | None = None
        self._dummy = False
        self._main = device.Stream()
        self.runner = self._build()
        cache = self._cache()
        self._regions = kernels.regions_of(self.runner.block_tables, cache)
        self.memory = Memory(schedule, cache.numpy())
        self._warm_up()
        self.memory.clear()
        self.judge: Judge
        backend = NumpyBackend()
        width = max(table.shape[1] for table in self._gathered_tables())
        self._tables = BlockTables(schedule.layout, self.max_rows, width, backend)
        self._slots = SlotState(self.max_rows, 1, backend)
        self._watch()

    def _build(self) -> Any:
        vllm_config = self._config.vllm
        self._enter()
        vocabulary = vllm_config.model_config.get_vocab_size()
        model = Model(self, vocabulary)
        loader = type("Loader", (), {"load_model": staticmethod(lambda **_: model)})()
        model_runner.get_model_loader = lambda *_, **__: loader
        model_runner.init_speculator = lambda *_, **__: Drafter(self, self.schedule.pipeline.drafts)
        with set_current_vllm_config(vllm_config):
            runner = model_runner.GPUModelRunner(vllm_config, torch.device("cpu"))
            runner.load_model()
            runner.profile_run()
            runner.initialize_kv_cache(self._config.cache)
            runner._init_kv_zero_meta()
        _precompute_indices(runner)
        return runner

    def _warm_up(self) -> None:
        """A run of as many rows as the batch may have, which every engine does once before it serves."""
        rows = min(self.max_rows, self.schedule.limits.max_num_batched_tokens)
        kernels.reachable[:] = self._regions
        with set_current_vllm_config(self._config.vllm):
            self._dummy_run(rows)

    def _dummy_run(self, tokens: int, **options: bool) -> None:
        self._dummy = True
        try:
            self.runner._dummy_run(tokens, **options)
        finally:
            self._dummy = False

    def _enter(self) -> None:
        self._group.rank = self.index
        device.set_stream(self._main)

    def _cache(self) -> Any:
        """The bytes of the worker's cache, a uint8 tensor [pool_bytes] over the same memory."""
        layer = next(iter(self._config.vllm.compilation_config.static_forward_context.values()))
        cache = layer.kv_cache[0] if isinstance(layer.kv_cache, list | tuple) else layer.kv_cache
        flat = torch.empty(0, dtype=torch.uint8).set_(cache.untyped_storage())
        return flat[: self.schedule.layout.pool_bytes]

    def _gathered_tables(self) -> list[Any]:
        return list(self.runner.block_tables.input_block_tables)

    @property
    def max_rows(self) -> int:
        return int(self.runner.max_num_reqs)

    @property
    def max_blocks(self) -> int:
        return self._tables.max_blocks

    def gathered_row(self, group: int, row: int, count: int) -> list[int]:
        """The first `count` block ids of a batch row, as gathered."""
        ids: list[int] = self._gathered_tables()[group][row, :count].tolist()
        return ids

    def numbers(self, request: str) -> dict[str, int] | None:
        """The worker's own numbers for a request; None if it has no slot."""
        states, model_state = self.runner.req_states, self.runner.model_state
        slot = states.req_id_to_index.get(request)
        if slot is None:
            return None
        return {
            "slot": slot,
            "num_computed": int(states.num_computed_tokens.gpu[slot]),
            "num_accepted": int(model_state.num_accepted_tokens_gpu[slot]),
            "state_idx": int(model_state._mamba_state_idx_gpu[slot]),
        }

    @property
    def lookup(self) -> Literal["slot", "row"]:
        """By what the copy kernels find a table's row: whether the tables that they hold are the gathered ones."""
        context = getattr(self.runner.model_state, "_mamba_ctx", None)
        held = [] if context is None else context.block_table_ptrs.tolist()
        return "row" if {*held} & {table.data_ptr() for table in self._gathered_tables()} else "slot"

    def _watch(self) -> None:
        runner = self.runner
        for name, wrapper in (
            ("finish_requests", self._finishing),
            ("update_requests", self._updating),
            ("prepare_inputs", self._preparing),
            ("postprocess_sampled", self._postprocessing),
        ):
            setattr(runner, name, wrapper(getattr(runner, name)))
        state = runner.model_state
        state.preprocess_state = self._preprocessing(state.preprocess_state)

    def _postprocessing(self, real: Any) -> Any:
        def postprocess_sampled(idx_mapping: Any, *args: Any, **kwargs: Any) -> Any:
            kept = [i for i, slot in enumerate(idx_mapping.tolist()) if slot >= 0]
            result = real(idx_mapping, *args, **kwargs)
            of = self.step if self.is_last else self.step - self.schedule.pipeline.pp
            self.judge.launched_postprocess(self.batches.get(of, ()), kept)
            return result

        return postprocess_sampled

    def _finishing(self, real: Any) -> Any:
        def finish_requests(output: Any) -> Any:
            if not self.is_last:
                self.judge.consumed(self.step - self.schedule.pipeline.pp, self.step)
            before = dict(self.runner.req_states.req_id_to_index)
            result = real(output)
            for request, slot in before.items():
                if request not in self.runner.req_states.req_id_to_index:
                    self.judge.freed_at[slot] = self.step
            self.judge.taken(self.step)
            return result

        return finish_requests

    def _updating(self, real: Any) -> Any:
        def update_requests(output: Any) -> Any:
            result = real(output)
            self.judge.updated(self.step)
            return result

        return update_requests

    def _preparing(self, real: Any) -> Any:
        def prepare_inputs(*args: Any, **kwargs: Any) -> Any:
            batch = real(*args, **kwargs)
            self.rows = self.batches[self.step] = tuple(batch.req_ids)
            self.judge.gathering(self.step, batch.num_reqs_after_padding)
            return batch

        return prepare_inputs

    def _preprocessing(self, real: Any) -> Any:
        def preprocess_state(*args: Any, **kwargs: Any) -> Any:
            if self._dummy:
                return real(*args, **kwargs)
            self.gathered = self.step
            result = real(*args, **kwargs)
            self.judge.precopied(self.step, self.rows)
            return result

        return preprocess_state

    def execute(self, step: Step, message: bytes, arriving: Any) -> tuple[Any, Any]:
        """Do one step as the engine's worker does. Returns (activations for the next rank, model output)."""
        output = pickle.loads(message)
        self._enter()
        self.step = step.number
        leaving = None
        self._group.busy = True
        device.observers[:] = [self.judge.launched]
        kernels.reachable[:] = self._regions
        try:
            with set_current_vllm_config(self._config.vllm):
                result = self.runner.execute_model(output, arriving)
                if output.total_num_scheduled_tokens:
                    leaving = result
                    result = self.runner.sample_tokens(None)
                else:
                    # As a rank does whose peers of a data-parallel group have work: the collectives need it.
                    self._dummy_run(self.runner.decode_query_len, uniform_decode=True)
                    self.judge.idled(step.number)
            if self.is_last and step.rows:
                self.judge.consumed(step.number, step.number)
            self.judge.ended(step.number)
            self._group.busy = False
        finally:
            device.observers.clear()
        return leaving, result

    def forward(self, metadata: Any, input_ids: Any, positions: Any, arriving: Any, hidden: Any) -> None:
        """The stand-in forward over the batch in hand; nothing for a dummy run without metadata."""
        layout, context = self.schedule.layout, self._config.vllm.compilation_config.static_forward_context
        if self._dummy and metadata:
            for block in written_blocks(metadata, context, layout):
                self.memory.pages[:, block] = OF_A_DUMMY
            device.launched("dummy run")
        if self._dummy or not metadata or not self.rows:
            return
        batch = batch_of(metadata, context, layout, len(self.rows))
        self.judge.about_to_forward(self.step, self.rows, batch)
        count = len(self.rows)
        carried = self._carried(batch, input_ids, positions, arriving)
        hashes = self.planner.hash_table(self.step, self._scheduled(), self._longest() + 1)
        for mine, theirs in zip(self._tables.gathered, batch.tables):
            if theirs is not None:
                mine[: len(theirs), : theirs.shape[1]] = theirs
        self._slots.num_accepted[:count] = batch.accepted
        damage = np.zeros((count, self.judge.units), dtype=np.int64)
        leaving = np.zeros(count, dtype=np.int64)
        inputs = ForwardStep(
            idx_mapping=np.arange(count, dtype=np.int64),
            query_start_loc=batch.query_start_loc,
            seq_lens=batch.seq_lens,
            state_indices=batch.columns,
            is_spec=batch.is_spec,
            hashes=hashes,
            activation_in=carried,
            num_rows=count,
        )
        self.judge.forwarding(self.step, self.rows, batch, inputs)
        forward(self.memory, self._tables, self._slots, inputs, damage, leaving)  # type: ignore[arg-type]
        device.launched("forward")
        self._leave(batch, leaving, hidden)
        self.judge.forwarded(self.step, self.rows, batch, inputs, damage, leaving)

    def _scheduled(self) -> tuple[ScheduledRow, ...]:
        """The scheduled rows of the batch, in batch order."""
        rows = {row.request: row for row in self.planner.plans[self.step].step.rows}
        return tuple([rows[request] for request in self.rows])

    def _longest(self) -> int:
        limits = self.schedule.limits
        return limits.max_model_len + 2 * (self.schedule.pipeline.drafts + 1)

    def _carried(self, batch: Batch, input_ids: Any, positions: Any, arriving: Any) -> np.ndarray:
        """Damage that each row comes with: from the rank before, or from tokens that are not the request's."""
        starts = batch.query_start_loc[: len(self.rows)]
        if arriving is not None:
            carried: np.ndarray = arriving[:, 0].numpy()[starts].copy()
            return carried
        return self.judge.inputs(self.step, self.rows, batch, input_ids.tolist(), positions.tolist())

    def _leave(self, batch: Batch, leaving: np.ndarray, hidden: Any) -> None:
        out = hidden.numpy()
        for row, request in enumerate(self.rows):
            first, last = batch.query_start_loc[row : row + 2].tolist()
            start = int(batch.seq_lens[row]) - (last - first)
            number = self.truth.numbers[request]
            out[first:last, 0] = leaving[row]
            out[first:last, 1] = [place(number, start + j) for j in range(last - first)]


def _precompute_indices(runner: Any) -> None:
    """Ask for the aligned indices that CUDA builds compute once a step; a CPU build would look tables up itself."""
    import vllm.v1.worker.mamba_utils as mamba_utils
    from vllm.v1.kv_cache_interface import MambaSpec

    if not hasattr(mamba_utils.MambaSpecDecodeGPUContext, "compute_aligned_state_indices"):
        return
    for groups in runner.attn_groups:
        for group in groups:
            for builder in group.metadata_builders:
                if isinstance(group.kv_cache_spec, MambaSpec):
                    builder.supports_update_block_table = True
                    builder.mamba_aligned_state_indices = None
