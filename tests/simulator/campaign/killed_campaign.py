"""Runs a campaign in this process and kills the process after so many results: FOLDER RESULTS [--resume]."""

import os
import signal
import sys
from pathlib import Path

from stalerow.simulator.campaign import fuzz, shrink, trials
from stalerow.simulator.campaign.executors import InProcess
from stalerow.simulator.run.subject import Subject

RUNS = 12


class Quiet:
    def __getattr__(self, name):
        return lambda *told: None


class Killed(fuzz.Campaign):
    left = int(sys.argv[2])

    def _executor(self, notes):
        return InProcess(trials.do)

    def _take(self, done):
        super()._take(done)
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


fuzz.NOTE_S = 0.0
shrink.BUDGET = 2
options = fuzz.Options(
    subject=Subject(kernels="reference:batch-row"),
    runs=RUNS,
    keep_going=True,
    folder=Path(sys.argv[1]),
    resume="--resume" in sys.argv,
)
tally = Killed(options, Quiet()).run()
print(tally.schedules, sorted(tally.kinds.items()), sorted(tally.marks.items()), sorted(tally.first_seen.items()))
