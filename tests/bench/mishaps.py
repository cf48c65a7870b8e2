"""Kills at random moments and disks that fill up: nothing found is lost, no file is broken, every exit code is right.

    python tests/bench/mishaps.py --kills 40 --disks 20

Kills: a campaign is killed again and again and goes on with --resume; it must come to what an undisturbed one does.
Disks: commands that write may write so many bytes to a file and no more, as on a full disk.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stalerow.simulator.campaign import failures

PROGRAM = [sys.executable, "-m", "stalerow.scenarios.program"]
BATCH_ROW = ("--kernels", "reference:batch-row", "--jobs", "1")
CAMPAIGN = ("fuzz", *BATCH_ROW, "--seed", "0", "--runs", "24", "--keep-going")
WRITERS = (
    (("fuzz", *BATCH_ROW, "--seed", "7", "--runs", "1"), 1),
    (("fuzz", *BATCH_ROW, "--seed", "7", "--runs", "1", "--json", "sums.json", "--html", "page.html"), 1),
    (("run", "7", "--kernels", "reference:batch-row", "--quiet", "--save", "s.json"), 1),
    (("replay", "7", "--kernels", "reference:batch-row", "--html", "r.html", "--trace", "r.trace.json"), 1),
    (("compare", *BATCH_ROW, "--pp", "2", "--runner", "v2", "--seeds", "7:8", "--json", "c.json"), 1),
)


def kills(count: int, moments: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        whole, parts = Path(name, "whole"), Path(name, "parts")
        for folder in (whole, parts):
            folder.mkdir()
        assert subprocess.run([*PROGRAM, *CAMPAIGN], cwd=whole, capture_output=True).returncode == 1
        before: set[str] = set()
        killed = 0
        while killed < count:
            resume = ("--resume",) if any(parts.glob(".stalerow/campaigns/*.json")) else ()
            process = subprocess.Popen([*PROGRAM, *CAMPAIGN, *resume], cwd=parts, stdout=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.1, 6.0))
            if process.poll() is not None:  # done before the kill: from the start again
                assert process.returncode == 1, process.returncode
                for path in parts.glob(".stalerow/campaigns/*.json"):
                    path.unlink()
                continue
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            found = failures.saved(parts / failures.FOLDER)
            assert all(failures.load(path).problems == () for path in found)
            names = {path.name for path in found}
            assert before <= names, before - names
            before = names
        resume = ("--resume",) if any(parts.glob(".stalerow/campaigns/*.json")) else ()
        assert subprocess.run([*PROGRAM, *CAMPAIGN, *resume], cwd=parts, capture_output=True).returncode == 1
        ends = [
            {path.name: failures.load(path).failure for path in failures.saved(folder / failures.FOLDER)}
            for folder in (whole, parts)
        ]
        assert ends[0].keys() <= ends[1].keys(), ends[0].keys() - ends[1].keys()
        assert all(ends[1][name] == failure for name, failure in ends[0].items())
        assert not list((parts / failures.FOLDER).glob(".*.tmp"))
    print(f"{count} kills: {len(ends[0])} findings of an undisturbed campaign, all there and equal")


def disks(count: int, sizes: random.Random) -> None:
    kept = 0
    for number in range(count):
        command, code = WRITERS[number % len(WRITERS)]
        room = 0 if number < len(WRITERS) else sizes.randrange(1, 40_000)

        def no_room(room: int = room) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

        with tempfile.TemporaryDirectory() as name:
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(
                [*PROGRAM, *command], cwd=name, capture_output=True, text=True, preexec_fn=no_room, env=environment
            )
            said = done.stdout + done.stderr
            where = f"{' '.join(command)} with {room} bytes: {done.returncode}\n{said}"
            assert "Traceback" not in said, where
            # A file that was asked for by name and cannot be written is an error; what was found is told all the same.
            assert done.returncode in (code, 2), where
            assert done.returncode == code or done.stderr.count("stalerow: error: ") == 1, where
            if command[0] == "fuzz":
                assert "FOUND cross-request copy (seed 7" in said, where
                assert "stalerow replay 7 --kernels reference:batch-row" in said, where
                written = failures.saved(Path(name) / failures.FOLDER)
                assert all(failures.load(path).problems == () for path in written), where
                assert written or "NOT SAVED" in said, where
                kept += bool(written)
    print(f"{count} full disks: every finding told, {kept} files whole")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--disks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.kills:
        kills(args.kills, random.Random(args.seed))
    if args.disks:
        disks(args.disks, random.Random(args.seed))


if __name__ == "__main__":
    main()
