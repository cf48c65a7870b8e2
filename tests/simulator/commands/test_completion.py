"""What `stalerow completion` prints completes commands, options and names in a real shell."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from stalerow.kernels.sets import KERNEL_SETS
from stalerow.scenarios.program import COMMANDS, main
from stalerow.simulator.commands.answers import CompletionAnswer

pytest.importorskip("shtab", reason="needs shtab (extra stalerow[completion])")


def script(shell, capsys):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def test_the_script_stands_in_the_answer_too(tmp_path, capsys):
    path = tmp_path / "answer.json"
    assert main(["completion", "bash", "--json"]) == 0
    alone = msgspec.json.decode(capsys.readouterr().out, type=CompletionAnswer)
    assert main(["completion", "bash", "--json", str(path)]) == 0
    assert capsys.readouterr().out == alone.script + "\n"
    assert msgspec.json.decode(path.read_bytes(), type=CompletionAnswer) == alone
    assert (alone.shell, "_shtab_stalerow" in alone.script) == ("bash", True)


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    return tmp_path_factory.mktemp("bash")


def completed(folder, text, *words):
    """What bash would offer after these words, the last of which is unfinished."""
    (folder / "script").write_text(text)
    line = " ".join(f"'{word}'" for word in ("stalerow", *words))
    offer = "_shtab_stalerow; printf '%s\\n' \"${COMPREPLY[@]}\""
    ask = f"source ./script; COMP_WORDS=({line}); COMP_CWORD={len(words)}; {offer}"
    done = subprocess.run(["bash", "--norc", "-c", ask], cwd=folder, capture_output=True, text=True)
    assert not done.stderr
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_names(bash, capsys):
    text = script("bash", capsys)
    assert completed(bash, text, "") >= set(COMMANDS)
    assert completed(bash, text, "fuzz", "--see") == {"--seed", "--seeds"}
    assert completed(bash, text, "failures", "prune", "--f") == {"--fixed", "--failures"}
    assert completed(bash, text, "run", "6", "--kernels", "refer") == {k for k in KERNEL_SETS if k.startswith("refer")}
    assert "early-free" in completed(bash, text, "fuzz", "--fault", "early")
    assert completed(bash, text, "replay", "scr") == {"script"}
    assert completed(bash, text, "fuzz", "--device", "inter") == {"interpreter"}


def typed_into_zsh(folder, keys):
    """What an interactive zsh shows after these keys, once its completion has been set up as the page says."""
    (folder / ".zshrc").write_text(
        "autoload -Uz compinit; compinit -u -d $ZDOTDIR/dump\n"
        'eval "$(cat $ZDOTDIR/script)"\nunsetopt zle_bracketed_paste; PS1="ready> "; LISTMAX=1000\n'
    )
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-i"], {**os.environ, "ZDOTDIR": str(folder), "TERM": "dumb", "COLUMNS": "200"})
    shown, sent, quiet = "", False, time.monotonic() + 3600
    while time.monotonic() < quiet:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                break
        if "ready> " in shown and not sent:
            os.write(terminal, keys.encode())
            shown, sent = "", True
        if sent and shown.count("--see") > 1:
            break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    return shown


def test_zsh_completes_options(tmp_path, capsys):
    text = script("zsh", capsys)
    assert text.startswith("#compdef stalerow")
    assert [name for name in COMMANDS if f"    {name}:" not in text] == []
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    (tmp_path / "script").write_text(text)
    shown = typed_into_zsh(tmp_path, "stalerow fuzz --see\t\t")
    assert "--seeds" in shown


def test_without_shtab_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'stalerow[completion]'" in capsys.readouterr().err
