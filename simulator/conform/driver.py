"""Runs inside an environment that has vLLM: drives its own scheduler on a CPU and reports what it decided.

Started by `live` as a file, with that environment's Python; it imports nothing of this project. One JSON object
per line on stdin ({"config", "workload"}), one per line on stdout ({"meta", "workload", "trace"} or {"error"}). The
scheduler, KV-cache manager, grouping and hashing are vLLM's; layers, sampling and the platform are stood in for.
"""

import json
import os
import random
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The released packages must not find this folder's modules under their own imports' names.
sys.path.insert(0, str(Path(__file__).parent))
import driver_setup  # type: ignore[import-not-found]
from driver_setup import DEFAULTS, MODEL, hide_unloadable_packages
from driver_vllm import Released, import_vllm  # type: ignore[import-not-found]

sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

VOCABULARY = 1000


def stream_token(seed: Any, index: int) -> int:
    return 10 + random.Random(f"{seed}:{index}").randrange(VOCABULARY - 20)


def next_token(tokens: list[int]) -> int:
    return 10 + hash((tuple(tokens[-8:]), len(tokens))) % (VOCABULARY - 20)


class Run:
    """One workload through the engine core's loop (step_with_batch_queue), with made-up sampling."""

    def __init__(self, released: Any, workload: dict[str, Any]) -> None:
        self.released = released
        self.scheduler = released.scheduler
        self.options = released.options
        self.workload = workload
        self.queue: deque[tuple[Any, dict[str, int], int]] = deque()
        self.step = 0
        self.trace: list[dict[str, Any]] = []
        self.true_tokens: dict[str, list[int]] = {}

    def run(self) -> list[dict[str, Any]]:
        """The records of the whole run."""
        last = max((item.get("arrival", 1) for item in self.workload["requests"]), default=1)
        for iteration in range(1, self.options["steps"] + 1):
            for item in self.workload["requests"]:
                if item.get("arrival", 1) == iteration:
                    self.add(item)
            if not self.iterate() and iteration >= last:
                break
        return self.trace

    def add(self, item: dict[str, Any]) -> None:
        prompt = self.prompt(item)
        self.true_tokens[item["id"]] = list(prompt)
        stop = list(item.get("stop_token_ids", ()))
        self.scheduler.add_request(self.released.request(item["id"], prompt, item["max_tokens"], stop, item))

    def prompt(self, item: dict[str, Any]) -> list[int]:
        source, count = item.get("share") or (item["seed"], 0)
        count = min(count, item["prompt_len"])
        if str(source).startswith("req:"):
            tokens = self.true_tokens[source[4:]]
            while len(tokens) < count:
                tokens.append(next_token(tokens))
            prefix = tokens[:count]
        else:
            prefix = [stream_token(source, index) for index in range(count)]
        return prefix + [stream_token(item["seed"], index) for index in range(count, item["prompt_len"])]

    def abort(self, step: int, phase: str) -> list[str]:
        """Abort one by one, since a set's order would depend on the hash seed."""
        ids = [
            item["id"]
            for item in self.workload.get("aborts", ())
            if item["step"] == step and item.get("phase", "pre_schedule") == phase
        ]
        for request_id in ids:
            self.scheduler.finish_requests(request_id, self.released.api.RequestStatus.FINISHED_ABORTED)
        return ids

    def iterate(self) -> bool:
        if self.scheduler.has_requests():
            self.schedule()
            room = len(self.queue) < self.released.config.max_concurrent_batches
            if room and (self.queue[-1][0].total_num_scheduled_tokens > 0 or self.scheduler.has_requests()):
                return True
        if not self.queue:
            return False
        self.update()
        return True

    def schedule(self) -> None:
        record: dict[str, Any] = {"step": self.step + 1}
        aborted = self.abort(self.step + 1, "pre_schedule")
        resets = [
            self.scheduler.reset_prefix_cache(reset_running_requests=item.get("running", True))
            for item in self.workload.get("resets", ())
            if item["step"] == self.step + 1
        ]
        if resets:
            record["resets_before_schedule"] = resets
        record["inflight_before"] = [step for _, _, step in self.queue]
        known = {
            key: (request.num_output_placeholders, request.num_tokens)
            for key, request in self.scheduler.requests.items()
        }
        output = self.scheduler.schedule()
        self.step += 1
        counts = self.describe(record, output, known)
        if aborted:
            record["aborts_before_schedule"] = aborted
        self.queue.append((output, counts, self.step))
        self.trace.append(record)

    def describe(self, record: dict[str, Any], output: Any, known: dict[str, tuple[int, int]]) -> dict[str, int]:
        """Write a schedule down; returns how many tokens each row will sample."""
        new = {item.req_id: item.num_computed_tokens for item in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens)) | new
        counts: dict[str, int] = {}
        rows = []
        for key, num_tokens in output.num_scheduled_tokens.items():
            final = not self.scheduler.requests[key].is_prefill_chunk
            drafts = len(output.scheduled_spec_decode_tokens.get(key, ()))
            padded = key in new and drafts > 0
            counts[key] = self.num_sampled(key, drafts, padded) if final else 0
            rows.append(
                {
                    "req": key,
                    "n": num_tokens,
                    "drafts": drafts,
                    "computed": computed[key],
                    "placeholders_before": known[key][0],
                    "known_tokens": known[key][1],
                    "final_or_decode": final,
                    "will_sample": counts[key],
                }
            )
        record["scheduled"] = rows
        record["total"] = output.total_num_scheduled_tokens
        record["new"] = [self.describe_new(item) for item in output.scheduled_new_reqs]
        record["cached"] = [
            {
                "req": key,
                "computed": count,
                "new_block_ids": [list(ids) for ids in blocks] if blocks else None,
            }
            for key, count, blocks in zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids)
        ]
        record["finished_req_ids"] = sorted(output.finished_req_ids)
        record["preempted_req_ids"] = sorted(output.preempted_req_ids or ())
        record["zero"] = list(output.new_block_ids_to_zero or ())
        record["copies"] = [(pair.src_block_id, pair.dst_block_id) for pair in output.kv_cache_block_copies or ()]
        record["running"] = [request.request_id for request in self.scheduler.running]
        record["waiting"] = [request.request_id for request in self.scheduler.waiting]
        record["sched_blocks"] = self.block_lists()
        record["free_blocks"] = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        record |= {"skip_drafts": output.skip_drafts} if hasattr(output, "skip_drafts") else {}
        record["deferred_frees"] = len(self.scheduler.deferred_frees)
        return counts

    def describe_new(self, item: Any) -> dict[str, Any]:
        request = self.scheduler.requests[item.req_id]
        return {
            "req": item.req_id,
            "prompt_len": request.num_prompt_tokens,
            "prefill_len": request.num_tokens,
            "computed": item.num_computed_tokens,
            "block_ids": [list(ids) for ids in item.block_ids],
            "resumed": request.num_preemptions > 0,
            "junction": request.shared_prefix_boundary,
        }

    def block_lists(self) -> dict[str, list[list[int]]]:
        managers = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        keys = sorted({key for manager in managers for key in manager.req_to_blocks})
        lists = {
            key: [[block.block_id for block in manager.req_to_blocks.get(key, ())] for manager in managers]
            for key in keys
        }
        return {key: blocks for key, blocks in lists.items() if any(blocks)}

    def num_sampled(self, key: str, drafts: int, padded: bool) -> int:
        """One token and the accepted drafts; placeholder drafts of a padded admission are never accepted."""
        if padded:
            return 1
        rng = random.Random(f"{self.options['accept_seed']}:{key}:{self.step}")
        accepted = 0
        while accepted < drafts and rng.random() < self.options["accept_prob"]:
            accepted += 1
        return 1 + accepted

    def update(self) -> None:
        aborted = self.abort(self.step, "pre_update")
        output, counts, step = self.queue.popleft()
        live, order = self.scheduler.requests, list(output.num_scheduled_tokens)
        before = {key: counters(live[key]) for key in order if key in live}
        result = self.released.runner_output(order, [self.sample(key, counts[key]) for key in order])
        produced = self.scheduler.update_from_output(output, result)
        delivered = {
            item.request_id: (len(item.new_token_ids), finish_reason(item))
            for group in produced.values()
            for item in group.outputs
        }
        self.hand_over_drafts([key for key in order if counts[key]], output.num_spec_tokens_to_schedule)
        self.trace.append(
            {
                "processed_step": step,
                "after_schedule_of": self.step,
                "sampled": counts,
                "delivered": delivered,
                "state": {
                    key: {"before": state, "after": counters(live[key]) if key in live else "freed"}
                    for key, state in before.items()
                },
                "aborts_before_update": aborted,
                "ignored_already_gone": [key for key in order if key not in before],
            }
        )

    def sample(self, key: str, count: int) -> list[int]:
        request = self.scheduler.requests.get(key)
        if request is None:
            return [2] * count
        tokens = list(request.all_token_ids)
        for _ in range(count):
            tokens.append(next_token(tokens))
        return tokens[len(tokens) - count :]

    def hand_over_drafts(self, keys: list[str], count: int) -> None:
        """Synchronous scheduling learns the drafts with the output, asynchronous scheduling never does."""
        if self.options["asynchronous"] or not self.options["K"]:
            return
        live, status = self.scheduler.requests, self.released.api.RequestStatus
        keys = [key for key in keys if key in live and live[key].status == status.RUNNING]
        drafts = self.released.api.outputs.DraftTokenIds(keys, [[3] * count for _ in keys])
        self.scheduler.update_draft_token_ids(drafts)


