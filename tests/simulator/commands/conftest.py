"""Puts the helpers of these tests on the path, and calls a command as its users do."""

import sys
from pathlib import Path

import pytest

from stalerow.simulator.commands.cli import main

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def stalerow(capsys, request):
    """Runs the command that the module names; gives the exit code and what it wrote to stdout and stderr."""

    def call(*arguments):
        code = main([request.module.COMMAND, *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call
