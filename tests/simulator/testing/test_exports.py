"""The public module: what it exports, that all of it says what it is, and that importing it costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.simulator import testing

NAMES = """
AlignKernels CampaignSummary Fault IsolationError KernelSet Outcome Schedule Subject UnknownKernelSet
UsageError Violation assert_isolated from_seed fuzz kernel_set load load_settings run schedules to_json
"""
PUBLIC = NAMES.split()


def test_what_is_exported_is_what_users_rely_on() -> None:
    assert testing.__all__ == PUBLIC
    assert dir(testing) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_name_says_what_it_is(name: str) -> None:
    found = getattr(testing, name)
    assert found.__doc__
    assert not found.__doc__.startswith(f"{name}(")  # what dataclass and NamedTuple say by themselves


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(testing.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {s.module: tuple(a.name for a in s.names) for s in block.body if isinstance(s, ast.ImportFrom)}
    assert seen == testing._HOMES


def test_a_name_that_is_not_exported_is_refused() -> None:
    with pytest.raises(
        AttributeError, match=r"no attribute 'assert_isolate': it exports AlignKernels, CampaignSummary"
    ):
        _ = testing.assert_isolate


def test_importing_it_and_the_plugin_loads_nothing_heavy() -> None:
    program = (
        "import sys\nimport stalerow.simulator.testing\nimport stalerow.simulator.testing.plugin\n"
        "print(sorted({'torch', 'triton', 'numpy', 'hypothesis', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
