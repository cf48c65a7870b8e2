"""One schedule, run against one kernel set: the event loop and its outcome."""
