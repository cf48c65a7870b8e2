"""One schedule, run against one kernel set: the event loop, its outcome, and the subject that names both."""
