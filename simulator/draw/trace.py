"""A `Record` as a Chrome trace, which Perfetto opens: a process per rank, a thread for its host and for each stream.

The format is the public "Trace Event Format": complete slices ("X") that nest, flows ("s", "f") bound to the slices
that enclose them, counters ("C"), instants ("i") and names ("M"). Timestamps are microseconds of virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stalerow.simulator.draw.finding import Finding, finding
from stalerow.simulator.draw.record import Event, Executed, Prepared, Processed, Record, Scheduled, Waited

ENGINE = 1
"""Process of the engine; rank r is process r + 2."""
HEADLINES = 1001
"""Processes from here on are the first violation's names: all that Perfetto shows before anything is unfolded."""
THREADS = {"engine": 1, "host": 1, "main": 2, "side": 3}
NAMES = {"engine": "engine", "host": "host", "main": "main stream", "side": "side stream"}

Json = dict[str, Any]


def trace(record: Record) -> bytes:
    """The trace as JSON, to be written to a file."""
    events = [*_names(record), *_headlines(record), *_Tracer(record).events()]
    about = {
        "kernels": record.kernels,
        "clock": "virtual time: the run's order of events, durations of the serving cost model",
        "digest": record.digest,
        "again": record.again,
    }
    return msgspec.json.encode({"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}) + b"\n"


def _process(event: Event) -> int:
    return ENGINE if event.actor == "engine" else event.rank + 2


def _names(record: Record) -> Iterator[Json]:
    """Names and order of processes and threads."""
    threads = {(_process(e), e.actor) for e in record.events}
    for pid in range(ENGINE, record.pp + 2):
        name = "engine" if pid == ENGINE else f"rank {pid - 2}"
        yield _meta("process_name", pid, 0, name=name)
        yield _meta("process_sort_index", pid, 0, sort_index=pid)
    for pid, actor in sorted(threads, key=lambda t: (t[0], THREADS[t[1]])):
        yield _meta("thread_name", pid, THREADS[actor], name=NAMES[actor])
        yield _meta("thread_sort_index", pid, THREADS[actor], sort_index=THREADS[actor])


def _headlines(record: Record) -> Iterator[Json]:
    """The first violation's names as processes of one long slice each, since only names of processes are in view."""
    found = finding(record)
    if found is None:
        return
    end = max((e.end for e in record.events), default=1)
    args = msgspec.to_builtins(found.violation) | _named(found)
    for pid, line in enumerate(headlines(found), HEADLINES):
        yield _meta("process_name", pid, 0, name=f"{line} |")
        yield _meta("thread_name", pid, 1, name="first violation")
        yield {
            "ph": "X",
            "name": found.violation.explanation,
            "cat": "finding",
            "pid": pid,
            "tid": 1,
            "ts": 0,
            "dur": end,
            "args": args,
        }


def headlines(found: Finding) -> list[str]:
    """What must be named at first sight, in lines that a narrow column holds."""
    violation, move = found.violation, found.move
    during = f", run in step {violation.during}" if violation.during != violation.step else ""
    place = f"rank {violation.rank}" if violation.rank >= 0 else "engine"
    meant = f", meant {move.source} to {move.target}" if move else ""
    lines = [
        f"FOUND {violation.kind}",
        f"for {found.meant}, touched {found.other}" if found.other else f"for {found.meant}" if found.meant else "",
        f"step {violation.step}{during}, {place}",
        f"table row {found.row}, of step {found.table}" if found.stale else "",
        f"block {found.source} to {found.target}{meant}" if found.source >= 0 and found.target >= 0 else "",
    ]
    return [line for line in lines if line]


def _meta(what: str, pid: int, tid: int, **args: Any) -> Json:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


class _Tracer:
    """Walks the events once and remembers where arrows begin."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._finding = finding(record)
        self._sent: dict[tuple[str, int, int], Event] = {}
        self._flows = 0
        self._drafts = self._accepted = 0

    def events(self) -> Iterator[Json]:
        for first, members in self._steps():
            yield from self._outer(first, members)
        for event in self._record.events:
            if isinstance(event.what, Waited):
                continue
            yield self._slice(event)
            yield from self._arrows(event)
            yield from self._counters(event)
            for index in event.violations:
                yield self._violation(event, index)
        found = {i for e in self._record.events for i in e.violations}
        last = self._record.events[-1:]
        for index in range(len(self._record.violations)):
            if index not in found and last:
                yield self._violation(last[0], index)

    def _steps(self) -> Iterator[tuple[Event, list[Event]]]:
        """Launches of one step that follow each other on one stream: they nest in a slice of the step."""
        open_: dict[int, list[Event]] = {}
        for event in self._record.events:
            if event.actor != "main" or not isinstance(event.what, Executed):
                continue
            run = open_.get(event.rank)
            if run and isinstance(run[0].what, Executed) and run[0].what.step != event.what.step:
                yield run[0], run
                run = None
            open_.setdefault(event.rank, [])
            open_[event.rank] = [*run, event] if run else [event]
        for run in open_.values():
            yield run[0], run

    def _outer(self, first: Event, members: list[Event]) -> Iterator[Json]:
        assert isinstance(first.what, Executed)
        yield self._complete(first, f"step {first.what.step}", members[-1].end, {"launches": len(members)})

    def _complete(self, event: Event, name: str, end: int, args: Json) -> Json:
        return {
            "ph": "X",
            "name": name,
            "cat": event.actor,
            "pid": _process(event),
            "tid": THREADS[event.actor],
            "ts": event.start,
            "dur": end - event.start,
            "args": args,
        }

    def _slice(self, event: Event) -> Json:
        args: Json = {"event": event.number} | msgspec.to_builtins(event.what)
        args.pop("type")
        return self._complete(event, _title(event), event.end, args)

    def _arrows(self, event: Event) -> Iterator[Json]:
        """Steps to hosts, activations to the next rank, sampled tokens to the side stream and on, deferred results."""
        what, last = event.what, self._record.pp - 1
        if isinstance(what, Scheduled):
            self._sent["step", 0, what.step] = event
        elif isinstance(what, Prepared):
            yield from self._flow("step", self._sent.get(("step", 0, what.step)), event)
            self._sent["enqueue", event.rank, what.step] = event
        elif isinstance(what, Processed):
            yield from self._flow("output", self._sent.get(("output", 0, what.step)), event)
        elif isinstance(what, Executed):
            if what.launch == "forward":
                yield from self._flow("activations", self._sent.get(("forward", event.rank - 1, what.step)), event)
                self._sent["forward", event.rank, what.step] = event
            elif what.launch == "sample":
                self._sent["output", 0, what.step] = self._sent["sample", 0, what.step] = event
            elif what.launch == "broadcast":
                yield from self._flow("sampled tokens", self._sent.get(("sample", 0, what.step)), event)
                self._sent["broadcast", 0, what.step] = event
            elif what.launch == "post_update" and event.rank != last:
                sent = self._sent.get(("broadcast", 0, what.of)) or self._sent.get(("sample", 0, what.of))
                yield from self._flow("sampled-token broadcast", sent, event)
            elif what.launch == "postprocess" and what.of != what.step:
                yield from self._flow("deferred result", self._sent.get(("forward", event.rank, what.of)), event)

    def _flow(self, name: str, begin: Event | None, end: Event) -> Iterator[Json]:
        if begin is None:
            return
        self._flows += 1
        for ph, event, at in (("s", begin, begin.start), ("f", end, end.start)):
            yield {
                "ph": ph,
                "id": self._flows,
                "name": name,
                "cat": "flow",
                "pid": _process(event),
                "tid": THREADS[event.actor],
                "ts": at,
                **({"bp": "e"} if ph == "f" else {}),
            }

    def _counters(self, event: Event) -> Iterator[Json]:
        if event.actor != "engine":
            return
        yield self._counter(event, "steps", "in flight", event.in_flight)
        if isinstance(event.what, Scheduled):
            yield self._counter(event, "blocks", "in use", event.what.used)
        if isinstance(event.what, Processed):
            self._drafts += sum(o.drafts for o in event.what.outputs)
            self._accepted += sum(o.accepted for o in event.what.outputs)
            if self._drafts:
                yield self._counter(event, "drafts", "accepted %", round(100 * self._accepted / self._drafts, 1))

    def _counter(self, event: Event, name: str, series: str, value: float) -> Json:
        return {"ph": "C", "name": name, "pid": ENGINE, "tid": 0, "ts": event.end, "args": {series: value}}

    def _violation(self, event: Event, index: int) -> Json:
        violation = self._record.violations[index]
        args: Json = msgspec.to_builtins(violation) | {"event": event.number}
        if index == 0 and self._finding is not None:
            args |= _named(self._finding)
        return {
            "ph": "i",
            "s": "t",
            "name": f"VIOLATION: {violation.kind}",
            "cat": "violation",
            "pid": _process(event),
            "tid": THREADS[event.actor],
            "ts": event.start,
            "args": args,
        }


def _title(event: Event) -> str:
    match event.what:
        case Scheduled(step=step):
            return f"schedule {step}"
        case Processed(step=step):
            return f"process {step}"
        case Waited():
            return "wait"
        case Prepared(step=step):
            return f"prepare {step}"
        case Executed(launch=launch, of=of, step=step):
            return f"{launch} of {of}" if of != step else launch


def _named(found: Finding) -> Json:
    """What a reader must be able to name, under the names that a reader would look for."""
    move = found.move
    return {
        "where": found.where,
        "meant request": found.meant,
        "other request": found.other,
        "table row": found.row,
        "lookup": found.lookup,
        "block written": found.target,
        "block read": found.source,
        "block that was meant": move.target if move else -1,
    }
