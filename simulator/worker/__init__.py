"""The engine's own worker: a release's scheduler, model runner and kernels, unmodified, under our schedules.

The parent never imports the engine. A child process in the engine's own environment holds the scheduler and one model
runner for each pipeline rank (`inside`); typed messages go between the two (`protocol`).
"""
