"""What a campaign looks like: a line that stays up to date on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.commands.screen.results import console
from stalerow.simulator.draw.prose import say
from stalerow.simulator.oracle.explain.numbers import counted
from stalerow.simulator.oracle.violations import MARKS
from stalerow.simulator.subject.trust import replay_command

if TYPE_CHECKING:
    from stalerow.simulator.campaign.failures import Failure
    from stalerow.simulator.campaign.options import Options

LINE_EVERY_S = 10.0
RATE_OVER_S = 5.0
SLOWEST_SHOWN = 0.05
"""Schedules a second below which nothing is said of the rate while failures are shrunk: nothing new is tried then."""


def _refused(options: Options) -> tuple[str, str]:
    """Which schedules were skipped, and what that means if all were."""
    if options.subject.faults:
        return "without what the fault needs", "no schedule has what the fault needs"
    return "whose memory layout the release refuses", "the release refuses the memory layout of every schedule"


class Screen:
    """A campaign's listener. Findings go to standard output, the live line to standard error."""

    def __init__(self, options: Options, out: Console | None = None, err: Console | None = None) -> None:
        self._options = options
        self._out, self._err = out or console(), err or Console(stderr=True)
        self._live: Any = None
        self._last_line = time.monotonic()
        self._rate = [(time.monotonic(), 0)]

    def __enter__(self) -> Screen:
        self._say(configuration(self._options))
        if self._err.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._err, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self, tally: Tally, doing: Sequence[str]) -> None:
        line = self._line(tally, doing)
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self._err.print(line, markup=False, soft_wrap=True)

    def finding(self, finding: Finding) -> None:
        failure = finding.failure
        origin, schedule = failure.origin, failure.schedule
        self._say(f"\nFOUND {failure.kind} ({_seed(failure)}, {failure.subject})")
        if finding.drawing:
            self._copied(finding.drawing)
        elif failure.violation is not None:
            self._say(failure.violation.explanation)
        if failure.note:
            self._say(failure.note)
        if failure.shrunk:
            self._say(
                f"shrunk from {counted(origin.requests, 'request')} to {len(schedule.requests)} in "
                f"{counted(finding.runs, 'run')}; P={schedule.pipeline.pp} K={schedule.pipeline.drafts}, "
                f"{counted(schedule.order.deviations, 'deviation')} from canonical order"
            )
        self._commands(finding)

    def breach(self, finding: Finding) -> None:
        failure = finding.failure
        self._say(f"\n{failure.kind.upper()} at {_seed(failure)} with {failure.subject}: {failure.note}")
        if failure.kind == "determinism breach":
            self._say(
                "The same schedule must give the same bytes every time. Until it does, nothing that these kernels "
                "show can be replayed: look for clocks, random numbers, uninitialised memory or races in them."
            )
        self._commands(finding)

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def summary(self, tally: Tally, require_marks: bool) -> None:
        kinds = ", ".join(f"{k} {n}" for k, n in tally.kinds.most_common()) or "none"
        scouted = f" (and {tally.scouted} with its NumPy twin)" if tally.scouted else ""
        self._say(f"\n{counted(tally.schedules, 'schedule')}{scouted} in {tally.seconds:.1f} s; violating: {kinds}")
        if tally.skipped:
            self._say(f"skipped: {counted(tally.skipped, 'schedule')} {_refused(self._options)[0]}")
        seen = ", ".join(f"{m} {tally.marks[m]}" for m in MARKS if m in tally.marks) or "none"
        self._say(f"marks (schedules that had one): {seen}")
        if tally.missed:
            self._say(f"marks not seen: {', '.join(tally.missed)}")
            if require_marks:
                self._say("failed: --require-marks was given and marks are missing; run more seeds, or other ones")
        if tally.interrupted:
            self._say("interrupted: everything found so far is saved")
        for finding in [*tally.findings, *tally.breaches]:
            self._copied(f"{finding.failure.kind}: {finding.path}")
        if not tally.schedules and not (tally.findings or tally.breaches or tally.interrupted):
            why = _refused(self._options)[1] if tally.skipped else _nothing(self._options)
            self._say(f"nothing was run: {why}")
        elif not (tally.findings or tally.breaches or tally.interrupted):
            if tally.first_seen:
                self._say(f"the last new mark came {counted(tally.plateau, 'schedule')} ago")
            self._say(f"clean: no violation with {self._options.subject}")

    def _commands(self, finding: Finding) -> None:
        self._copied(f"seed:   {_seed(finding.failure).removeprefix('seed ')}")
        self._copied(f"saved:  {finding.path}")
        self._copied(f"replay: {replay_command(finding.path, finding.failure.subject)}")
        self._copied(f"        {finding.failure.origin.command}   (the seed, before shrinking)")

    def _line(self, tally: Tally, doing: Sequence[str]) -> str:
        now, count = time.monotonic(), tally.schedules + tally.scouted
        self._rate.append((now, count))
        while now - self._rate[0][0] > RATE_OVER_S and len(self._rate) > 2:
            self._rate.pop(0)
        before, base = self._rate[0]
        rate = (count - base) / max(now - before, 0.1)
        kinds = ", ".join(f"{k} {n}" for k, n in tally.kinds.most_common()) or "no violation"
        scouted = f" + {tally.scouted} scouted" if tally.scouted else ""
        busy = f" | shrinking {len(doing)}" if doing else ""
        speed = "" if doing and rate < SLOWEST_SHOWN else f", {rate:.1f}/s"
        marks = f"marks {len(tally.marks)}/{len(MARKS)}"
        return f"{counted(tally.schedules, 'schedule')}{scouted}{speed} | {kinds} | {marks}{busy}"

    def _say(self, text: str) -> None:
        say(self._target, text)

    def _copied(self, text: str) -> None:
        """Print what is not broken into lines: a drawing, which has its own, and what a reader copies."""
        self._target.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def _target(self) -> Console:
        return self._live.console if self._live is not None and self._out.is_terminal else self._out


