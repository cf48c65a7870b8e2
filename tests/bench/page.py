"""How large a page gets, how fast it opens and how fast it scrubs, in a headless Chromium.

    python tests/bench/page.py [REQUESTS [STEPS]]

Prints the events of the run, seconds to record it, bytes of the page, milliseconds until it has loaded, and for one
move of the slider with everything in view.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "simulator" / "draw"))

import msgspec
from browser import chromium

from stalerow.scenarios.loader import catalogue
from stalerow.simulator.draw.html import page
from stalerow.simulator.draw.recorder import recorded
from stalerow.simulator.run.subject import Subject

MOVES = 100
SCRUB = """
page.fit();
const began = performance.now();
for (let i = 0; i < arguments[0]; i++) page.go(Math.floor(i * page.last / arguments[0]));
return (performance.now() - began) / arguments[0];
"""


def main(requests: int, steps: int) -> None:
    schedule = catalogue()["stale-row"].schedule
    assert schedule is not None
    first = schedule.requests[0]
    many = tuple(
        msgspec.structs.replace(first, id=f"q{i}", arrival=1 + i, stream=i, max_tokens=18) for i in range(requests)
    )
    schedule = msgspec.structs.replace(
        schedule,
        requests=many,
        limits=msgspec.structs.replace(schedule.limits, max_steps=steps),
        pipeline=msgspec.structs.replace(schedule.pipeline, pp=4),
    )
    began = time.perf_counter()
    record = recorded(schedule, Subject(kernels="reference:req-idx").run, "reference:req-idx")
    print(f"{len(record.events)} events of {record.steps} steps recorded in {time.perf_counter() - began:.1f} s")
    data = page([record])
    with tempfile.TemporaryDirectory() as folder, chromium() as session:
        path = Path(folder) / "page.html"
        path.write_bytes(data)
        session.get(path.as_uri())
        loaded = session.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        move = session.execute_script(SCRUB, MOVES)
        print(f"{len(data):,} bytes, loaded after {loaded:.0f} ms, {move:.1f} ms a move")


if __name__ == "__main__":
    main(*(int(given or default) for given, default in zip((sys.argv[1:] + ["", ""])[:2], (12, 60), strict=True)))
