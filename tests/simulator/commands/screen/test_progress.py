"""Progress goes to standard error: a bar on a terminal, and elsewhere the title at once and a line now and then."""

import os
import pty
import sys

from stalerow.simulator.commands.screen import progress as module
from stalerow.simulator.commands.screen.progress import progress


def test_elsewhere_the_title_is_said_at_once_and_nothing_more_soon(capsys):
    with progress("3 runs", 3) as advance:
        assert capsys.readouterr().err == "3 runs\n"
        for _ in range(3):
            advance()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "")


def test_elsewhere_what_is_done_is_said_every_few_seconds(capsys, monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    with progress("3 runs", 3) as advance:
        advance()
        advance()
    assert capsys.readouterr().err == "3 runs\n  1/3\n  2/3\n"


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(monkeypatch, capsys):
    main, side = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(side, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress("3 runs", 3) as advance:
            advance()
            advance()
        terminal.flush()
        said = os.read(main, 65536).decode()
    os.close(main)
    assert "3 runs" in said
    assert "2/3" in said
    assert said.rstrip().endswith("\x1b[2K")
    assert capsys.readouterr().out == ""
