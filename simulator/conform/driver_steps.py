"""Runs inside an environment that has vLLM: lends its scheduler to a simulation, one call at a time.

Started by `engine` as a file; like `driver`, whose description of a schedule it shares, it imports nothing of this
project. Messages name one call: "open" (options), "add", "abort", "reset", "schedule",
"process"; every answer says
whether the scheduler has something left to do.
"""

from collections.abc import Callable, Iterator
from typing import Any

if __package__:
    from stalerow.simulator.conform import driver
    from stalerow.simulator.conform.driver_setup import DEFAULTS
    from stalerow.simulator.conform.driver_vllm import Released
else:
    import driver  # type: ignore[import-not-found, no-redef]
    from driver_setup import DEFAULTS  # type: ignore[import-not-found, no-redef]
    from driver_vllm import Released  # type: ignore[import-not-found, no-redef]

Lists = dict[str, list[list[int]]]


class Session(driver.Run):
    """One engine. The caller keeps time: it decides when to schedule and when to process the oldest step."""

    def __init__(self, released: Any) -> None:
        super().__init__(released, {"requests": [], "aborts": []})
        self.cached: dict[int, tuple[bytes, int, int, str]] = {}
        self.given: dict[str, list[int]] = {}

    def num_sampled(self, key: str, drafts: int, padded: bool) -> int:
        """Known to the caller only."""
        return 0

    def add_request(self, item: dict[str, Any]) -> dict[str, Any]:
        asked = (item["id"], item["prompt"], item["max_tokens"], item["stop"], item["options"])
        self.scheduler.add_request(self.released.request(*asked))
        return {}

    def abort_requests(self, ids: list[str]) -> dict[str, Any]:
        status = self.released.api.RequestStatus.FINISHED_ABORTED
        aborted = [key for key in ids if key in self.scheduler.requests]
        for key in aborted:
            self.scheduler.finish_requests(key, status)
        return {"aborted": aborted}

    def reset(self, running: bool) -> dict[str, Any]:
        done = self.scheduler.reset_prefix_cache(reset_running_requests=running)
        self.cached = {} if done else self.cached
        return {"done": done}

    def schedule_step(self, _: Any) -> dict[str, Any]:
        before = self.block_lists()
        self.schedule()
        record = self.trace.pop()
        scheduler = self.scheduler
        self.note_hashes(before, record["copies"])
        waits = any(r.next_decode_eligible_step > scheduler.current_step for r in scheduler.running)
        told = record["scheduled"] or record["finished_req_ids"] or record["preempted_req_ids"]
        return {
            "record": record,
            "prefill": {new["req"]: list(scheduler.requests[new["req"]].all_token_ids) for new in record["new"]},
            "hashed": [(block, *entry[1:]) for block, entry in sorted(self.cached.items())],
            "futile": not (told or waits),
        }

    def process_step(self, sampled: dict[str, list[int]]) -> dict[str, Any]:
        before = self.block_lists()
        self.given = sampled
        output, _, step = self.queue[0]
        counts = {key: len(sampled.get(key, ())) for key in output.num_scheduled_tokens}
        self.queue[0] = (output, counts, step)
        self.update()
        self.note_hashes(before)
        record = self.trace.pop()
        return {"delivered": record["delivered"], "ignored": record["ignored_already_gone"]}

    def sample(self, key: str, count: int) -> list[int]:
        return self.given.get(key, [])

    def note_hashes(self, before: Lists, copies: Any = ()) -> None:
        """Keep (hash, group, tokens, computing request) of every block that carries a hash now."""
        lists, sources = (self.block_lists(), before), {target: source for source, target in copies}
        cached = {}
        for block in self.scheduler.kv_cache_manager.block_pool.blocks:
            if block.block_hash is None:
                continue
            known = self.cached.get(block.block_id)
            if known is None or known[0] != block.block_hash:
                group = int.from_bytes(block.block_hash[-4:], "big")
                names = (block.block_id, sources.get(block.block_id))
                holder = next(self.holders(names, group, lists))
                known = (block.block_hash, group, block.block_hash_num_tokens, holder)
            cached[block.block_id] = known
        self.cached = cached

    def holders(self, names: tuple[Any, ...], group: int, lists: tuple[Lists, ...]) -> Iterator[str]:
        """The requests that list a block that has just got its hash, or the block that it is a copy of."""
        for name in names:
            for found in lists:
                yield from (key for key, groups in found.items() if name in groups[group])


open_sessions: list[Session] = []


def answer(api: Any, model_dir: str, message: dict[str, Any]) -> dict[str, Any]:
    """The reply to one call."""
    ((name, argument),) = message.items()
    if name == "open":
        open_sessions[:] = [Session(Released(api, model_dir, {**DEFAULTS, **argument}))]
        return {"meta": open_sessions[0].released.meta()}
    session = open_sessions[0]
    calls: dict[str, Callable[[Any], dict[str, Any]]] = {
        "add": session.add_request,
        "abort": session.abort_requests,
        "reset": session.reset,
        "schedule": session.schedule_step,
        "process": session.process_step,
    }
    return {**calls[name](argument), "has_requests": session.scheduler.has_requests()}


if __name__ == "__main__":
    driver.serve(answer)
