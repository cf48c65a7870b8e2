"""Schedules: the value, its file, and every way to make one."""
