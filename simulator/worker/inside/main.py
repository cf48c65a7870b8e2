"""The child: imports the engine once, then forks for every schedule, so that no run sees another's leftovers.

Run as a file by the engine's Python. The environment variable `STALEROW_PACKAGES` says where this project's packages
lie (NAME=FOLDER, separated by newlines); nothing else of the parent's environment is on the path. Messages come on
standard input and leave on the standard output that the process started with; whatever the engine prints goes to
standard error.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
import types


def lay_out_packages() -> None:
    """Make `stalerow` importable from wherever its parts lie, without the packages installed beside it."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    root = types.ModuleType("stalerow")
    root.__path__ = []
    sys.modules["stalerow"] = root
    for line in os.environ["STALEROW_PACKAGES"].splitlines():
        name, _, folder = line.partition("=")
        package = types.ModuleType(f"stalerow.{name}")
        package.__path__ = [folder]
        sys.modules[f"stalerow.{name}"] = package
        setattr(root, name, package)


def serve() -> None:
    from stalerow.simulator.worker import protocol

    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    began = time.monotonic()
    try:
        from stalerow.simulator.worker.inside.warm import warm_up

        engine = warm_up()
        # Only now: it imports the engine's modules.
        from stalerow.simulator.worker.inside.running import first_run

        first_run(engine)
    except Exception as error:
        last = " ".join(str(error).split()) or type(error).__name__
        protocol.write(replies, protocol.Failed(f"the engine cannot be imported ({type(error).__name__}: {last})"))
        raise
    import msgspec
    import torch

    hello = protocol.Hello(engine.version, str(torch.__version__), round(time.monotonic() - began, 3))
    protocol.write(replies, hello)
    # The engine collects garbage while it is set up: seconds in a process of this size, and nothing of it is garbage.
    gc.collect()
    gc.freeze()
    gc.disable()
    decoder = msgspec.msgpack.Decoder(protocol.Run)
    while (frame := protocol.read_frame(sys.stdin.buffer)) is not None:
        answer = in_fork(engine, decoder.decode(frame))
        replies.write(len(answer).to_bytes(protocol.LENGTH_BYTES, "big") + answer)
        replies.flush()


def in_fork(engine, question) -> bytes:
    """The encoded answer of a fork that runs one schedule."""
    import msgspec

    from stalerow.simulator.worker import protocol

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            from stalerow.simulator.worker.inside.running import run

            answer = msgspec.msgpack.encode(run(engine, question))
            with os.fdopen(writing, "wb") as stream:
                stream.write(answer)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    parts, deadline, late = [], time.monotonic() + question.seconds, False
    while True:
        ready, _, _ = select.select([reading], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            late = True
            os.kill(pid, signal.SIGKILL)
            break
        part = os.read(reading, 1 << 20)
        if not part:
            break
        parts.append(part)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if late:
        return msgspec.msgpack.encode(protocol.Lost(f"did not return within {question.seconds:g} s"))
    if status:
        code = os.waitstatus_to_exitcode(status)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        return msgspec.msgpack.encode(protocol.Lost(how))
    return b"".join(parts)


if __name__ == "__main__":
    lay_out_packages()
    serve()
