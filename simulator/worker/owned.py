"""The bytes of a rank's memory that mean something: of every page that has an owner, what its owners use of it."""

from __future__ import annotations

import hashlib

import numpy as np

from stalerow.kernels.base.layout import Layout
from stalerow.simulator.oracle.ledger import Ledger

DIGEST_BYTES = 16


def extent(layout: Layout, ledger: Ledger, block: int) -> int:
    """Bytes of a block's page that its owners use; of a block without one, what any group would."""
    groups = {owner.group for owner in ledger.owners.get(block, ())} or range(len(layout.groups))
    return max(_data_bytes(layout, group) for group in groups)


def _data_bytes(layout: Layout, group: int) -> int:
    spec = layout.groups[group]
    if spec.kind == "attention":
        return spec.block_size * spec.kv_bytes
    return sum(layout.state_bytes(state) for state in spec.states)


def owned_digest(layout: Layout, ledger: Ledger, pages: np.ndarray) -> str:
    """32 hex digits of what is owned of `pages`, uint8 [layers, blocks, page_bytes], block by block."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for block in sorted(ledger.owners):
        digest.update(pages[:, block, : extent(layout, ledger, block)].tobytes())
    return digest.hexdigest()
