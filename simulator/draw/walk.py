"""Walks a run: to a step or to the violation, or event by event, forward and back.

Where nobody can be asked, it prints every event and what it changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from stalerow.simulator.draw.charset import ascii_only
from stalerow.simulator.draw.film import Frame, filmed
from stalerow.simulator.draw.prose import say
from stalerow.simulator.oracle.explain.numbers import counted

if TYPE_CHECKING:
    from stalerow.simulator.draw.film import Run
    from stalerow.simulator.run.outcome import Outcome
    from stalerow.simulator.schedule.values import Schedule

Until = int | Literal["violation"]
KEYS = (
    ("Enter, →", "on"),
    ("b, ←", "back"),
    ("v", "next violation"),
    ("V", "violation before"),
    ("NUMBER", "to that event"),
    ("step NUMBER", "to where every rank has run it"),
    ("s", "state: tables, slots, rows, blocks"),
    ("c", "what this event changed in it"),
    ("g, Home", "first event"),
    ("G, End", "last event"),
    ("?", "keys"),
    ("q", "quit"),
)
SHORT = "Enter on, b back, v violation, s state, ? keys, q quit"
NARROW = "Enter b v s ? q"
ARROWS = (("C", "n"), ("D", "b"), ("H", "g"), ("F", "G"))
"""What terminals send after an escape for right, left, Home and End, and the answer that each stands for."""


def walk(
    run: Run,
    schedule: Schedule,
    out: Console,
    *,
    until: Until | None = None,
    ask: Callable[[str], str] | None = None,
    events: bool = False,
) -> None:
    """Run to `until` (None: from the start) and show the state; with `events`, go on event by event.

    `until` is a step that every rank has to have run, or the first violation. `ask` prompts for what to do next; None
    prints the state after every event.
    """
    frames, outcome, error = filmed(run, schedule)
    walker = _Walker(frames, out)
    at = walker.find(until) if until is not None else 0
    if until is not None:
        walker.arrived(until, at, outcome)
    if frames and (until is None or (events and at is not None)):
        if ask is None:
            walker.print_from(at or 0, shown=until is not None)
        else:
            walker.talk(at or 0, ask, shown=until is not None)
    if error is not None:
        raise error
    if outcome is not None and (until is None or at is None):
        violations = counted(len(outcome.violations), "violation")
        out.print(f"end of run: {outcome.steps} steps, {violations}, digest {outcome.digest}", markup=False)


def asker() -> Callable[[str], str] | None:
    """Asks whoever sits at the terminal, arrow keys being answers by themselves; None where nobody can be asked."""
    if not sys.stdin.isatty():
        return None
    with suppress(ImportError):  # a Python without it takes lines only
        import readline

        for letter, answer in ARROWS:
            for lead in ("\\e[", "\\eO"):
                readline.parse_and_bind(f'"{lead}{letter}": "\\C-a\\C-k{answer}\\C-m"')
    return input


class _Walker:
    def __init__(self, frames: Sequence[Frame], out: Console) -> None:
        self._frames, self._out = frames, out

    def find(self, until: Until) -> int | None:
        """The first event by which `until` has come about."""
        if until == "violation":
            return self._violation(-1, 1)
        return next((i for i, frame in enumerate(self._frames) if frame.ran >= until), None)

    def arrived(self, until: Until, at: int | None, outcome: Outcome | None) -> None:
        """Say where the walk stands, and show the state there."""
        what = "the first violation" if until == "violation" else f"step {until}"
        if at is None:
            steps = f" after step {outcome.steps}" if outcome is not None else ""
            self._say(f"the run ended{steps}, before {what}: this is its last state")
            at = len(self._frames) - 1
        else:
            reached = "the first violation" if until == "violation" else f"every rank has run {what}"
            self._say(f"after event {at + 1} ({self._frames[at].actor}): {reached}")
            self._event(at)
        if at >= 0:
            self._state(at)
            self._violations(at)

    def print_from(self, first: int, shown: bool) -> None:
        """Every event and the parts of the state that it changed."""
        for i in range(first + shown, len(self._frames)):
            self._event(i)
            self._changed(i)

    def talk(self, at: int, ask: Callable[[str], str], shown: bool) -> None:
        """Show an event, ask where to go, and so on until told to end."""
        if not shown:
            self._event(at)
        while True:
            keys = SHORT if self._out.width >= 72 else NARROW
            try:
                answer = ask(f"[{at + 1}/{len(self._frames)}] {keys} > ").strip()
            except EOFError:  # Ctrl-D
                return
            if answer == "q":
                return
            moved = self._moved(at, answer)
            if moved is None:
                self._answer(at, answer)
            elif 0 <= moved < len(self._frames):
                at = moved
                self._event(at)
            else:
                self._say("there is no event that way")

    def _moved(self, at: int, answer: str) -> int | None:
        """The event that an answer asks for, -1 if there is none; None for an answer that does not move."""
        last = len(self._frames) - 1
        moves = {"": at + 1, "n": at + 1, "b": at - 1, "g": 0, "G": last}
        if answer in moves:
            return moves[answer]
        if answer in ("v", "V"):
            found = self._violation(at, 1 if answer == "v" else -1)
            return -1 if found is None else found
        words = answer.split()
        if len(words) == 1 and words[0].isascii() and words[0].isdecimal():
            return int(words[0]) - 1
        if len(words) == 2 and words[0] == "step" and words[1].isascii() and words[1].isdecimal():
            found = self.find(int(words[1]))
            return -1 if found is None else found
        return None

    def _answer(self, at: int, answer: str) -> None:
        if answer == "s":
            self._state(at)
            self._violations(at)
        elif answer == "c":
            self._changed(at)
        else:
            if answer != "?":
                self._say(f"{answer!r} is none of the keys:")
            for key, text in KEYS:
                key = key.replace("→", "right").replace("←", "left") if ascii_only() else key
                self._say(f"  {key:<12} {text}")

    def _violation(self, at: int, direction: int) -> int | None:
        range_ = range(at + 1, len(self._frames)) if direction > 0 else range(at - 1, -1, -1)
        return next((i for i in range_ if self._frames[i].violation), None)

    def _event(self, at: int) -> None:
        for i, line in enumerate(self._frames[at].lines):
            self._say(f"[{at + 1}] {line}" if i == 0 else line)

    def _violations(self, at: int) -> None:
        for frame in self._frames[: at + 1]:
            for line in frame.lines[1:]:
                self._say(line.strip())

    def _state(self, at: int) -> None:
        for part in self._frames[at].parts:
            self._say(part)

    def _changed(self, at: int) -> None:
        before = self._frames[at - 1].parts if at else ()
        for part in self._frames[at].parts:
            if part not in before:
                self._say(part)

    def _say(self, text: str) -> None:
        say(self._out, text)
