"""What a campaign finds: told, one of each kind, and saved where a command finds it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from stalerow.simulator.campaign import failures, findings
from stalerow.simulator.campaign.failures import Failure
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.trials import Reduction
from stalerow.simulator.oracle.violations import Violation
from stalerow.simulator.schedule.draw import Draw
from stalerow.simulator.subject.subject import Subject


class Listener(Protocol):
    """Who is told as things happen."""

    def tick(self, tally: Tally, doing: Sequence[str]) -> None: ...
    def finding(self, finding: Finding) -> None: ...
    def breach(self, finding: Finding) -> None: ...
    def note(self, text: str) -> None: ...


class Filing:
    """Files into `options.folder`, counts in `tally` and tells `listener`. `known`: (kind, launch) of what was found,
    of a run that was lost (kind, where). `over`: the campaign has what it was to find."""

    def __init__(self, options: Options, listener: Listener, tally: Tally) -> None:
        self._listener, self._tally = listener, tally
        self._folder, self._keep_going = options.folder, options.keep_going
        self.known: set[tuple[str, str]] = set()
        self.over = False

    def new(self, kind: str, where: str) -> bool:
        """Whether this is the first of its kind; it is known from now on."""
        if (kind, where) in self.known:
            return False
        self.known.add((kind, where))
        return True

    def found(self, failure: Failure, drawing: str = "", runs: int = 0) -> None:
        # Told first: a full disk must not take it along.
        finding = Finding(failure, failures.place(failure, self._folder), drawing, runs)
        self._tally.findings.append(finding)
        self.over = not self._keep_going
        try:
            self._listener.finding(finding)
        finally:
            self.save(failure)

    def breach(
        self,
        draw: Draw,
        subject: Subject,
        violation: Violation | None,
        digests: Sequence[str],
        note: str = "",
        kind: str = "determinism breach",
        parting: str = "",
    ) -> None:
        if not self.new(kind, ""):
            return
        note = note or f"runs of one schedule gave digests {', '.join(digests)}; {parting}"
        failure = findings.breach(draw, subject, violation, note, kind)
        finding = Finding(failure, failures.place(failure, self._folder))
        self._tally.breaches.append(finding)
        self.over = not self._keep_going
        try:
            self._listener.breach(finding)
        finally:
            self.save(failure)

    def save(self, failure: Failure) -> Path | None:
        """Where it is; None where the disk is full or the folder cannot be written, which is said."""
        try:
            return failures.save(failure, self._folder)
        except OSError as error:
            path = failures.place(failure, self._folder)
            self._listener.note(f"NOT SAVED: {path}: {error.strerror}; the seed's command makes it again")
            return None

    def unfinished(self, reductions: Iterable[Reduction]) -> None:
        """Save as found what was being shrunk, or waited for it, when the campaign was interrupted."""
        for reduction in reductions:
            failure = findings.unshrunk(reduction.seen, reduction.finder, "interrupted before it was shrunk")
            path = self.save(failure)
            if path is not None:
                self._listener.note(f"interrupted while shrinking; saved as found: {path}")
