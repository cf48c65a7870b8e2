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

OVERRIDES = {"_to_string": "llvmlite asks a type for its text"}
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
