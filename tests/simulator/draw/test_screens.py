"""What commands show in a real terminal, byte for byte: at 80 columns and at 40, in colour and without it."""

import re

import pytest

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.schedule.file import to_json

from .snapshots import check
from .terminal import plain, session

SEED_BUG = ("--kernels", "reference:batch-row")
COMPARED = ("--runner", "v2", "--pp", "1", "2", "--seeds", "0:8", "--jobs", "1")
FUZZED = ("--kernels", "reference:req-idx", "--fault", "null-state", "--runs", "1", "--jobs", "1")
COMMANDS = {
    "run": ("run", "seed-bug.json", *SEED_BUG, "--quiet"),
    "run-events": ("run", "short.json", *SEED_BUG),
    "replay": ("replay", "seed-bug.json", *SEED_BUG),
    "compare": ("compare", *SEED_BUG, "reference:req-idx", *COMPARED),
    "fuzz": ("fuzz", *FUZZED),
}
SHOWN = [*((name, 80) for name in COMMANDS), ("replay", 40), ("run-events", 40), ("fuzz", 40)]
COPIED = re.compile(r"^(replay:|saved:|run it again|        stalerow|[a-z -]+: \.stalerow)")
"""Lines that are printed whole, since a reader copies them."""


@pytest.fixture
def folder(tmp_path):
    schedule = catalogue()["stale-row"].schedule
    (tmp_path / "seed-bug.json").write_bytes(to_json(schedule))
    short = catalogue()["null-state"].schedule
    (tmp_path / "short.json").write_bytes(to_json(short))
    return tmp_path


@pytest.mark.parametrize(("name", "columns"), SHOWN)
def test_a_command_looks_like_this(folder, name, columns):
    _, text = session(COMMANDS[name], folder, columns, NO_COLOR="1")
    text = re.sub(r"in \d+\.\d s", "in # s", plain(text))
    assert [line for line in text.splitlines() if len(line) > columns and not COPIED.match(line)] == []
    check(f"{name}-{columns}.txt", "\n".join(line.rstrip() for line in text.splitlines()))


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=["colour", "no colour", "dumb"],
)
def test_colour_says_nothing_that_the_text_does_not(folder, env, coloured):
    code, text = session(COMMANDS["replay"], folder, 80, **env)
    assert code == 1
    assert ("\x1b[31m" in text or "\x1b[1;31m" in text) is coloured
    _, without = session(COMMANDS["replay"], folder, 80, NO_COLOR="1")
    assert [line.rstrip() for line in plain(text).splitlines()] == [
        line.rstrip() for line in plain(without).splitlines()
    ]


def test_the_picture_is_what_is_in_view_when_a_replay_ends(folder):
    """A terminal of 40 lines still shows the names."""
    _, text = session(COMMANDS["replay"], folder, 80, NO_COLOR="1")
    last = "\n".join(text.splitlines()[-40:])
    for name in ("cross-request copy", "working for r3, touched r4's memory", "table row 0 was r3's in step 6"):
        assert name in last


def test_arrow_keys_walk_and_letters_still_do(folder):
    right, left, home, end = "\x1b[C", "\x1bOD", "\x1b[H", "\x1b[F"
    typed = [("quit > ", keys) for keys in (right, right, left, end, home, "v\n", left, "3\n", "q\n")]
    code, text = session((*COMMANDS["replay"], "--step"), folder, 80, typed, NO_COLOR="1")
    assert code == 0
    places = [int(place) for place in re.findall(r"\[(\d+)/\d+\] Enter", text)]
    last = int(re.search(r"\[1/(\d+)\]", text)[1])
    violation = places[6]
    assert places == [1, 2, 3, 2, last, 1, violation, violation - 1, 3]
    assert f"[{violation}]" in text
    assert "!! cross-request copy" in text
