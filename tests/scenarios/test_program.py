"""The installed program knows the catalogue; the simulator by itself does not."""

from importlib.metadata import entry_points

import pytest

from stalerow.scenarios import program
from stalerow.simulator.commands import cli


def test_the_console_script_is_the_program() -> None:
    (script,) = entry_points(group="console_scripts", name="stalerow")
    assert script.load() is program.main


def test_the_program_has_the_simulators_commands_and_the_catalogues() -> None:
    assert set(program.COMMANDS) - set(cli.COMMANDS) == {"scenarios"}


def test_the_simulator_alone_refuses_the_catalogues_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["scenarios", "list"])
    assert caught.value.code == 2
    assert "invalid choice: 'scenarios'" in capsys.readouterr().err
