"""Runs the programs of a launch interleaved.

Every warp of every program is a thread. They stand in line in the order of their numbers, and the first that can go on
does so until it ends or reaches a barrier. A `Lag` says before which of its accesses a thread goes to the end of the
line instead: without lags a launch runs as it would one program after another. What each touches is written down
(`races`).
"""

from __future__ import annotations

import ctypes
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from stalerow.kernels.compiled.native import Interleaved
from stalerow.kernels.compiled.races import Lag, Log
from stalerow.kernels.compiled.sites import ENTRY_WORDS, TAG_BARRIERS, Signal, Stop

WARPS = 4
"""Warps of a program where a launch does not say: Triton's default."""

WARP = 32
"""Lanes of a warp."""

_MEETINGS = (Stop.BARRIER, Stop.EXCHANGE)
_NEVER = 1 << 40


class Lags(Protocol):
    """Decides where the threads of one launch lag."""

    def next(self, program: int, warp: int, access: int) -> int | None:
        """The number, `access` or later, of the next access before which the thread lags; None for never."""
        ...


class Given:
    """The lags of a list."""

    def __init__(self, lags: Sequence[Lag] = ()) -> None:
        self._lags: dict[tuple[int, int], list[int]] = {}
        for program, warp, access in sorted(lags):
            self._lags.setdefault((program, warp), []).append(access)

    def next(self, program: int, warp: int, access: int) -> int | None:
        return next((at for at in self._lags.get((program, warp), ()) if at >= access), None)


class Interleaver:
    """Says where the threads of launches lag, and is told what they touched."""

    lanes = WARP
    """Lanes of a warp. 1 is no GPU's, but an order that a copy byte by byte is free to take."""
    warps = 0
    """Warps of a program; 0 for as many as the launch asks for."""
    barriers = True
    """Whether `tl.debug_barrier` holds anybody up."""

    def lags(self, kernel: str) -> Lags:
        """For the launch of the kernel of that name that comes now."""
        return Given()

    def ran(self, log: Log) -> None:
        """The launch is over, whether its programs ended or one of them failed."""


_interleavers: list[Interleaver] = []


@contextmanager
def interleaved(interleaver: Interleaver) -> Iterator[None]:
    """Run the launches inside with their programs interleaved. Not for launches from several threads at once."""
    _interleavers.append(interleaver)
    try:
        yield
    finally:
        _interleavers.pop()


def interleaver() -> Interleaver | None:
    """Whose launches run now, None if they run program after program."""
    return _interleavers[-1] if _interleavers else None


class Ran(NamedTuple):
    """How a launch went: `fine` unless a program failed; the lags that made a difference; the log and whether it holds
    everything."""

    fine: bool
    taken: list[Lag]
    entries: np.ndarray
    complete: bool


_log = np.zeros((1 << 14, ENTRY_WORDS), dtype=np.uint64)


def run(
    code: Interleaved,
    words: ctypes.Array[ctypes.c_char],
    signal: array[int],
    grid: tuple[int, int, int],
    lags: Lags,
    barriers: bool = True,
) -> Ran:
    """Run a launch. `words` hold the address of `signal`, whose WARPS and LANES are set.

    Without `barriers` nobody waits at a `tl.debug_barrier`.
    """
    global _log
    signal[Signal.LOG] = _log.ctypes.data
    signal[Signal.LOG_END] = _log.ctypes.data + _log.nbytes
    line = _Line(code, words, signal, grid, lags, barriers)
    try:
        fine = line.run()
    finally:
        line.drop()
    count = (signal[Signal.LOG] - _log.ctypes.data) // (8 * ENTRY_WORDS)
    entries, complete = _log[:count].copy(), count < len(_log)
    if not complete:
        _log = np.zeros((len(_log) * 4, ENTRY_WORDS), dtype=np.uint64)
    return Ran(fine, line.taken, entries, complete)


