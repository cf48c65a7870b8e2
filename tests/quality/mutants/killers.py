"""Which tests of the suite know a mutated file best: they are asked first, since they answer in seconds."""

from __future__ import annotations

from collections.abc import Mapping

_ALIGN = ("tests/kernels/align/test_align_kernels.py", "tests/kernels/align/test_one_request.py")
_OWN = ("tests/kernels/own/test_operators.py",)
_RECORDED = ("tests/simulator/conform/test_recorded_traces.py",)
_WORDS = ("tests/simulator/oracle/test_words.py", "tests/simulator/oracle/test_blame.py")
_PACKS = ("tests/simulator/universes/test_launches.py", "tests/simulator/universes/test_packs.py")
_RUNS = ("tests/simulator/run/test_digest.py",)


def _engine(*names: str) -> tuple[str, ...]:
    return (*(f"tests/simulator/engine/test_{name}.py" for name in names), *_RECORDED)


def _rank(*names: str) -> tuple[str, ...]:
    return (*(f"tests/simulator/rank/test_{name}.py" for name in names), *_RUNS)


def _oracle(*names: str) -> tuple[str, ...]:
    return (*(f"tests/simulator/oracle/test_{name}.py" for name in names), *_WORDS)


KILLERS: Mapping[str, tuple[str, ...]] = {
    "kernels/align/copy.py": _ALIGN,
    "kernels/align/precopy.py": _ALIGN,
    "kernels/align/preprocess.py": _ALIGN,
    "kernels/align/postprocess.py": _ALIGN,
    "kernels/align/indices.py": _ALIGN,
    "kernels/align/copy_triton.py": ("tests/kernels/align/test_copy_tiles.py", *_ALIGN),
    "kernels/align/precopy_triton.py": _ALIGN,
    "kernels/align/preprocess_triton.py": _ALIGN,
    "kernels/align/postprocess_triton.py": _ALIGN,
    "kernels/align/indices_triton.py": _ALIGN,
    "kernels/own/blocks.py": _OWN,
    "kernels/own/blocks_triton.py": _OWN,
    "kernels/own/tables.py": _OWN,
    "kernels/own/tables_triton.py": _OWN,
    "kernels/own/update.py": _OWN,
    "kernels/own/update_triton.py": _OWN,
    "kernels/base/binding.py": ("tests/kernels/base/test_binding.py", *_RUNS),
    "kernels/base/layout.py": ("tests/kernels/base/test_layout.py", *_RUNS),
    "kernels/base/memory.py": _OWN,
    "simulator/rank/v2.py": _rank("staged_contents"),
    "simulator/rank/v1.py": _RUNS,
    "simulator/rank/ring.py": _rank("ring"),
    "simulator/rank/slots.py": _rank("slots"),
    "simulator/rank/batch.py": _rank("batch"),
    "simulator/rank/staging.py": _rank("staging"),
    "simulator/rank/base.py": _rank("operations"),
    "simulator/rank/policy.py": _rank("policy"),
    "simulator/engine/recurrent.py": _engine("recurrent_columns"),
    "simulator/engine/managers.py": _engine("prefix_cache", "limits"),
    "simulator/engine/block_pool.py": _engine("block_pool"),
    "simulator/engine/scheduler.py": _engine("engine_core"),
    "simulator/engine/outputs.py": _engine("drafts"),
    "simulator/engine/cache.py": _engine("prefix_cache"),
    "simulator/engine/policies.py": _engine("policies", "preemption"),
    "simulator/engine/admission.py": _engine("prefix_cache"),
    "simulator/oracle/effect.py": _oracle("effect"),
    "simulator/oracle/ledger.py": _oracle("ledger"),
    "simulator/oracle/watch.py": _oracle(),
    "simulator/oracle/slots.py": _oracle("slots"),
    "simulator/oracle/expected.py": _oracle("expected"),
    "simulator/oracle/judge.py": _oracle("repeated_forward"),
    "simulator/oracle/shadow.py": _oracle("shadow", "repeated_forward"),
    "simulator/oracle/resources.py": _oracle("resources"),
    "simulator/oracle/explain/bookkeeping.py": _oracle(),
    "simulator/oracle/explain/copies.py": _oracle(),
    "simulator/universes/pack.py": _PACKS,
    "simulator/universes/batches.py": _PACKS,
    "simulator/universes/group.py": _PACKS,
    "simulator/universes/record.py": _PACKS,
    "simulator/universes/rank_memory.py": _PACKS,
    "simulator/universes/memory.py": _PACKS,
    "simulator/universes/execute.py": _PACKS,
}
"""Test files by mutated file, the shortest first."""
