"""What a release expects of whoever launches its kernels, and where that was seen.

A `CallingConvention` is what the simulator's rank acts on; a `Fact` is one line of evidence for one of its
fields. Both are plain data, made by ``convention`` and shown by ``describe``.
"""

from typing import Literal

import msgspec

How = Literal["read", "inferred", "assumed"]


class Fact(msgspec.Struct, frozen=True):
    """One thing found about a release.

    `how` is ``read`` (stated by the source at `where`, as `expression`), ``inferred`` (from another fact,
    named in `expression`, since the file that would state it is absent) or ``assumed`` (nothing speaks for or
    against it).
    """

    name: str
    value: str | int | bool
    how: How
    where: str
    expression: str


class CallingConvention(msgspec.Struct, frozen=True):
    """The caller's side of a release's kernels.

    * `binds`: the tables that the copies are bound to, ``slot`` (persistent, a row per request slot) or
      ``row`` (gathered, a row per batch row); `binds_when`: ``cache_init`` or ``first_use`` (and kept from
      then on).
    * `indices_bind`: the tables that the aligned indices are read from, likewise.
    * `copy_row`: the row that the copy kernels look up, ``slot``, ``row`` or ``mixed``. It may contradict
      `binds` on a branch; nothing is adjusted for that.
    * `zero_padding`: the gather zeroes the rows that pad a batch; `clears_dirty_rows`: also those that a
      larger earlier batch left behind.
    * `seed_unit`: blocks in which an admitted request's running column is seeded, ``mamba`` (its own block
      size) or ``scheduler`` (the smallest block size of all groups).
    * `accepted`: what the postprocess reads the accepted counts from while it resets them: a ``snapshot``
      taken just before, the counts themselves (``in_place``), or a buffer that nobody refreshes (``stale``).
    * `tiles`: programs that share one temporal copy on a GPU.
    * `ds_conv_with_drafts`: whether the runner accepts drafts with the DS conv layout.
    * `draftless_decode`: whether a decode row without drafts runs as a ``spec`` row or as a ``plain`` one
      while drafting is on.
    * `temporal_alignment`: alignment in bytes that the runner demands of temporal states.
    """

    binds: Literal["slot", "row"]
    binds_when: Literal["cache_init", "first_use"]
    indices_bind: Literal["slot", "row"]
    copy_row: Literal["slot", "row", "mixed"]
    zero_padding: bool
    clears_dirty_rows: bool
    seed_unit: Literal["mamba", "scheduler"]
    accepted: Literal["snapshot", "in_place", "stale"]
    tiles: int
    ds_conv_with_drafts: bool
    draftless_decode: Literal["spec", "plain"]
    temporal_alignment: int


class Meta(msgspec.Struct, frozen=True):
    """What a release passes as constants: bytes or words per copy step, batch rows per program, warps."""

    copy_block_size: int = 1024
    preprocess_rows: int = 256
    index_rows: int = 32
    index_warps: int = 4
