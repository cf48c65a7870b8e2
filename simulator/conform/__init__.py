"""Conformance: the engine model against recorded and live runs of released schedulers."""

from stalerow.simulator.conform.agreement import Conformance, ConformanceReport, conform_trace, conform_traces
from stalerow.simulator.conform.live import LiveError, LiveScheduler, conform_live

__all__ = [
    "Conformance",
    "ConformanceReport",
    "LiveError",
    "LiveScheduler",
    "conform_live",
    "conform_trace",
    "conform_traces",
]
