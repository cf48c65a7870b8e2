"""What is said where an engine's environment is missing, and what is put in front of it."""

import pytest

from stalerow.simulator.commands.cli import main
from stalerow.simulator.errors import UsageError
from stalerow.simulator.worker.environment import BASE, environment


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STALEROW_CACHE", str(tmp_path))
    monkeypatch.delenv("STALEROW_WORKER_PYTHON", raising=False)
    monkeypatch.delenv("STALEROW_WORKER_RELEASES", raising=False)


@pytest.fixture
def python(tmp_path):
    path = tmp_path / "python3"
    path.write_text("")
    return str(path)


def test_a_missing_python_names_the_command_that_makes_it_and_its_size():
    with pytest.raises(UsageError, match=r"run 'stalerow worker setup' \(3\.5 GB"):
        environment("vllm==0.32.0")


def test_fuzz_without_an_environment_is_a_usage_error(capsys):
    assert main(["fuzz", "--worker", "vllm==0.32.0", "--runs", "1"]) == 2
    assert "stalerow worker setup" in capsys.readouterr().err


def test_the_base_release_needs_nothing_in_front(python):
    assert environment(f"vllm=={BASE}", python).front == ()


def test_a_release_that_is_not_fetched_names_the_command(python):
    with pytest.raises(UsageError, match=r"run 'stalerow worker setup vllm==0\.33\.0'"):
        environment("vllm==0.33.0", python)


@pytest.mark.parametrize("number", ["0.28.0", "0.35.0", "banana", "0"])
def test_other_releases_are_refused_by_number(python, number):
    with pytest.raises(UsageError, match=r"known are the releases from 0\.29 to 0\.34"):
        environment(f"vllm=={number}", python)


def test_a_checkout_goes_in_front(python, tmp_path):
    (tmp_path / "branch" / "vllm").mkdir(parents=True)
    (tmp_path / "branch" / "vllm" / "__init__.py").write_text("")
    assert environment(str(tmp_path / "branch"), python).front == (str(tmp_path / "branch"),)


def test_a_folder_without_the_engine_is_refused(python, tmp_path):
    with pytest.raises(UsageError, match=r"holds vllm/__init__\.py"):
        environment(str(tmp_path), python)


def test_faults_are_for_our_own_ranks(python, capsys):
    arguments = ["fuzz", "--worker", f"vllm=={BASE}", "--python", python, "--fault", "stale-row", "--runs", "1"]
    assert main(arguments) == 2
    assert "no --fault" in capsys.readouterr().err
