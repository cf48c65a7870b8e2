"""Mutants for the tests that mirror a module: one for each, which that module's own test file must find by itself."""

from __future__ import annotations

from functools import partial

from mutant import of

own = partial(of, trial="tests")

RANK = [
    *own("simulator/rank/base.py", ("named - (named == 0) * 1", "named")),
    *own("simulator/rank/batch.py", ("(r.num_drafts == 0, r.num_tokens", "(r.num_tokens")),
    *own("simulator/rank/device.py", ("self.operations.appendleft(operation)", "self.operations.append(operation)")),
    *own("simulator/rank/operations.py", ("        return self.output.of\n", "        return self.step\n")),
    *own(
        "simulator/rank/policy.py", ("(generation[entry.slots] != entry.generation)", "(generation[entry.slots] < 0)")
    ),
    *own(
        "simulator/rank/released.py",
        ('self.caller.binds_when == "cache_init"', 'self.caller.binds_when != "cache_init"'),
    ),
    *own("simulator/rank/ring.py", ("        self._entries.append(None)\n", "        self._entries.append(entry)\n")),
    *own("simulator/rank/slots.py", ("self.freed_at[slot] = step", "self.freed_at[slot] = step + 1")),
    *own("simulator/rank/staging.py", ("            found = current[:count]\n", "            found = values\n")),
    *own("simulator/rank/v1.py", ("            last = rows.pop()\n", "            last = rows.pop(0)\n")),
    *own(
        "simulator/rank/v2.py",
        ("        if self.policy.late_postprocess:\n", "        if not self.policy.late_postprocess:\n"),
    ),
    *own(
        "simulator/rank/wires.py",
        ("received: set[int] = field(default_factory=set)", "received: set[int] = field(default_factory=list)"),
    ),
    *own("simulator/rank/worker.py", ("    max_blocks: int\n", "    most_blocks: int\n")),
]

ORACLE = [
    *own("simulator/oracle/effect.py", ("entry, source)[copy.bias :]", "entry, source)[copy.bias + 1 :]")),
    *own("simulator/oracle/expected.py", ("taken_by = output.held.get(slot)", "taken_by = None")),
    *own(
        "simulator/oracle/judge.py",
        ("            self._take(actual)\n\n    def computed", "            pass\n\n    def computed"),
    ),
    *own(
        "simulator/oracle/kinds.py",
        ("**Look at next.** Blocks in use at the last step", "Blocks in use at the last step"),
    ),
    *own("simulator/oracle/ledger.py", ("kept = [o for o in owners if o.request not in gone]", "kept = owners")),
    *own("simulator/oracle/resources.py", ("left = sorted(real - needed)", "left = sorted(real - real)")),
    *own(
        "simulator/oracle/shadow.py", ("seq_lens[i] = row.start + row.num_tokens", "seq_lens[i] = row.num_tokens - 1")
    ),
    *own("simulator/oracle/slots.py", ("src_off=row.accepted_before - 1)", "src_off=row.accepted_before)")),
    *own(
        "simulator/oracle/violations.py", ("self.step, self.during, self.source_block", "self.step, self.source_block")
    ),
    *own(
        "simulator/oracle/watch.py",
        ("(cached.request, cached.num_tokens // group.block_size - 1) not in pending", "True"),
    ),
    *own("simulator/oracle/explain/bookkeeping.py", ("if {o.request for o in owners} <= leaving", "if leaving")),
    *own("simulator/oracle/explain/copies.py", ('"torn copy" if made else "wrong position"', '"torn copy"')),
    *own(
        "simulator/oracle/explain/decode.py",
        ("            if expected <= 0:\n                continue\n", "            continue\n"),
    ),
    *own(
        "simulator/oracle/explain/evidence.py", ("bound is not None and bound != rank.cache.cache_id", "bound is None")
    ),
    *own("simulator/oracle/explain/numbers.py", ("one if number == 1 else", "one if number <= 1 else")),
    *own("simulator/oracle/explain/reads.py", ("bias = row.accepted_in_forward - 1 if row.is_spec else 0", "bias = 1")),
    *own(
        "simulator/oracle/explain/slots.py",
        ("if got == expected or (row.request, array) in told:", "if got == expected:"),
    ),
    *own(
        "simulator/oracle/explain/wording.py",
        ('            return f"slot {int(slot)} for {where}" if by_slot else where\n', "            return where\n"),
    ),
]