@dataclass(slots=True)
class _Thread:
    number: int
    program: int
    warp: int
    lag: int | None
    handle: int | None = None
    made: int = 0
    """Accesses that it has made."""
    barriers: int = 0
    """Barriers that it has come to."""
    at: Stop = Stop.ACCESS
    """Where it stands; not yet started, it is as good as before its first access."""
    waits: bool = False


class _Line:
    """The threads of one launch."""

    def __init__(
        self,
        code: Interleaved,
        words: ctypes.Array[ctypes.c_char],
        signal: array[int],
        grid: tuple[int, int, int],
        lags: Lags,
        barriers: bool,
    ) -> None:
        self._code, self._signal, self._grid, self._lags, self._barriers = code, signal, grid, lags, barriers
        self._words = ctypes.addressof(words)
        x, y, z = grid
        self._warps = warps = signal[Signal.WARPS]
        self._threads = [
            _Thread(p * warps + w, p, w, lags.next(p, w, 0)) for p in range(x * y * z) for w in range(warps)
        ]
        self._live = [warps] * (x * y * z)
        self._waiting = [0] * (x * y * z)
        self._shared = np.zeros((x * y * z, max(code.shared_bytes // 8, 1)), dtype=np.uint64)
        self.taken: list[Lag] = []

    def run(self) -> bool:
        """Until all have ended (True) or one has failed."""
        line = deque(self._threads)
        while line:
            thread = line[0] if not line[0].waits else next(t for t in line if not t.waits)
            if thread.at is Stop.ACCESS and thread.lag == thread.made:
                thread.lag = self._lags.next(thread.program, thread.warp, thread.made + 1)
                line.remove(thread)
                if any(not t.waits for t in line):
                    self.taken.append(Lag(thread.program, thread.warp, thread.made))
                line.append(thread)
                continue
            if thread.handle is None:
                self._start(thread)
            else:
                self._advance(thread, thread.handle)
            if thread.at in _MEETINGS:
                self._arrived(thread)
            elif thread.at is not Stop.ACCESS:
                thread.handle = None
                line.remove(thread)
                self._live[thread.program] -= 1
                if thread.at is Stop.FAILED:
                    return False
                self._release(thread.program)
        return True

    def drop(self) -> None:
        """Free the threads that have not ended."""
        for thread in self._threads:
            if thread.handle is not None:
                self._code.drop(thread.handle)

    def _start(self, thread: _Thread) -> None:
        rest, x = divmod(thread.program, self._grid[0])
        z, y = divmod(rest, self._grid[1])
        shared = self._shared.ctypes.data + thread.program * self._shared.strides[0]
        thread.handle = self._code.start(self._words, x, y, z, thread.warp, shared)
        thread.at = Stop(self._signal[Signal.WHY])

    def _advance(self, thread: _Thread, handle: int) -> None:
        """Let a thread go on to where it lags next, or to a barrier or its end if that comes first."""
        signal = self._signal
        signal[Signal.TAG] = thread.number << TAG_BARRIERS | thread.barriers
        from_barrier = thread.at in _MEETINGS
        stops = _NEVER if thread.lag is None else thread.lag - thread.made + from_barrier
        self._code.advance(handle, stops, signal.buffer_info()[0])
        thread.made += signal[Signal.PASSED] - from_barrier
        thread.at = Stop(signal[Signal.WHY])

    def _arrived(self, thread: _Thread) -> None:
        thread.barriers += 1
        if self._barriers or thread.at is Stop.EXCHANGE:
            thread.waits = True
            self._waiting[thread.program] += 1
            self._release(thread.program)

    def _release(self, program: int) -> None:
        """Let a program's warps go on if all that have not ended wait."""
        if self._waiting[program] and self._waiting[program] == self._live[program]:
            self._waiting[program] = 0
            for thread in self._threads[program * self._warps : (program + 1) * self._warps]:
                thread.waits = False
