"""Conformance: the engine model against recorded and live runs of released schedulers."""
