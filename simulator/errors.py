"""Errors that a user can mend: each carries one line naming the value, what was expected and the remedy."""

from __future__ import annotations


class UsageError(ValueError):
    """Bad input. The command line prints the message on one line and exits with code 2."""


class CannotCompile(UsageError):
    """A kernel uses an operation that is not translated for the host. Where nobody asked for compiled kernels, the
    command line runs again in Triton's interpreter instead."""


class InternalError(RuntimeError):
    """The simulator contradicts itself (exit code 3): a bug here, not in the kernels under test."""


class BrokenRule(RuntimeError):
    """The engine that schedules broke a rule of its own: a finding, whoever wrote that engine."""
