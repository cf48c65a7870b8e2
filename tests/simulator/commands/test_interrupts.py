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
    # What names the errors of a command that has been read is imported before it is run.
    monkeypatch.setattr("stalerow.simulator.commands.cli.OWN_ERRORS", ("interrupted_command:Error",))
    assert main(["explain"]) == 130
    assert capsys.readouterr().err == "stalerow: interrupted\n"


def test_an_interrupt_in_the_process_that_runs_the_kernels_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt\n")
    (tmp_path / "program.py").write_text(
        "import sys\nfrom stalerow.simulator.commands import cli\n"
        "cli.OWN_ERRORS = ('slow:Error',)\nsys.exit(cli.main())\n"
    )
    program = [sys.executable, "program.py", "run", "2", "--kernels", "reference:req-idx"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stalerow: interrupted\n")


INTERRUPTED_WHEN_BUSY = """
import pathlib, signal, sys, time
from stalerow.simulator.campaign import workers
from stalerow.simulator.commands import cli

def interrupt(self, timeout=None):
    raise KeyboardInterrupt

if __name__ == "__main__":
    workers.Workers.wait = interrupt
    sys.exit(cli.main())
"""


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--num-prompts", "4000", "--jobs", "2"),
        ("fuzz", "--kernels", "reference:req-idx", "--runs", "50", "--jobs", "2"),
        ("compare", "--kernels", "batch-row", "req-idx", "--jobs", "2"),
        ("explore", "--kernels", "reference:req-idx", "--workloads", "--jobs", "2"),
    ],
    ids=lambda command: command[0],
)
def test_an_interrupt_waits_for_no_task(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Workers have begun what would take minutes."""
    (tmp_path / "program.py").write_text(INTERRUPTED_WHEN_BUSY)
    done = subprocess.run([sys.executable, "program.py", *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130
    assert "Traceback" not in done.stdout + done.stderr


def test_a_worker_that_is_only_starting_does_not_hear_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3 []\n", "")
