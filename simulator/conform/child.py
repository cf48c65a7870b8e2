"""A child process in an environment that has vLLM: one JSON object per line in, one per line out.

The child runs a driver script of this folder with that environment's Python. Used by `live`, which sends whole
workloads, and by `engine`, which goes step by step.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

_FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in [^\n]*\n    ([^\n]*)', re.MULTILINE)
_ENGINE = re.compile(r"^.*/(?=vllm/)")


class LiveError(RuntimeError):
    """The child process could not be used, or vLLM raised; the message ends with what it said."""


class EngineRaised(LiveError):
    """The engine under comparison failed while it ran; `place` is file:line in its source, `error` what it said."""

    def __init__(self, place: str, error: str) -> None:
        super().__init__(f"{error} at {place}")
        self.place, self.error = place, error


class Child:
    """A driver script in a child process; use as a context manager.

    `python` is the interpreter of an environment that has vLLM (a CPU build will do), `environment` adds
    variables, such as a PYTHONPATH with the Python files of another release. Starting takes as long as
    importing vLLM; `version` is vLLM's from then on.
    """

    script = "driver.py"

    def __init__(self, python: str | Path, environment: Mapping[str, str] | None = None) -> None:
        self.version = ""
        self._python = str(python)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        try:
            self._process = subprocess.Popen(
                [self._python, str(Path(__file__).with_name(self.script))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env=self._environment,
            )
        except OSError as error:
            self._errors.close()
            raise LiveError(f"{self._python}: expected a Python interpreter ({error}); check the path") from error
        try:
            self.version = str(self._read().get("ready", ""))
            if not self.version:
                raise LiveError(f"{self._python} does not say which vLLM it has: give one that has vLLM")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child process."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message and wait for the answer. LiveError if vLLM raises or the child is gone."""
        if self._process is None or self._process.stdin is None:
            raise LiveError("no child process: expected a started one; use it in a with statement")
        try:
            self._process.stdin.write(msgspec.json.encode(message).decode() + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise LiveError(f"{self._python} is gone: {self._last_words()}") from error
        answer = self._read()
        if "error" in answer:
            text = str(answer["error"]).strip()
            frames = _FRAME.findall(text)
            if answer.get("setup") or not frames or not _ENGINE.search(frames[-1][0]):
                raise LiveError(text)
            path, line, source = frames[-1]
            raise EngineRaised(f"{_ENGINE.sub('', path)}:{line}", f"{last_words(text)} ({source.strip()})")
        return answer

    def _read(self) -> dict[str, Any]:
        stdout = self._process.stdout if self._process else None
        line = stdout.readline() if stdout else ""
        if not line:
            raise LiveError(f"{self._python} gave no answer: {self._last_words()}")
        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            said = line.strip()[:60]
            raise LiveError(
                f"{self._python} said {said!r}, which is no answer of a driver: give the Python of an environment "
                "that has vLLM"
            ) from None

    def _last_words(self) -> str:
        if self._errors is None:
            return "nothing on stderr"
        self._errors.seek(0)
        return last_words(self._errors.read())


def last_words(text: str) -> str:
    """The line of a traceback or log that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("For further information")]
    return telling[-1] if telling else "nothing"
