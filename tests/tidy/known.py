"""What the rules let pass, each with its reason. The lists may only shrink: an entry that is not needed fails."""

MOST_LINES = 320
"""Of any Python file."""

CALLED_FROM_OUTSIDE = {
    "simulator/conform/driver_vllm.py": "stands in for an engine's classes: the engine calls it",
    "simulator/conform/trace.py": "fields of a recorded file",
    "simulator/testing/plugin.py": "pytest calls hooks by name",
    "simulator/worker/inside/device.py": "stands in for a device stream: the engine calls it",
    "simulator/worker/inside/model.py": "stands in for a model: the engine calls it",
    "simulator/worker/inside/pipeline.py": "stands in for a process group: the engine calls it",
}
"""Files whose definitions are used by name from outside of the repository."""

DISCOVERED = {"Fault": "faults.registry finds them by their `name`"}
"""Base classes whose subclasses are found, not named."""

OVERRIDES = {
    "_to_string": "llvmlite asks a type for its text",
    "delete": "Hypothesis asks an example database for it",
}
"""Definitions that a library calls."""


BELOW = ("schedule", "engine", "truth", "rank")
ABOVE = (
    "oracle",
    "run",
    "faults",
    "universes",
    "serve",
    "conform",
    "worker",
    "campaign",
    "draw",
    "explore",
    "subject",
    "commands",
)
"""Folders of `simulator/`: those below know none of those above."""

KNOWS_ANYWAY: dict[str, str] = {}
"""Pairs of folders where the lower one knows the higher one."""

FACE = ("__init__.py", "errors.py", "files.py")
"""Loose files of `simulator/`: what every folder may raise, and how files are read and written."""

NOT_OURS = {
    "mine.py": "a user's own file in examples",
    "mine.toml": "a user's own file in examples",
    "mamba_utils.py": "an engine's file",
    "replayssm_utils.py": "an engine's file",
    "utils.py": "an engine's file",
}
"""File names that text may mention though no such file is kept."""

MAY_SAY: dict[str, str] = {}
"""Files with a word in them that no other text may have."""

KNOW_REQUESTS: dict[str, str] = {}
"""Files of `kernels/` that know requests."""

NOT_SHIPPED = ("simulator/docs/", "simulator/README.md")
"""What lies in the packages' folders for readers of the repository alone."""

MIRRORED = (
    "simulator/campaign/",
    "simulator/commands/screen/",
    "simulator/draw/",
    "simulator/oracle/",
    "simulator/rank/",
)
"""Folders whose every module has a test file of its own."""

WITHOUT_OWN_TESTS: dict[str, str] = {}
"""Modules of these that have none."""

FOR_TESTS = {
    "simulator/commands/answers.py:ANSWERS": "all that commands answer with: tests hold docs and schemas against it",
    "simulator/engine/block_pool.py:free_queue": "the order of the queue is what its tests state, and nobody else's",
    "simulator/engine/block_pool.py:ref_count": "invariants add up who holds a block",
}
"""Definitions that nothing but tests uses."""

_ARGUMENTS = "kernels over the same arrays: Triton passes each argument by itself, so heads and calls repeat"
_HEAD = "a form of a protocol repeats the head, which the type check compares"
_TABLE = "a backend says of every launch what runs it"

WRITTEN_TWICE = {
    ("kernels/align/postprocess_triton.py:postprocess_kernel", "kernels/align/precopy_triton.py:precopy_kernel"): (
        _ARGUMENTS
    ),
    (
        "kernels/own/forward_triton_read.py:read_states_kernel",
        "kernels/own/forward_triton_write.py:write_states_kernel",
    ): _ARGUMENTS,
    ("kernels/own/forward_triton_read.py:read_kv_kernel", "kernels/own/forward_triton_write.py:write_kv_kernel"): (
        _ARGUMENTS
    ),
    ("kernels/own/tables_triton.py:apply_writes", "kernels/own/update_triton.py:seed_slots"): _ARGUMENTS,
    (
        "kernels/own/universes.py:UniverseOperators.check_pages",
        "kernels/own/universes_triton.py:TritonUniverses.check_pages",
    ): _HEAD,
    ("kernels/own/operators.py:ReferenceOperators", "kernels/own/operators_triton.py:TritonOperators"): _TABLE,
    ("kernels/own/operators_interpreted.py:InterpretedOperators", "kernels/own/operators_triton.py:TritonOperators"): (
        _TABLE
    ),
    ("simulator/engine/recurrent.py:RecurrentManager.__init__", "simulator/engine/window.py:WindowManager.__init__"): (
        "subclasses of one base are made of what it is made of, which the type check compares"
    ),
    ("simulator/rank/operations.py", "simulator/rank/operations.py"): "a vocabulary: a struct for each kind, all alike",
    ("kernels/external/convention.py:convention", "kernels/own/forward_triton.py:TritonForward._launch"): (
        "ten arguments that are called what they are, alike by chance"
    ),
}
"""Pairs of places that share lines: a file, or a file and a definition in it, and why both have them."""