def _nothing(options: Options) -> str:
    """Why a campaign ended without a schedule that ran to its end, and what to do."""
    if next(options.draws(), None) is None:
        i, n = options.shard
        return f"shard {i} of {n} has no seed of {options.runs}: give more --runs, or fewer shards"
    if options.seconds:
        return f"no schedule ended within {options.seconds:g} s: give more --time"
    return "no schedule ended"


def _seed(failure: Failure) -> str:
    draw = failure.origin.draw
    return "no seed" if draw is None else f"seed {draw.seed}"


def configuration(options: Options) -> str:
    """The drawn configuration: all that decides which schedules are run, and with what."""
    i, n = options.shard
    draw = options.draw
    last = f"{draw.seed} to {draw.seed + options.runs - 1}" if options.runs else f"{draw.seed} on"
    if options.seeds is not None:
        last = f"{draw.seed} and {counted(len(options.seeds) - 1, 'other')}"
    limit = f", at most {options.seconds:g} s" if options.seconds else ""
    shard = f", shard {i} of {n}" if n > 1 else ""
    fixed = {"P=": draw.pp, "runner ": draw.runner, "rules of ": draw.profile}
    drawn = ", ".join(f"{name}{value}" for name, value in fixed.items() if value is not None)
    drawn = drawn or "P, K, runner, layout, requests, aborts and order drawn"
    drawn += ", only what the engine may do" if draw.faithful else ""
    drawn += ", programs interleaved" if draw.interleave else ""
    twin = options.subject.twin(draw.interleave)
    lines = [
        f"kernels  {options.subject} (device {options.subject.device})",
        f"seeds    {last}{shard}{limit}",
        f"drawn    {drawn}",
        f"workers  {options.jobs}",
        f"failures {options.folder}",
    ]
    if options.universes:
        lines.append(f"packs    {options.universes} universes side by side, {options.families} layouts in turn")
    if twin is not None:
        lines.insert(1, f"scout    {twin.kernels}: runs ahead and shrinks; what it finds is confirmed by the kernels")
    return "\n".join(lines)