CAMPAIGN = [
    *own("simulator/campaign/again.py", ('self.verdict not in ("no longer fails", "not run", "clean")', "True")),
    *own("simulator/campaign/candidates.py", ("return late or self.runs >= self._budget", "return late")),
    *own("simulator/campaign/clusters.py", ('            self._again(given, "its node was lost")\n', "")),
    *own("simulator/campaign/compare.py", ("result.first.draw.seed < self.first.draw.seed", "True")),
    *own("simulator/campaign/executors.py", ("return 1 - min(len(self._waiting), 1)", "return 1")),
    *own("simulator/campaign/failures.py", ("    while _is_another(path, failure):\n", "    while path.exists():\n")),
    *own("simulator/campaign/filing.py", ('        if not self.new(kind, ""):\n            return\n', "")),
    *own("simulator/campaign/findings.py", ("        if self.breaches:\n            return 3\n", "")),
    *own("simulator/campaign/fuzz.py", ("        if seen.differs:\n", "        if not seen.digests:\n")),
    *own("simulator/campaign/journal.py", ("journal.asked != asked(options) or not mine", "not mine")),
    *own("simulator/campaign/leases.py", ("sum(limits) if len(limits) == len(self.tasks) else None", "sum(limits)")),
    *own("simulator/campaign/options.py", ("in seeds[i - 1 :: n]", "in seeds[i::n]")),
    *own(
        "simulator/campaign/picks.py", ("    return choices[:begin] + choices[end:]\n", "    return choices[:begin]\n")
    ),
    *own("simulator/campaign/process.py", ("for file, line in own or frames", "for file, line in frames")),
    *own("simulator/campaign/salvage.py", ("        if key not in data:\n", "        if key in data:\n")),
    *own(
        "simulator/campaign/scan.py",
        ("        if violating != self.flagged:\n", "        if violating and not self.flagged:\n"),
    ),
    *own("simulator/campaign/shards.py", ("return not failure.shrunk,", "return failure.shrunk,")),
    *own("simulator/campaign/shrink.py", ("candidates.allow(budget // 2)", "candidates.allow(budget)")),
    *own("simulator/campaign/stream.py", ("self.given % RUN_AGAIN_EVERY == 0", "self.given % RUN_AGAIN_EVERY != 0")),
    *own("simulator/campaign/summary.py", ("plateau=tally.plateau", "plateau=tally.schedules")),
    *own("simulator/campaign/trials.py", ("again.digest != self.seen.digests[0]", 'again.digest == ""')),
    *own("simulator/campaign/workers.py", (">= ATTEMPTS:", "> ATTEMPTS:")),
]

DRAW = [
    *own("simulator/draw/blockmap.py", ("in record.events[:until]", "in record.events[: until + 1]")),
    *own("simulator/draw/charset.py", ('("LC_ALL", "LC_CTYPE", "LANG")', '("LANG", "LC_CTYPE", "LC_ALL")')),
    *own("simulator/draw/clock.py", ("self._activations.get((rank - 1, step))", "self._activations.get((rank, step))")),
    *own("simulator/draw/events.py", ("        self._found = len(simulation.found)\n", "")),
    *own("simulator/campaign/failing.py", ("and record.violations[0].kind == kind", "")),
    *own(
        "simulator/draw/film.py",
        ("step = done.step if isinstance(done, Forward) else done.step - 1", "step = done.step"),
    ),
    *own("simulator/draw/finding.py", ("strays = [w for w in what.writes if not w.asked]", "strays = []")),
    *own("simulator/draw/html.py", ('.replace("<", "\\\\u003c")', "")),
    *own("simulator/draw/picture.py", ("max(NARROWEST, min(columns, WIDEST))", "min(columns, WIDEST)")),
    *own("simulator/draw/prose.py", ("break_long_words=False", "break_long_words=True")),
    *own("simulator/draw/record.py", ("frozen=True, omit_defaults=True):", "frozen=True):")),
    *own("simulator/draw/recorder.py", ("(row.needs_output or not late)", "row.needs_output")),
    *own("simulator/draw/scheduling.py", ("accepted=max(count - 1, 0)", "accepted=count")),
    *own("simulator/draw/serving_record.py", ("what.step > self._damaged + STEPS_AFTER", "what.step > self._damaged")),
    *own("simulator/draw/state.py", ("for slot in range(rank.max_reqs):", "for slot in range(rank.max_reqs - 1):")),
    *own("simulator/draw/steps.py", ("if needed > room and step not in about:", "if needed > room:")),
    *own(
        "simulator/draw/trace.py", ("            if isinstance(event.what, Waited):\n", "            if not event:\n")
    ),
    *own("simulator/draw/walk.py", ("range(at - 1, -1, -1)", "range(at, -1, -1)")),
    *own("simulator/draw/words.py", ("if _slug(kind) == wanted:", "if kind == name:")),
    *own("simulator/draw/writes.py", ("asked=(group, block) in targets", "asked=source >= 0")),
]

MIRRORED = (*RANK, *ORACLE, *CAMPAIGN, *DRAW)
