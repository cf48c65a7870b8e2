"""Operators beside Triton's interpreter: tables and gather are interpreted, everything else runs as its reference.

The interpreter takes milliseconds a launch. What decides which block a copy kernel finds (table writes and the gather)
is interpreted like the kernels under test; the token bookkeeping, page fills and the stand-in forward work on the same
CPU memory through zero-copy NumPy views. `tests/kernels` holds each reference and its Triton twin equal, byte for byte.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from stalerow.kernels.base.device import Backend
from stalerow.kernels.base.memory import BlockTables, Pool, SlotState
from stalerow.kernels.own.forward import ForwardStep
from stalerow.kernels.own.operators import ReferenceOperators
from stalerow.kernels.own.operators_triton import TritonOperators

_REFERENCE = ReferenceOperators()


def _by_reference(launch: Callable[..., None]) -> Callable[..., None]:
    """`launch`, a specification, over NumPy views of the tensors that it is handed."""

    def run(self: InterpretedOperators, *arguments: Any) -> None:
        launch(*map(self.view, arguments))

    return run


class InterpretedOperators(TritonOperators):
    """`TritonOperators` on CPU tensors, with NumPy in place of the launches that are not worth interpreting."""

    seed_slots = _by_reference(_REFERENCE.seed_slots)
    seq_lens = _by_reference(_REFERENCE.seq_lens)
    post_update = _by_reference(_REFERENCE.post_update)
    advance_computed = _by_reference(_REFERENCE.advance_computed)
    scatter_accepted = _by_reference(_REFERENCE.scatter_accepted)
    fill_accepted = _by_reference(_REFERENCE.fill_accepted)
    fill_blocks = _by_reference(_REFERENCE.fill_blocks)
    copy_blocks = _by_reference(_REFERENCE.copy_blocks)
    forward = _by_reference(_REFERENCE.forward)

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._views: WeakKeyDictionary[Pool | BlockTables | SlotState, Any] = WeakKeyDictionary()

    def view(self, argument: Any) -> Any:
        """A tensor's NumPy view; a stand-in for a Pool, BlockTables or SlotState that holds views; else `argument`."""
        match argument:
            case Pool() | BlockTables() | SlotState():
                if argument not in self._views:
                    self._views[argument] = self._stand_in(argument)
                return self._views[argument]
            case ForwardStep():
                return ForwardStep(*map(self.view, argument))
            case _:
                return argument.numpy() if hasattr(argument, "numpy") else argument

    def _stand_in(self, owner: Pool | BlockTables | SlotState) -> Any:
        made = copy.copy(owner)
        for name, value in vars(owner).items():
            if isinstance(value, list):
                setattr(made, name, [array.numpy() for array in value])
            elif hasattr(value, "numpy"):
                setattr(made, name, value.numpy())
        return made
