"""Which form of the project's own operators runs on a backend: references, Triton kernels, or a mixture."""

from __future__ import annotations

from stalerow.kernels.base.device import Backend
from stalerow.kernels.own.operators import Operators, ReferenceOperators
from stalerow.kernels.own.universes import ReferenceUniverses, UniverseOperators


def operators(backend: Backend) -> Operators:
    """The operators that run on `backend`."""
    if backend.name == "numpy":
        return ReferenceOperators()
    if backend.name == "triton-interpreter":
        from stalerow.kernels.own.operators_interpreted import InterpretedOperators

        return InterpretedOperators(backend)
    from stalerow.kernels.own.operators_triton import TritonOperators

    return TritonOperators(backend)


def universe_operators(backend: Backend) -> UniverseOperators:
    """The universe operators that run on `backend`."""
    if backend.name == "numpy":
        return ReferenceUniverses()
    from stalerow.kernels.own.universes_triton import TritonUniverses

    return TritonUniverses(backend)
