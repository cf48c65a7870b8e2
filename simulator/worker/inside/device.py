"""The device of a rank as the engine sees it: streams, events, and launches that an observer may look at.

Everything runs as soon as it is enqueued.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Observer = Callable[[str], None]

_current: list[Any] = []
observers: list[Observer] = []
"""Told the name of each launch right after it ran; the last entry is the one in charge."""


class Stream:
    """A stream on which everything has already happened."""

    def __init__(self, *_: Any, **__: Any) -> None:
        import torch

        self.device = torch.device("cpu")
        self.receives: list[Callable[[], bool]] = []

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        self.record_event().synchronize()

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        _current.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.pop()


class Event:
    """Remembers the broadcasts that were to arrive before it; waiting for one that was never sent cannot end."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._receives: list[Callable[[], bool]] = []

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream()
        stream.receives = [arrived for arrived in stream.receives if not arrived()]
        self._receives = list(stream.receives)

    def wait(self, stream: Stream | None = None) -> None:
        if not all(arrived() for arrived in self._receives):
            raise RuntimeError("waits for a broadcast that has not been sent")

    def synchronize(self) -> None:
        self.wait()

    def query(self) -> bool:
        return all(arrived() for arrived in self._receives)

    def elapsed_time(self, other: Event) -> float:
        return 0.0


def current_stream(*_: Any, **__: Any) -> Stream:
    if not _current:
        _current.append(Stream())
    stream: Stream = _current[-1]
    return stream


def set_stream(stream: Stream, *_: Any, **__: Any) -> None:
    _current[-1:] = [stream]


def on_stream(stream: Stream | None = None) -> Stream:
    """A context in which `stream` is the current one."""
    return current_stream() if stream is None else stream


def synchronize() -> None:
    """Wait for everything: nothing is ever outstanding."""


def visible_to_device(tensor: Any) -> Any:
    """The device's view of pinned host memory: the same memory."""
    return tensor


def launched(name: str) -> None:
    """A kernel, or what stands in for one, has just run."""
    if observers:
        observers[-1](name)
