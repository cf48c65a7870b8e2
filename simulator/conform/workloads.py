"""Random workloads for the live comparison: options and requests from one integer seed.

Used by `live`. Sizes are small, so that pools run dry, prefixes are shared and limits are hit within few
steps; the spread of the options matters more than their likeness to production.
"""

from __future__ import annotations

import random
from typing import Any

Task = tuple[dict[str, Any], dict[str, Any]]


def random_task(seed: int) -> Task:
    """Options and workload in the driver's format; the same for a seed on every Python."""
    rng = random.Random(f"stalerow-live:{seed}")
    options = _options(rng)
    workload = {"requests": _requests(rng, options), "aborts": _aborts(rng)}
    _limits(seed, options)
    workload["resets"] = _resets(_own(seed, "resets"))
    for request in workload["requests"]:
        _asked(seed, options, request)
    return options, workload


def _own(seed: int, feature: str) -> random.Random:
    """A stream for one feature, so that a new feature leaves what a seed drew before alone."""
    return random.Random(f"stalerow-live:{seed}:{feature}")


def _limits(seed: int, options: dict[str, Any]) -> None:
    rng = _own(seed, "active requests")
    most = rng.randint(1, options["max_num_seqs"])
    options["max_num_active_seqs"] = most if rng.random() < 0.2 else None
    drafts, rng = options["K"], _own(seed, "drafts per batch size")
    fewer, alone = rng.randint(0, max(drafts - 1, 0)), rng.randint(1, 3)
    ranged = drafts and rng.random() < 0.15
    options["drafts_per_batch_size"] = [(1, alone, drafts), (alone + 1, 64, fewer)] if ranged else []
    options["drafter"] = "ngram" if drafts and _own(seed, "drafter").random() < 0.15 else "mtp"
    options["prefill_schedule_interval"] = _own(seed, "prefill interval").choice((1,) * 8 + (2, 4))
    options["cache_aware_admission_window"] = _own(seed, "cache-aware window").choice((0,) * 6 + (2, 4, 16))
    options["cache_aware_admission_threshold"] = _own(seed, "cache-aware threshold").choice((0.5, 0.5, 0.0, 0.2))
    options["policy"] = "priority" if _own(seed, "policy").random() < 0.2 else "fcfs"
    inside = options["n_gdn"] > 0 and _own(seed, "prefill checkpoints").random() < 0.35
    unit = options["prefix_match_unit"] or min(options["block_size"], options["attention_block_size"])
    alignment = _own(seed, "checkpoint alignment").choice((1, unit, options["block_size"]))
    options["num_prefill_checkpoint_blocks"] = int(inside)
    options["prefill_checkpoint_alignment"] = alignment if inside else None
    rng, attention = _own(seed, "sliding window"), options["n_fa"]
    windows, tokens = attention * rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 5, 8, 9, 16, 17, 30, 60))
    # Each kind of layer makes groups of its own, whose blocks a small pool does not have.
    roomy = attention > 0 and options["num_blocks"] >= 40 and rng.random() < 0.4
    options["n_swa"], options["sliding_window"] = (windows, tokens) if roomy else (0, 0)
    options["long_prefill_token_threshold_adaptive"] = _own(seed, "adaptive threshold").random() < 0.4


