"""A campaign: seeds in order over worker processes, the first failure of each kind shrunk, drawn and saved.

Results are taken in the order of seeds whatever order workers finish in, so a campaign finds the same failure with any
number of jobs. Triton kernels under the interpreter are a hundred times slower than their NumPy twin: the twin scouts
ahead and shrinks, and what it finds counts once the kernels in question have confirmed it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from stalerow.simulator.campaign import failures, findings, journal, leases
from stalerow.simulator.campaign.executors import Executor, InProcess
from stalerow.simulator.campaign.filing import Filing, Listener
from stalerow.simulator.campaign.findings import Tally
from stalerow.simulator.campaign.journal import Journal
from stalerow.simulator.campaign.leases import Leases
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.process import Done
from stalerow.simulator.campaign.stream import TrialStream
from stalerow.simulator.campaign.trials import Reduced, Reduction, Seen, Trial, do
from stalerow.simulator.campaign.workers import TICK_S, Workers, abandoned
from stalerow.simulator.draw.picture import width_here
from stalerow.simulator.errors import UsageError
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject

if TYPE_CHECKING:
    from stalerow.simulator.campaign.scan import Universe

SCOUTS_AHEAD = 64
LEASE = 8
"""Seeds that go to a machine of a cluster at a time."""
SHRINK_AT_LEAST_S = 10.0
NOTE_S = 1.0
"""How often a campaign writes down how far it has come: at most so much is done again after a kill."""


class Campaign:
    """Runs `options` and tells `listener`; `tally` is right at every moment."""

    def __init__(self, options: Options, listener: Listener) -> None:
        self.options, self.listener, self.tally = options, listener, Tally()
        self._filing = Filing(options, listener, self.tally)
        self.subject, self.twin = options.subject, options.subject.twin(options.draw.interleave)
        self._flagged: dict[Draw, Universe] = {}
        self._explained: set[str] = set()
        self._begin(options.draws(), options.draws())
        self._reducing: dict[int, Reduction] = {}
        self._queued: deque[Reduction] = deque()
        self._scouted: dict[Draw, Seen] = {}
        self._journal = Journal(asked=journal.asked(options))
        self._journal_file, self._journal_saved = journal.file_of(options), 0.0
        if options.resume:
            self._resume()

    def _resume(self) -> None:
        self._journal = journal.load(self.options)
        self._journal.restore(self.tally)
        settled = self._journal.settled
        self._begin(islice(self.options.draws(), settled, None), islice(self.options.draws(), settled, None))
        for stream in (self._real, self._scouts):
            if stream is not None:
                stream.given = settled
        self._queued.extend(self._journal.pending)
        self._filing.known = set(self._journal.known)
        self._filing.over = self._journal.over
        self.tally.scouted = 0 if self.twin is None else settled

    def _note(self) -> None:
        """Write down how far the campaign has come."""
        if self.options.universes:
            return
        noted = self._journal
        noted.note(self.tally)
        noted.pending = [*self._reducing.values(), *self._queued]
        noted.known, noted.over = sorted(self._filing.known), self._filing.over
        # A full disk costs --resume what came after the last note, and not the campaign.
        with contextlib.suppress(OSError):
            journal.save(noted, self._journal_file)
        self._journal_saved = time.monotonic()

    def _executor(self, notes: Path) -> Executor:
        if self.options.ray is None and not self.options.jobs:
            return InProcess(do)
        if self.options.ray is None:
            return Workers(self.options.jobs, do, notes)
        from stalerow.simulator.campaign.clusters import RayCluster

        return Leases(RayCluster(leases.do, self.options.ray or None), do, Trial, LEASE)

    def _begin(self, draws: Iterator[Draw], scouted: Iterator[Draw]) -> None:
        limit = self.options.schedule_s
        self._real = TrialStream(self.subject, draws, self.twin is None, limit)
        self._scouts = None if self.twin is None else TrialStream(self.twin, scouted, False, limit)

    def run(self) -> Tally:
        """Until the seeds or the time are used up, or the first finding unless told to keep going, or Ctrl-C."""
        failures.sweep(self.options.folder)
        if self.options.universes and not self._scan(self.options.universes):
            return self.tally
        notes = self.options.folder.parent / "running"
        for path, text in abandoned(notes):
            self.listener.note(f"an earlier campaign was killed while at: {text.strip()}")
            path.unlink(missing_ok=True)
        self._note()
        try:
            with self._executor(notes) as workers:
                self._loop(workers)
                if not self._filing.over:
                    self._explain_refusals()
        except KeyboardInterrupt:
            self.tally.interrupted = True
            self._filing.unfinished([*self._reducing.values(), *self._queued])
        self._note()
        return self.tally

    def _scan(self, universes: int) -> bool:
        """Run packs first, so that only what they flag is left to run alone; whether there is any."""
        from stalerow.simulator.campaign.scan import Scan

        options = self.options
        scan = Scan(
            self.subject,
            options.draws(),
            universes,
            options.families,
            options.jobs,
            options.seconds,
            options.keep_going,
            options.schedule_s,
        )
        flagged = scan.run(self.tally, lambda: self.listener.tick(self.tally, ()))
        self.listener.note(f"{len(flagged)} of {scan.scanned} schedules flagged in packs of {universes}")
        if not scan.scanned:
            self.listener.note("no pack ended in time: give more time, or fewer universes")
        for universe in scan.unlike:
            self._filing.breach(universe.draw, self.subject, None, (), universe.unlike)
        self._flagged = {universe.draw: universe for universe in flagged}
        draws = [universe.draw for universe in flagged]
        self._begin(iter(draws), iter(draws))
        self.options = dataclasses.replace(options, seconds=None)
        return bool(draws) and not (self._filing.over or self.tally.interrupted)

    def _loop(self, workers: Executor) -> None:
        while not self._filing.over:
            while workers.idle and (task := self._next()) is not None:
                ticket = workers.submit(task)
                if isinstance(task, Reduction):
                    self._reducing[ticket] = task
                else:
                    self._stream(task).gave(ticket)
            if not workers.running or (self._late() and not self._reducing):
                return
            for done in workers.wait(TICK_S):
                self._take(done)
            for text in workers.repeated():
                self.listener.note(text)
            if time.monotonic() - self._journal_saved >= NOTE_S:
                self._note()
            self.listener.tick(self.tally, [str(r) for r in self._reducing.values()])

    def _next(self) -> Trial | Reduction | None:
        if self._queued:
            return self._queued.popleft()
        settled = self._reducing and not self.options.keep_going
        if settled or self._late():
            return None
        scouts = self._scouts
        if scouts and not scouts.exhausted and scouts.given < self._real.given + SCOUTS_AHEAD:
            task = scouts.next()
            if task is not None:
                return task
        return self._real.next()

    def _left(self) -> float | None:
        """Seconds for shrinking a finding of now: what is left of the campaign's, but enough to be of use."""
        limit = self.options.seconds
        return None if limit is None else max(limit - self.tally.seconds, SHRINK_AT_LEAST_S)

    def _late(self) -> bool:
        limit = self.options.seconds
        return limit is not None and time.monotonic() - self.tally.began >= limit

    def _stream(self, task: Trial) -> TrialStream:
        return self._real if task.subject == self.subject else self._scouts or self._real

    def _take(self, done: Done) -> None:
        if isinstance(done.task, Reduction):
            self._reducing.pop(done.ticket)
            self._reduced(done)
            return
        stream = self._stream(done.task)
        for turn in stream.took(done):
            self._tried(turn)
            self._journal.settled += stream is self._real

    def _tried(self, done: Done) -> None:
        """A seed's result, in the order of seeds."""
        trial: Trial = done.task
        universe = self._flagged.get(trial.draw)
        if universe and (done.died or done.hung or done.error or done.value.violation or done.value.differs):
            self._explained.add(universe.refused)
        if done.died or done.hung:
            return self._lost(trial, done)
        if done.error is not None:
            return self._raised(trial.draw, trial.subject, done)
        seen: Seen = done.value
        if seen.skipped:
            self.tally.faults += seen.faults
            self.tally.skipped += trial.subject == self.subject
            return None
        self._count(trial, seen)
        if seen.differs:
            return self._filing.breach(trial.draw, trial.subject, seen.violation, seen.digests, parting=seen.parting)
        if trial.subject == self.subject and self._unlike_its_pack(seen):
            return None
        if trial.subject == self.subject and self._disagrees(seen):
            return None
        if seen.violation is not None:
            self._failed(trial, seen)
        return None

    def _count(self, trial: Trial, seen: Seen) -> None:
        self.tally.faults += seen.faults
        if trial.subject != self.subject:
            self.tally.scouted += 1
            self._scouted[seen.draw] = seen
            return
        self.tally.count(seen.marks, seen.violation.kind if seen.violation else None)

    def _unlike_its_pack(self, seen: Seen) -> bool:
        """Whether a schedule that a pack flagged shows nothing alone, or other memory."""
        universe = self._flagged.get(seen.draw)
        if universe is None or universe.refused:
            return False
        exact = seen.bounded and not self.subject.on_gpu()
        unlike = universe.differs(seen.memory, seen.violation is not None, exact)
        if unlike:
            self._filing.breach(seen.draw, self.subject, seen.violation, (), unlike)
        return bool(unlike)

    def _explain_refusals(self) -> None:
        """A pack that was refused though each of its schedules is clean alone must not pass for clean."""
        refused = {u.refused: u.draw for u in reversed(self._flagged.values()) if u.refused}
        for text, draw in refused.items():
            if text not in self._explained:
                note = f"{text}, and none of them fails alone"
                self._filing.breach(draw, self.subject, None, (), note, "internal error")

    def _disagrees(self, seen: Seen) -> bool:
        """Whether the twin, which specifies the kernels, came to another result where both stay in bounds."""
        scout = self._scouted.pop(seen.draw, None)
        if scout is None or not (scout.bounded and seen.bounded) or scout.digests[0] == seen.digests[0]:
            return False
        if seen.violation is not None and scout.violation is None:
            return False
        digests = (seen.digests[0], scout.digests[0])
        self._filing.breach(
            seen.draw, self.subject, seen.violation, digests, f"{self.twin} and {self.subject} disagree"
        )
        return True

    def _failed(self, trial: Trial, seen: Seen) -> None:
        assert seen.violation is not None
        key = (seen.violation.kind, seen.violation.launch)
        stopping = not self.options.keep_going and (self._reducing or self._queued)
        if stopping or not self._filing.new(*key):
            return
        budget = (self.options.schedule_s, self._left())
        reduction = Reduction(seen, self.subject, trial.subject, *budget, width=width_here())
        if trial.subject == self.subject:
            # Saved at once, unshrunk; shrinking overwrites the file.
            self._filing.save(findings.unshrunk(seen, trial.subject, "not shrunk yet"))
        self._queued.append(reduction)

    def _reduced(self, done: Done) -> None:
        reduction: Reduction = done.task
        seen, violation = reduction.seen, reduction.seen.violation
        assert violation is not None
        if done.died or done.hung or done.error is not None:
            why = done.died or done.hung or str(done.error)
            self._filing.found(findings.unshrunk(seen, reduction.finder, f"shrinking ended early: {why}"))
            return
        reduced: Reduced = done.value
        if reduced.differing:
            self._filing.breach(seen.draw, reduction.subject, violation, reduced.differing, parting=reduced.parting)
            return
        if not reduced.confirmed:
            self._filing.known.discard((violation.kind, violation.launch))
            self.listener.note(
                f"{seen.draw}: {reduction.finder} fails ({violation.kind}) where {self.subject} does not"
            )
            return
        if reduction.finder != self.subject:
            # The confirming run is the first of these kernels that failed.
            self.tally.count(reduced.marks, reduced.violation.kind)
        failure = findings.shrunk(seen, reduction.subject, reduced)
        self._filing.found(failure, reduced.drawing, reduced.runs)

    def _lost(self, trial: Trial, done: Done) -> None:
        """A draw whose run killed its process or never returned is a finding of its own kind; it is not shrunk."""
        failure = findings.crash(trial, done.died) if done.died else findings.hang(trial, done.hung)
        # The line that a hang is at when its time is up is one of a loop's, and how long it had depends on the trial.
        key = (failure.kind, done.died or done.hung.partition("it was at ")[2].rpartition(":")[0])
        self.tally.count((), failure.kind)
        if self._filing.new(*key):
            self._filing.found(failure)

    def _raised(self, draw: Draw, subject: Subject, done: Done) -> None:
        if isinstance(done.error, UsageError):
            raise done.error
        self._filing.breach(draw, subject, None, (), f"{done.error}\n{done.trace}", "internal error")
