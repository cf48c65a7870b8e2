"""A progress bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_EVERY_S = 10.0


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Yields a function that counts one unit done; writes to standard error."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda: bar.advance(task)
        return
    print(title, file=sys.stderr, flush=True)
    done, last = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, last
        done += 1
        if time.monotonic() - last >= LINE_EVERY_S:
            last = time.monotonic()
            print(f"  {done}/{total}", file=sys.stderr, flush=True)

    yield advance
