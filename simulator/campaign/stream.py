"""Trials of one subject, given out and taken back in the order of draws."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.trials import Trial
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

RUN_AGAIN_EVERY = 16


class TrialStream:
    """The trials of one subject, given out and taken back in the order of draws."""

    def __init__(self, subject: Subject, draws: Iterator[Draw], again: bool, schedule_s: float | None = None) -> None:
        self._schedule_s = schedule_s
        self.subject, self._draws, self._again = subject, draws, again
        self._order: deque[int] = deque()
        self._ended: dict[int, Done] = {}
        self.given = 0
        self.exhausted = False

    def next(self) -> Trial | None:
        draw = next(self._draws, None)
        if draw is None:
            self.exhausted = True
            return None
        again = self._again and self.given % RUN_AGAIN_EVERY == 0
        self.given += 1
        return Trial(draw, self.subject, 2 if again else 1, self._schedule_s)

    def gave(self, ticket: int) -> None:
        self._order.append(ticket)

    def took(self, done: Done) -> Iterator[Done]:
        """Keep a result; yields those whose turn it is."""
        self._ended[done.ticket] = done
        while self._order and self._order[0] in self._ended:
            yield self._ended.pop(self._order.popleft())
