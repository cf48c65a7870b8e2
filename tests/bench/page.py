"""How large a page gets, how fast it opens and how fast it scrubs, in a headless Chromium.

    python tests/bench/page.py [REQUESTS [STEPS]]

Prints the events of the run, seconds to record it, bytes of the page, milliseconds until it has loaded, and what a move
of the slider and a turn of the wheel cost with everything in view: script and layout, and the frames that the browser
shows while it is moved once a frame.
"""

from __future__ import annotations

import statistics
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
from stalerow.simulator.subject.subject import Subject

MOVES = 300
FRAME_MS = 1000 / 60
SCRUB = """
page.fit();
const costs = [];
for (let i = 0; i < arguments[0]; i++) {
  const began = performance.now();
  page.go(Math.floor(i * page.last / arguments[0]));
  document.body.offsetHeight;
  costs.push(performance.now() - began);
}
return costs;
"""
WHEEL = """
page.fit();
const costs = [];
for (let i = 0; i < arguments[0]; i++) {
  const began = performance.now();
  page.zoom(i % 2 ? .8 : 1.25);
  document.body.offsetHeight;
  costs.push(performance.now() - began);
}
return costs;
"""
FRAMES = """
page.fit();
const [moves, done] = arguments, gaps = [];
let last = null, i = 0;
requestAnimationFrame(function frame(now) {
  if (last !== null) gaps.push(now - last);
  last = now;
  if (i > moves) return done(gaps);
  page.go(Math.floor(i++ * page.last / moves));
  requestAnimationFrame(frame);
});
"""


def told(name: str, costs: list[float]) -> str:
    costs = sorted(costs)
    late = sum(cost > FRAME_MS * 1.5 for cost in costs)
    return (
        f"{name}: median {statistics.median(costs):.1f} ms, 95th percentile {costs[int(len(costs) * 0.95)]:.1f} ms, "
        f"longest {costs[-1]:.1f} ms, {late} of {len(costs)} above a frame and a half"
    )


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
        print(f"{len(data):,} bytes, loaded after {loaded:.0f} ms")
        print(told("a move", session.execute_script(SCRUB, MOVES)))
        print(told("a zoom", session.execute_script(WHEEL, MOVES)))
        print(told("frames while moving", session.execute_async_script(FRAMES, MOVES)))


if __name__ == "__main__":
    main(*(int(given or default) for given, default in zip((sys.argv[1:] + ["", ""])[:2], (12, 60), strict=True)))
