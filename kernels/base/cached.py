"""Where what was taken from an engine, or compiled, stays: one folder per user, filled by rename, so never half there.

Data comes from ``external.wheel`` (a release's source files), ``external.extract`` (a module of kernels) and
``compiled.cache`` (machine code).
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """The folder of everything cached; it need not exist yet.

    ``$STALEROW_CACHE``, else ``$XDG_CACHE_HOME/stalerow``, else ``~/.cache/stalerow``.
    """
    if own := os.environ.get("STALEROW_CACHE"):
        return Path(own).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "stalerow"
    return Path.home() / ".cache" / "stalerow"


def write_file(path: Path, content: str | bytes) -> None:
    """Put `content` at `path`, whole or not at all: a reader (or a crash) never sees part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """A scratch folder beside `target` that becomes `target` if the block ends well, and else vanishes.

    Two processes may fill the same target at once: the first rename wins, and the other's copy is dropped.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        yield scratch
        try:
            os.rename(scratch, target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
