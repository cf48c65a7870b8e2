"""Which form of the project's own operators runs on a backend: references, Triton kernels, or a mixture."""

from __future__ import annotations

from stalerow.kernels.base.device import Backend
from stalerow.kernels.own.lanes import LaneOperators, ReferenceLanes
from stalerow.kernels.own.operators import Operators, ReferenceOperators


def operators(backend: Backend) -> Operators:
    """The operators that run on `backend`."""
    if backend.name == "numpy":
        return ReferenceOperators()
    if backend.name == "triton-interpreter":
        from stalerow.kernels.own.operators_interpreted import InterpretedOperators

        return InterpretedOperators(backend)
    from stalerow.kernels.own.operators_triton import TritonOperators

    return TritonOperators(backend)


def lane_operators(backend: Backend) -> LaneOperators:
    """The lane operators that run on `backend`."""
    if backend.name == "numpy":
        return ReferenceLanes()
    from stalerow.kernels.own.lanes_triton import TritonLanes

    return TritonLanes(backend)
