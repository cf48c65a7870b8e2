"""What faults did not put to the question: a clean result that tested nothing must not look like one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stalerow.simulator.run.outcome import FaultUse
    from stalerow.simulator.subject.subject import Subject


def untested(subject: Subject, uses: Sequence[FaultUse], say: Callable[[str], None]) -> int:
    """Say which faults lacked what they need and which of their hooks were never called; 2 if that is all of them."""
    if not subject.faults:
        return 0
    from stalerow.simulator.faults import resolve

    notes, nothing = resolve(subject.faults).untested(uses)
    for note in notes:
        say(note)
    if nothing:
        say("nothing was tested: run other schedules, or correct the fault")
    return 2 if nothing else 0
