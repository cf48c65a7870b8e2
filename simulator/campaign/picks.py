"""The first pass of shrinking: the generator's picks, from those that the seed made, by Hypothesis."""

from __future__ import annotations

from stalerow.simulator.campaign.candidates import Candidates
from stalerow.simulator.schedule.choosers.recorded import RecordedChooser
from stalerow.simulator.schedule.choosers.recording import RecordingChooser
from stalerow.simulator.schedule.draw import Draw, Runner
from stalerow.simulator.schedule.generate import HOLDS, ORDER_LABELS, PP_SIZES, chooser_of, generate
from stalerow.simulator.schedule.values import Schedule


def by_hypothesis(candidates: Candidates, draw: Draw) -> Schedule | None:
    """The smallest failing schedule that Hypothesis comes to from the draw's own; None if it cannot start from that."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from stalerow.simulator.schedule.choosers.known import KnownFailure, unhurried
    from stalerow.simulator.schedule.strategies import schedules

    start, pp = _recorded(draw)
    start = _without_parts(candidates, _canonical(candidates, start, pp, draw.runner), pp, draw.runner)
    best: Schedule | None = None

    @settings(
        # Hypothesis starts from the failures in its database: that is how one of ours is handed to it.
        database=KnownFailure([pick.choice for pick in start.picks]),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        max_examples=1,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @seed(0)
    @given(schedules(pp=pp, runner=draw.runner))
    def search(candidate: Schedule) -> None:
        nonlocal best
        if candidates.fails(candidate):
            best = candidate
            raise _Found

    try:
        with unhurried():
            search()
    except _Found:
        return best
    return None


class _Found(Exception):
    """Tells Hypothesis that a candidate fails."""


def _recorded(draw: Draw) -> tuple[RecordingChooser, int | None]:
    """The picks that make the draw's schedule, and what is left of its pp: a size on offer becomes a pick.

    One rank that was asked for stays: the generator's own smallest has two.
    """
    pp, runner = draw.pp, draw.runner
    recording = RecordingChooser(chooser_of(draw))
    made = generate(recording, pp, runner)
    if pp != 1 and pp in PP_SIZES:
        size = PP_SIZES.index(pp)
        choices = [size if p.label == "pp" else p.choice for p in recording.picks]
        as_pick = RecordingChooser(RecordedChooser(choices))
        if generate(as_pick, None, runner) == made:
            return as_pick, None
    return recording, pp


def _canonical(
    candidates: Candidates, start: RecordingChooser, pp: int | None, runner: Runner | None
) -> RecordingChooser:
    """In canonical order, if it fails in that too: few failures need an order of their own."""
    choices = [p.choice for p in start.picks if not p.label.startswith(ORDER_LABELS)]
    at = next(i for i, p in enumerate(start.picks) if p.label.startswith(ORDER_LABELS))
    canonical = RecordingChooser(RecordedChooser([*choices[:at], 0, 0, *choices[at:]]))
    return canonical if candidates.fails(generate(canonical, pp, runner)) else start


def _without_parts(
    candidates: Candidates, start: RecordingChooser, pp: int | None, runner: Runner | None
) -> RecordingChooser:
    """Leave out requests and holds first: Hypothesis would rather keep many small ones than few."""
    position = len(start.parts)
    while position and not candidates.spent:
        position -= 1
        less = RecordingChooser(RecordedChooser(_leaving_out(start, position)))
        # The generator has its own idea of the fewest: it may put back what was left out.
        fewer = candidates.fails(generate(less, pp, runner)) and len(less.parts) < len(start.parts)
        if fewer:
            start, position = less, len(less.parts)
    return start


def _leaving_out(recording: RecordingChooser, part: int) -> list[int]:
    """The choices without one part, and the count that governs it lowered by one."""
    begin, end = recording.parts[part]
    labels = [p.label for p in recording.picks]
    choices = [p.choice for p in recording.picks]
    if labels[begin].startswith("hold"):
        at = labels.index("holds")
        choices[at] = HOLDS.index(max(HOLDS[choices[at]] - 1, 0))
    else:
        at = labels.index("requests")
        choices[at] -= 1
    return choices[:begin] + choices[end:]
