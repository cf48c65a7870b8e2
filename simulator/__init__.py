"""The simulator: schedules are made or read, run against a kernel set, judged by the oracle, and told.

Modules are imported where they are used, so that importing this package costs nothing.
"""
