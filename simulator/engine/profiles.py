"""Version profiles: what differs between releases of the scheduler being modelled, as data.

Read by the KV-cache code and the scheduler. A new release is what it changed of the one
before, here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Profile:
    """One release's rules, as far as they differ from other releases.

    lookahead_hashes: with MTP a block's hash also covers the next token, which the draft KV of its last
        position depends on, so a hit no longer drops a block (0.33); before, the last block of a hit was
        dropped.
    caches_settled_tokens: processing an output caches the tokens with no step in flight (0.33); before,
        computed tokens minus output placeholders, and nothing in synchronous mode.
    resolves_trimmed_tokens: tokens past a finish are taken off the counters as well (0.33).
    rehashes_partial_tail: the partial tail of a prompt is registered again on every pass over it, which makes
        it count as cached in this step (0.32); from 0.33 on only once.
    keeps_block_before_junction: a group that drops its last block keeps the state one block before a junction
        (0.33).
    resumes_in_admission_order: a resumed request stands among the new ones where it was admitted (0.34); before, all
        resumed ones came after the fresh ones. Slots are handed out in this order.
    caches_synchronous_outputs: a synchronous engine with recurrent groups hashes blocks on every output (0.34); before,
        only with drafts.
    goes_on_after_self_preemption: under priorities, a request that preempted itself does not end the pass over the
        running ones, which are more urgent (0.33).
    holds_prefill_locally: `prefill_schedule_interval` acts in an engine without data parallelism too (0.33).
    stages_table_contents: block ids for the ranks' tables go through host-shared staging buffers too (0.34); before,
        they were copied in stream order.
    skips_unused_drafts: a step says that nobody can use drafts proposed after it (0.33); the runner proposes none then.
    admits_cached_first: `cache_aware_admission_window` exists (0.34).
    has_runner_v1: the release ships Model Runner V1 (up to 0.33).
    """

    name: str
    lookahead_hashes: bool
    caches_settled_tokens: bool
    resolves_trimmed_tokens: bool
    rehashes_partial_tail: bool
    keeps_block_before_junction: bool
    resumes_in_admission_order: bool
    caches_synchronous_outputs: bool
    goes_on_after_self_preemption: bool
    holds_prefill_locally: bool
    stages_table_contents: bool
    skips_unused_drafts: bool
    admits_cached_first: bool
    has_runner_v1: bool


_V032 = Profile(
    name="0.32",
    lookahead_hashes=False,
    caches_settled_tokens=False,
    resolves_trimmed_tokens=False,
    rehashes_partial_tail=True,
    keeps_block_before_junction=False,
    resumes_in_admission_order=False,
    caches_synchronous_outputs=False,
    goes_on_after_self_preemption=False,
    holds_prefill_locally=False,
    stages_table_contents=False,
    skips_unused_drafts=False,
    admits_cached_first=False,
    has_runner_v1=True,
)
_V033 = replace(
    _V032,
    name="0.33",
    lookahead_hashes=True,
    caches_settled_tokens=True,
    resolves_trimmed_tokens=True,
    rehashes_partial_tail=False,
    keeps_block_before_junction=True,
    goes_on_after_self_preemption=True,
    holds_prefill_locally=True,
    skips_unused_drafts=True,
)
_V034 = replace(
    _V033,
    name="0.34",
    resumes_in_admission_order=True,
    caches_synchronous_outputs=True,
    stages_table_contents=True,
    admits_cached_first=True,
    has_runner_v1=False,
)
_PROFILES = {item.name: item for item in (_V032, _V033, _V034)}


def profile(name: str) -> Profile:
    """The profile of a release, by "0.33", "0.33.0" or "vllm==0.33.0".

    Raises ValueError naming the known profiles.
    """
    version = name.removeprefix("vllm==")
    found = _PROFILES.get(".".join(version.split(".")[:2]))
    if found is None:
        raise ValueError(f"profile {name!r}: expected one of {', '.join(_PROFILES)}; pick the closest release")
    return found


def profile_names() -> tuple[str, ...]:
    """Names of the known profiles, oldest first."""
    return tuple(_PROFILES)