def counters(request: Any) -> tuple[int, int, int, str]:
    return (
        request.num_computed_tokens,
        request.num_output_placeholders,
        request.num_stale_output_tokens,
        request.status.name,
    )


def finish_reason(item: Any) -> str | None:
    return None if item.finish_reason is None else str(item.finish_reason)


class SetupError(Exception):
    """The engine of a workload cannot be made: the environment is at fault or its options are, no decision of it."""


def run_workload(api: Any, model_dir: str, task: dict[str, Any]) -> dict[str, Any]:
    """The reply to one workload."""
    try:
        released = Released(api, model_dir, {**DEFAULTS, **task["config"]})
    except Exception as error:
        raise SetupError from error
    trace = Run(released, task["workload"]).run()
    return {"meta": released.meta(), "workload": task["workload"], "trace": trace}


def prepare_folder(folder: Path) -> None:
    """Write the tiny model's config, and a sitecustomize for the helper processes that vLLM starts."""
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    setup = str(Path(driver_setup.__file__).resolve())
    (folder / "sitecustomize.py").write_text(
        "import importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('driver_setup', {setup!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.hide_unloadable_packages()\n",
        encoding="utf-8",
    )
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def serve(answer: Callable[[Any, str, dict[str, Any]], dict[str, Any]]) -> None:
    """Answer one line after the other; whatever goes wrong in vLLM is part of the reply."""
    # vLLM and its libraries may print: replies keep the real stdout to themselves.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ.update(
        HF_HUB_OFFLINE="1",
        VLLM_TARGET_DEVICE="cpu",
        VLLM_USE_V2_MODEL_RUNNER="1",
        VLLM_LOGGING_LEVEL="ERROR",
    )
    with tempfile.TemporaryDirectory() as folder:
        prepare_folder(Path(folder))
        hide_unloadable_packages()
        api = import_vllm()
        print(json.dumps({"ready": api.version}), file=replies, flush=True)
        for line in sys.stdin:
            try:
                reply = answer(api, folder, json.loads(line))
            except SetupError as error:
                reply = {"error": "".join(traceback.format_exception(error.__cause__)), "setup": True}
            except Exception:
                reply = {"error": traceback.format_exc()}
            print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    serve(run_workload)
