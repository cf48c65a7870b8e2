"""Ctrl-C at any moment ends a command with 130 and one line, while it is imported and while its workers start."""

import subprocess
import sys
from pathlib import Path

import pytest

from stalerow.simulator.commands.cli import Command, main

SCRIPT = """
import os, pathlib, signal, time
from stalerow.simulator.campaign.workers import Workers

started, go = pathlib.Path("started"), pathlib.Path("go")
if __name__ != "__main__":  # a worker, which imports this file before it does anything else
    started.touch()
    while not go.exists():
        time.sleep(0.01)

if __name__ == "__main__":
    with Workers(1, abs) as workers:
        workers.submit(-3)
        while not started.exists():
            time.sleep(0.01)
        os.kill(workers._workers[0].process.pid, signal.SIGINT)
        go.touch()
        (done,) = workers.wait()
        print(done.value, workers.repeated())
"""


def test_an_interrupt_while_a_command_is_imported_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "interrupted_command.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["slow"], {"slow": Command("is interrupted", "interrupted_command")}) == 130
    assert capsys.readouterr().err == "stalerow: interrupted\n"


def test_a_worker_that_is_only_starting_does_not_hear_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3 []\n", "")
