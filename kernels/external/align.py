"""An engine's own kernels as an `AlignKernels` set, launched with its release's grid and arguments by name.

Values come from the memory objects of `stalerow.kernels` and go to the kernels' parameters as ``vocabulary``
says. Nothing of the engine's host code runs; what it does around a launch (the snapshot of accepted counts,
tiles, constants) is done here as the release's `CallingConvention` says.
"""

from __future__ import annotations

from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .facts import CallingConvention, Meta
from .signatures import Signature

if TYPE_CHECKING:
    from stalerow.kernels.align.kernels import AlignKernels, StepCounts
    from stalerow.kernels.base.binding import Binding
    from stalerow.kernels.base.device import Array, Backend
    from stalerow.kernels.base.memory import SlotState


class StepArguments:
    """Everything a kernel parameter may stand for in one launch; the vocabulary names these attributes."""

    def __init__(self, align: ExternalAlign, num_rows: int, **given: Any) -> None:
        self.meta = align.meta
        self.tiles = align.tiles
        self.num_rows = num_rows
        self.slots = given.get("slots")
        self.binding = given.get("binding")
        self.idx_mapping = given.get("idx_mapping")
        self.has_idx_mapping = self.idx_mapping is not None
        self.query_start_loc = given.get("query_start_loc")
        self.block_size = given.get("block_size")
        self.accepted_read = given.get("accepted_read")
        self.accepted_written = given.get("accepted_written")
        self.seq_lens = given.get("seq_lens")
        self.out = given.get("out")
        # The states that these kernels move are canonical ones: nothing is left to a replay (ReplaySSM, 0.34).
        self.replays_states = False
        counts = given.get("counts")
        # Runner V1 hands over what the step was scheduled with, V2 the total it led to.
        self.has_new_total = counts is None
        self.num_scheduled = None if counts is None else counts.num_scheduled
        self.num_drafts = None if counts is None else counts.num_drafts
        if counts is not None:
            self.num_computed = counts.num_computed
        elif self.slots is not None:
            self.num_computed = self.slots.num_computed
        self._indices_from_copies = align.caller.indices_bind == align.caller.binds == "slot"

    @property
    def dim_first(self) -> bool:
        return bool(self.binding.layout.conv_layout == "DS")  # type: ignore[union-attr]

    @property
    def index_table_ptrs(self) -> Array:
        binding: Any = self.binding
        return binding.copy_table_ptrs if self._indices_from_copies else binding.index_table_ptrs

    @property
    def num_groups(self) -> int:
        return len(self.binding.layout.recurrent_groups)  # type: ignore[union-attr]

    @property
    def num_groups_padded(self) -> int:
        return _power_of_2(self.num_groups)

    @property
    def num_state_slots(self) -> int:
        return int(self.out.shape[2])  # type: ignore[union-attr]

    @property
    def num_state_slots_padded(self) -> int:
        return _power_of_2(self.num_state_slots)

    @property
    def seq_lens_stride(self) -> int:
        return int(self.seq_lens.stride(0))  # type: ignore[union-attr]

    @property
    def out_stride_group(self) -> int:
        return int(self.out.stride(0))  # type: ignore[union-attr]

    @property
    def out_stride_row(self) -> int:
        return int(self.out.stride(1))  # type: ignore[union-attr]

    @property
    def out_stride_slot(self) -> int:
        return int(self.out.stride(2))  # type: ignore[union-attr]


