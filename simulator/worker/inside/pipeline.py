"""The pipeline's ranks in one process: the group that the worker asks for, and the broadcast of sampled tokens."""

from __future__ import annotations

from collections import deque
from typing import Any

from stalerow.simulator.worker.inside import device


class PipelineGroup:
    """What `get_pp_group()` returns. `rank` says on whose behalf the worker's code runs, `busy` whether it does now."""

    local_rank = first_rank = 0

    def __init__(self, size: int) -> None:
        self.world_size = size
        self.rank = 0
        self.busy = False
        self.ranks = list(range(size))
        self.last_rank = size - 1
        self.device_group = self.cpu_group = self
        self._posted = [deque[Receive]() for _ in range(size)]
        self._sent = [deque[Any]() for _ in range(size)]

    @property
    def rank_in_group(self) -> int:
        return self.rank

    @property
    def is_first_rank(self) -> bool:
        return self.rank == 0

    @property
    def is_last_rank(self) -> bool:
        return self.rank == self.last_rank

    def size(self) -> int:
        return self.world_size

    def make_sibling_device_group(self, *_: Any, **__: Any) -> PipelineGroup:
        return self

    def broadcast(self, tensor: Any) -> None:
        """The last rank sends a copy to every other; another rank posts a receive into `tensor`."""
        if self.is_last_rank:
            for rank in range(self.last_rank):
                self._sent[rank].append(tensor.clone())
                self._match(rank)
            device.launched("broadcast")
            return
        receive = Receive(tensor)
        self._posted[self.rank].append(receive)
        self._match(self.rank)
        device.current_stream().receives.append(receive.arrived)

    def _match(self, rank: int) -> None:
        posted, sent = self._posted[rank], self._sent[rank]
        while posted and sent:
            posted.popleft().take(sent.popleft(), rank)

    def leftovers(self) -> list[tuple[int, int, int]]:
        """(rank, receives that nobody answered, sends that nobody took), where there are any."""
        counts = [(r, len(self._posted[r]), len(self._sent[r])) for r in range(self.last_rank)]
        return [entry for entry in counts if entry[1] or entry[2]]


class Receive:
    """One posted receive."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._done = False

    def arrived(self) -> bool:
        return self._done

    def take(self, data: Any, rank: int) -> None:
        mine = self._tensor
        if mine.shape != data.shape or mine.dtype != data.dtype:
            raise BroadcastMismatch(
                f"rank {rank} receives {tuple(mine.shape)} {mine.dtype}, the last rank sent {tuple(data.shape)} "
                f"{data.dtype}"
            )
        mine.copy_(data)
        self._done = True


class BroadcastMismatch(RuntimeError):
    """The two sides of a broadcast do not fit; on a GPU that hangs or corrupts memory."""


def install(group: PipelineGroup) -> None:
    """Make `group` the pipeline's group of this process."""
    import torch
    import vllm.distributed.parallel_state as parallel

    parallel._PP = group
    real = torch.distributed.broadcast

    def broadcast(tensor: Any, src: Any = None, group: Any = None, **kwargs: Any) -> Any:
        if isinstance(group, PipelineGroup):
            return group.broadcast(tensor)
        return real(tensor, src=src, group=group, **kwargs)

    torch.distributed.broadcast = broadcast
