"""Thousands of schedules at once: recorded on the host, executed side by side in one pool, checked on the device.

No kernel's result decides what a worker's host does next, so a schedule's host side can run first, without kernels
(`record`), and leave a tape: every rank's device operations and what each was meant to do. Tapes of one memory layout
are merged frame by frame (`pack`), a frame being one step of every rank, and executed in lockstep with one launch per
kind of operation (`execute`), each rank on its own stream. Every check of the one-by-one run is made on the device and
read once at the end; a schedule that failed one is run again alone, which explains it (`campaign`).
"""
