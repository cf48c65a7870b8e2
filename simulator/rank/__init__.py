"""Ranks: the workers of the pipeline, each with its own memory, host state and device queue."""
