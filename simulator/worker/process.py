"""The child process that holds the engine, kept warm for as long as this process lives; one for each environment."""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import IO

import msgspec

import stalerow.kernels
import stalerow.simulator
from stalerow.simulator.errors import InternalError, UsageError
from stalerow.simulator.worker import protocol
from stalerow.simulator.worker.environment import Environment

SCRIPT = Path(__file__).parent / "inside" / "main.py"


class Child:
    """A warm engine. `version` is the engine's."""

    def __init__(self, environment: Environment) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="stalerow-worker-")  # noqa: SIM115, held as long as the child
        packages = {"simulator": stalerow.simulator.__path__, "kernels": stalerow.kernels.__path__}
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        variables["STALEROW_PACKAGES"] = "\n".join(f"{name}={next(iter(path))}" for name, path in packages.items())
        variables["PYTHONPATH"] = os.pathsep.join(environment.front)
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        self._process = subprocess.Popen(
            [environment.python, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=variables,
        )
        self._decoder = msgspec.msgpack.Decoder(protocol.Answer)
        answer = self._read()
        if isinstance(answer, protocol.Failed):
            self.close()
            raise UsageError(f"{environment.python}: {answer.reason}")
        assert isinstance(answer, protocol.Hello)
        self.version, self.seconds = answer.version, answer.seconds

    def ask(self, question: protocol.Run) -> protocol.Answer:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            protocol.write(stdin, question)  # type: ignore[arg-type]
        except BrokenPipeError:
            raise InternalError(f"the engine's process is gone: {self.last_words()}") from None
        return self._read()

    def _read(self) -> protocol.Answer:
        stdout = self._process.stdout
        assert stdout is not None
        frame = protocol.read_frame(stdout)  # type: ignore[arg-type]
        if frame is None:
            raise InternalError(f"the engine's process ended: {self.last_words()}")
        return self._decoder.decode(frame)

    def last_words(self) -> str:
        """The last line that the child has written to its log."""
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()


@functools.cache
def child(environment: Environment) -> Child:
    """The warm child of an environment; started on first use, ended with this process."""
    made = Child(environment)
    atexit.register(made.close)
    return made