def _options(rng: random.Random) -> dict[str, Any]:
    options = _sizes(rng)
    drafts, size = options["K"], options["block_size"]
    scheduler_size = max(size, options["attention_block_size"])
    sequences = rng.randint(1, 5)
    smallest = 1 + options.pop("groups") * (3 + drafts)
    single = not (options["n_gdn"] and options["n_fa"])
    intervals = (0, 0, 0, None, scheduler_size, 2 * scheduler_size, 4 * scheduler_size)
    return options | {
        "P": rng.choice((1, 2, 2, 3, 4)),
        "num_blocks": smallest + rng.choice((0, 4, 10, 20, 40, 80)),
        "max_num_seqs": sequences,
        "max_num_batched_tokens": max(rng.choice((size, 2 * size, 24, 32, 64)), 1 + drafts, sequences),
        "max_model_len": rng.choice((48, 64, 100, 256)),
        "prefix_match_unit": min(size, options["attention_block_size"]) // 2
        if rng.random() < 0.25 and not single
        else None,
        "retention_interval": rng.choice(intervals if options["n_gdn"] else (0, None)),
        "long_prefill_token_threshold": rng.choice((0, 0, 0, 5, size, 2 * size)),
        "reserve_full_isl": rng.random() < 0.7,
        "watermark": rng.choice((0.0, 0.0, 0.0, 0.05, 0.2)),
        "shared_prefix_ckpt": rng.random() < 0.3,
        "disable_eagle_block_drop": rng.random() < 0.1,
        "lookahead_hashes": rng.random() < 0.8,
        "marks_draft_group": rng.random() < 0.8,
        "asynchronous": rng.random() < 0.88,
        "accept_seed": rng.randrange(1000),
        "accept_prob": rng.choice((0.0, 0.3, 0.6, 0.9, 1.0)),
        "steps": 160,
    }


def _resets(rng: random.Random) -> list[dict[str, Any]]:
    """Resets of the prefix cache, most of them while requests run."""
    count = rng.choice((0,) * 7 + (1, 2, 3))
    return [{"step": rng.randint(1, 60), "running": rng.random() < 0.7} for _ in range(count)]


def _asked(seed: int, options: dict[str, Any], request: dict[str, Any]) -> None:
    """What a request asks for beside tokens."""
    salted, salt = _own(seed, "salts").random() < 0.3, _own(seed, f"salt of {request['id']}").choice(("", "", "a", "b"))
    if salted and salt:
        request["cache_salt"] = salt
    if options["policy"] == "priority":
        request["priority"] = _own(seed, f"priority of {request['id']}").choice((0, 0, 1, 2, -1))
    if _own(seed, f"cache reads of {request['id']}").random() < 0.05:
        request["skip_reading_prefix_cache"] = True


def _sizes(rng: random.Random) -> dict[str, Any]:
    """Layers, groups and block sizes: mostly a hybrid model with one block size."""
    size = rng.choice((4, 8, 8, 16))
    recurrent, attention = rng.choice(((6, 2), (4, 2), (3, 1), (6, 2), (4, 2), (3, 1), (0, 2), (2, 0)))
    hybrid = recurrent > 0 and attention > 0
    mixed = hybrid and rng.random() < 0.15
    return {
        "K": rng.choice((0, 1, 2, 2, 3, 4)) if attention else 0,
        "block_size": size,
        "attention_block_size": rng.choice((size * 2, max(size // 2, 4))) if mixed else size,
        "n_gdn": recurrent,
        "n_fa": attention,
        "recurrent_specs": 2 if recurrent > 2 and rng.random() < 0.2 else 1,
        "groups": 2 + recurrent // max(attention, 1),
    }


def _requests(rng: random.Random, options: dict[str, Any]) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = []
    spread = rng.choice((1, 20, 60))
    for number in range(rng.randint(2, 12)):
        request: dict[str, Any] = {
            "id": f"r{number}",
            "arrival": rng.randint(1, spread),
            "prompt_len": rng.randint(1, min(rng.choice((4, 20, 40, 80)), options["max_model_len"] - 1)),
            "max_tokens": rng.choice((1, 2, rng.randint(1, 12), rng.randint(1, 50))),
            "seed": rng.choice((0, 100, 200, 1000 + number)),
        }
        kind = rng.random()
        earlier = [other["id"] for other in requests if other["arrival"] < request["arrival"]]
        if kind < 0.45:
            request["share"] = (rng.choice((0, 100, 200)), rng.randint(1, 60))
        elif kind < 0.65 and earlier:
            request["share"] = (f"req:{rng.choice(earlier)}", rng.randint(1, 80))
        if rng.random() < 0.25:
            request["stop_token_ids"] = sorted(rng.sample(range(10, 990), 60))
        requests.append(request)
    return requests


def _aborts(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "id": f"r{rng.randrange(12)}",
            "step": rng.randint(1, 70),
            "phase": rng.choice(("pre_schedule", "pre_update")),
        }
        for _ in range(rng.choice((0, 0, 1, 2, 4)))
    ]
