"""The order in which freed blocks come back: the one decision that the block pool asks for itself (see `policies`)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class Decision:
    """What every policy knows: the number of the step being scheduled, or last scheduled; 0 before the first."""

    step = 0


class ReusePolicy(Decision):
    """The order in which freed blocks are handed out again."""

    def put_back(self, queue: OrderedDict[int, None], unhashed: Sequence[int], hashed: Sequence[int]) -> None:
        """Return freed blocks to the queue, whose front is handed out next.

        Unhashed ones go to the front, the first of them foremost; hashed ones to the end, so that the least
        recently used prefix is evicted first.
        """
        for block in reversed(unhashed):
            queue[block] = None
            queue.move_to_end(block, last=False)
        for block in hashed:
            queue[block] = None
