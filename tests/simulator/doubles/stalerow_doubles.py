"""Kernel sets that misbehave, for `--kernels stalerow_doubles:NAME`: workers import them by name."""

import os
import signal
import time

from stalerow.kernels.align.kernels import ReferenceAlign
from stalerow.kernels.sets import kernel_set

HANGING = "STALEROW_TEST_HANGING"


class ClockAlign(ReferenceAlign):
    """Leaves the time in a place that nobody reads."""

    def preprocess(self, slots, idx_mapping, query_start_loc, num_rows, block_size):
        super().preprocess(slots, idx_mapping, query_start_loc, num_rows, block_size)
        slots.token_ids[0, -1] = time.time_ns() & 0x7FFFFFFF


class DyingAlign(ReferenceAlign):
    """Ends the process at the first postprocess of two rows or more."""

    def __init__(self, row_is_slot, die):
        super().__init__(row_is_slot)
        self._die = die

    def postprocess(self, slots, binding, idx_mapping, num_rows, block_size, counts=None):
        if num_rows >= 2:
            self._die()
        super().postprocess(slots, binding, idx_mapping, num_rows, block_size, counts)


class NarrowAlign(ReferenceAlign):
    """Takes the rows of one engine, but not those of many."""

    def precopy(self, slots, binding, idx_mapping, num_rows):
        if num_rows > 16:
            raise ValueError("too many rows")
        super().precopy(slots, binding, idx_mapping, num_rows)


class RaisingAlign(ReferenceAlign):
    """Has a bug of its own."""

    def precopy(self, slots, binding, idx_mapping, num_rows):
        raise ZeroDivisionError("a bug in the kernels")


class WrongIndices(ReferenceAlign):
    """Fails in every schedule, the smallest too."""

    def aligned_indices(self, binding, seq_lens, num_rows_padded, block_size, out):
        super().aligned_indices(binding, seq_lens, num_rows_padded, block_size, out)
        out[:] = 0


def hang():
    """Never return, and say so in the file that HANGING names, for tests that wait until it is so."""
    with open(os.environ[HANGING], "a") as told:
        told.write("here\n")
    while True:
        time.sleep(0.01)


class HangingAlign(ReferenceAlign):
    """Never returns from its first precopy."""

    def precopy(self, slots, binding, idx_mapping, num_rows):
        hang()


def _like_req_idx(align, name):
    return kernel_set("reference:req-idx")._replace(name=name, align=align)


def clock(device):
    return _like_req_idx(ClockAlign(True), "stalerow_doubles:clock")


def exits(device):
    return _like_req_idx(DyingAlign(True, lambda: os._exit(7)), "stalerow_doubles:exits")


def segfaults(device):
    align = DyingAlign(True, lambda: os.kill(os.getpid(), signal.SIGSEGV))
    return _like_req_idx(align, "stalerow_doubles:segfaults")


def raises(device):
    return _like_req_idx(RaisingAlign(True), "stalerow_doubles:raises")


def wrong_indices(device):
    return _like_req_idx(WrongIndices(True), "stalerow_doubles:wrong_indices")


def hangs(device):
    return _like_req_idx(HangingAlign(True), "stalerow_doubles:hangs")


def narrow(device):
    return _like_req_idx(NarrowAlign(True), "stalerow_doubles:narrow")
