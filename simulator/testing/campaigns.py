"""A campaign from Python: what `stalerow fuzz` does, with its summary as a value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stalerow.simulator.campaign import failures
from stalerow.simulator.campaign.findings import Finding, Tally
from stalerow.simulator.campaign.fuzz import Campaign
from stalerow.simulator.campaign.options import Options
from stalerow.simulator.campaign.summary import CampaignSummary, of_campaign
from stalerow.simulator.errors import UsageError
from stalerow.simulator.subject.subject import Subject


class _Silent:
    """Nobody is told while a campaign goes on."""

    def tick(self, tally: Tally, doing: Sequence[str]) -> None: ...
    def finding(self, finding: Finding) -> None: ...
    def breach(self, finding: Finding) -> None: ...
    def note(self, text: str) -> None: ...


def fuzz(
    subject: Subject | str,
    seeds: Sequence[int],
    *,
    seconds: float | None = None,
    jobs: int = 0,
    keep_going: bool = True,
    folder: str | os.PathLike[str] = failures.FOLDER,
    resume: bool = False,
) -> CampaignSummary:
    """Run the schedules of `seeds` in order; the first failure of each kind is shrunk and saved in `folder`.

    `subject` may be a kernel set's name. It ends with the seeds, after `seconds`, or at the first failure unless told
    to `keep_going`. `jobs`: worker processes, which a script may only start under `if __name__ == "__main__"`; with 0
    it all happens in this process. `resume`: go on with the campaign of the same arguments after it was interrupted.
    Raises `UsageError` for a subject that is not known or a campaign that is not there.
    """
    if not seeds:
        raise UsageError("no seeds: give one at least")
    if jobs < 0:
        raise UsageError(f"jobs={jobs}: give the number of worker processes, or 0 for none")
    options = Options(
        subject=Subject(kernels=subject) if isinstance(subject, str) else subject,
        runs=len(seeds),
        seeds=tuple(seeds),
        seconds=seconds,
        jobs=jobs,
        keep_going=keep_going,
        folder=Path(folder),
        resume=resume,
    )
    return of_campaign(options, Campaign(options, _Silent()).run())