class ExternalAlign:
    """`AlignKernels` made of an engine's kernels.

    * `name`: what the user gave; `caller`: what the release expects of the simulator's rank.
    * `reads_slot_tables`: the tables that the release *binds* to its copies, whatever its kernels then look
      up, so that a branch whose kernels and runner disagree is run as it would run.
    * `own`: the project's align kernels, for the aligned indices of releases that compute them without a
      kernel.

    ``-1`` rows: precopy and postprocess of all releases skip them; preprocess before 0.34 reads ``idx_mapping``
    unguarded, so such a row is then refused (`ValueError`) under the interpreter, where it would write before the
    array's start; compiled for the host, that is a `WildAccess`.
    """

    def __init__(
        self,
        name: str,
        module: ModuleType,
        found: dict[str, Signature],
        caller: CallingConvention,
        meta: Meta,
        own: AlignKernels,
        backend: Backend,
    ) -> None:
        self.name = name
        self.caller = caller
        self.meta = meta
        self.reads_slot_tables = caller.binds == "slot"
        # Tiles only spread one copy over more programs, which on the host run one after another.
        self.tiles = caller.tiles if backend.name == "triton-cuda" else 1
        self._interpreted = backend.name == "triton-interpreter"
        self._own = own
        self._kernels = {role: _Kernel(module, signature) for role, signature in found.items()}

    def preprocess(
        self,
        slots: SlotState,
        idx_mapping: Array,
        query_start_loc: Array,
        num_rows: int,
        block_size: int,
    ) -> None:
        """Advance the running columns; see `AlignKernels`."""
        if num_rows == 0:
            return
        kernel = self._kernels["preprocess"]
        # Since 0.34, whose kernel takes HAS_IDX_MAPPING, such a row is masked.
        masked = "HAS_IDX_MAPPING" in kernel.parameters
        if self._interpreted and not masked and bool((idx_mapping[:num_rows] < 0).any()):
            raise ValueError(f"preprocess of {self.name}: idx_mapping has a -1 row, which it does not mask; drop it")
        step = StepArguments(
            self,
            num_rows,
            slots=slots,
            idx_mapping=idx_mapping,
            query_start_loc=query_start_loc,
            block_size=block_size,
        )
        kernel.launch((-(-num_rows // self.meta.preprocess_rows),), step)

    def precopy(self, slots: SlotState, binding: Binding, idx_mapping: Array | None, num_rows: int) -> None:
        """Move the accepted state to the new running column; see `AlignKernels`."""
        if num_rows == 0 or binding.num_states == 0:
            return
        kernel = self._kernels["precopy"]
        if idx_mapping is None and "HAS_IDX_MAPPING" not in kernel.parameters:
            # Up to 0.26 runner V1 copied from the host; with the identity the kernel does the same copies.
            idx_mapping = slots.state_idx.new_tensor(range(num_rows))
        step = StepArguments(self, num_rows, slots=slots, binding=binding, idx_mapping=idx_mapping)
        kernel.launch((num_rows, binding.num_states, self._tiles_of(kernel)), step)

    def postprocess(
        self,
        slots: SlotState,
        binding: Binding,
        idx_mapping: Array | None,
        num_rows: int,
        block_size: int,
        counts: StepCounts | None = None,
    ) -> None:
        """Save the state at the block boundary; see `AlignKernels`."""
        if num_rows == 0 or binding.num_states == 0:
            return
        # Runner V1 has two buffers in every release; what differs is where V2 reads.
        read_from = "snapshot" if idx_mapping is None else self.caller.accepted
        if read_from == "snapshot":
            slots.num_accepted_snapshot.copy_(slots.num_accepted)
        kernel = self._kernels["postprocess"]
        step = StepArguments(
            self,
            num_rows,
            slots=slots,
            binding=binding,
            idx_mapping=idx_mapping,
            block_size=block_size,
            counts=counts,
            accepted_read=slots.num_accepted if read_from == "in_place" else slots.num_accepted_snapshot,
            accepted_written=slots.num_accepted,
        )
        kernel.launch((num_rows, binding.num_states, self._tiles_of(kernel)), step)

    def aligned_indices(
        self, binding: Binding, seq_lens: Array, num_rows_padded: int, block_size: int, out: Array
    ) -> None:
        """Block ids of each batch row's running and speculative columns; see `AlignKernels`."""
        kernel = self._kernels.get("indices")
        if kernel is None:
            self._own.aligned_indices(binding, seq_lens, num_rows_padded, block_size, out)
        elif num_rows_padded:
            step = StepArguments(
                self, num_rows_padded, binding=binding, seq_lens=seq_lens, block_size=block_size, out=out
            )
            grid = (-(-num_rows_padded // self.meta.index_rows),)
            kernel.launch(grid, step, num_warps=self.meta.index_warps)

    def _tiles_of(self, kernel: _Kernel) -> int:
        return self.tiles if "TEMPORAL_TILES" in kernel.parameters else 1


class _Kernel:
    """One function, and how to fill its parameters."""

    def __init__(self, module: ModuleType, signature: Signature) -> None:
        self.parameters = signature.parameters
        self._given = signature.given
        self._function = getattr(module, signature.name)
        self._getters = {name: attrgetter(path) for name, path in signature.parameters.items()}

    def launch(self, grid: tuple[int, ...], step: StepArguments, **options: int) -> None:
        self._function[grid](**{name: get(step) for name, get in self._getters.items()}, **self._given, **options)


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()
