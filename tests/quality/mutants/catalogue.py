"""Small mutants of kernels, runner, scheduler and tables, by hand: (file, what it says, what it should not say).

Each is a mistake that somebody could make. `survives` explains a mutant that no schedule can tell from the original.
"""

from __future__ import annotations

from mirrored import MIRRORED
from more import ORACLE, TRITON, UNIVERSES
from mutant import of

KERNELS = [
    *of(
        "kernels/align/copy.py",
        ("table_row, src_col + bias)", "table_row, src_col)"),
        ("begin = source + bias * state.row_bytes", "begin = source"),
        ("kept = state.conv_width - bias", "kept = state.conv_width - bias - 1"),
        ("if kept <= 0:", "if kept <= 1:"),
        ("old[:, bias * state.elem_size :]", "old[:, : kept * state.elem_size]"),
        ("state.base + block * layout.page_bytes", "layout.page_start(0, block) + state.entry.offset"),
        ("binding.copy_tables[state.group_index]", "binding.copy_tables[0]"),
    ),
    *of(
        "kernels/align/precopy.py",
        ("if source < 0 or source == target:", "if source < 0:"),
        ("if source < 0 or source == target:", "if source == target:"),
        ("bias = int(slots.src_off[slot])", "bias = 0"),
        ("table_row = slot if row_is_slot else row", "table_row = row"),
        ("if slot < 0:", "if slot <= 0:"),
        ("for state in binding.host_states:", "for state in binding.host_states[:1]:"),
    ),
    *of(
        "kernels/align/preprocess.py",
        ("np.maximum(accepted - 1, 0)", "accepted"),
        ("(after + (block_size - 1)) // block_size - 1", "after // block_size"),
        ("np.where((old >= 0) & (old != new), 1, accepted)", "accepted"),
        ("(old >= 0) & (old != new)", "old >= 0"),
        ("slots.src_col[ids] = old", "slots.src_col[ids] = np.maximum(old, 0)"),
        ("query_start_loc[rows + 1] - query_start_loc[rows]", "query_start_loc[rows + 1]"),
        (
            "(old >= 0) & (old != new)",
            "old != new",
            "",
            "a request whose old column is -1 is fresh, and admission has set its num_accepted to 1 already",
        ),
    ),
    *of(
        "kernels/align/postprocess.py",
        ("first = total - accepted + 1", "first = total - accepted"),
        ("if aligned < first:", "if aligned <= first:"),
        ("        bias = aligned - first\n", "        bias = 0\n"),
        ("target = aligned // block_size - 1", "target = aligned // block_size"),
        ("slots.num_accepted[slot] = 1", "pass"),
        ("running = int(slots.state_idx[slot])", "running = int(slots.src_col[slot])"),
        ("int(counts.num_drafts[slot]) + accepted - 1", "int(counts.num_drafts[slot]) + accepted", "v1"),
        ("table_row = slot if row_is_slot else row", "table_row = row"),
        ("if running == target:", "if running >= target:"),
    ),
    *of(
        "kernels/align/indices.py",
        ("(seq_lens[:num_rows_padded] - 1) // block_size", "seq_lens[:num_rows_padded] // block_size"),
        ("= table[rows, columns]", "= binding.index_tables[0][rows, columns]"),
    ),
    *of(
        "kernels/own/blocks.py",
        ("named = block_ids[:n]", "named = block_ids[: n - 1]"),
        ("pages[:, dst[:n]] = pages[:, src[:n]]", "pages[:, src[:n]] = pages[:, dst[:n]]"),
    ),
    *of(
        "kernels/base/binding.py",
        ("cache.tables.persistent if reads_slot_tables else cache.tables.gathered", "cache.tables.gathered"),
        ("[cache.tables.gathered[g] for g in groups]", "[cache.tables.persistent[g] for g in groups]"),
    ),
    *of(
        "kernels/base/layout.py",
        ("(layer * self.num_blocks + block_id)", "block_id"),
        ("return self.window + self.num_drafts", "return self.window"),
    ),
]

TABLES = [
    *of(
        "kernels/own/tables.py",
        ("target[row, :nb] = source[slot, :nb]", "target[row, :nb] = source[row, :nb]"),
        ("target[row, :nb] = source[slot, :nb]", "target[row, : nb - 1] = source[slot, : nb - 1]"),
        ("target[num_rows:num_rows_padded] = 0", "pass"),
        ("[slot, start:stop] = contents", "[slot, : stop - start] = contents"),
        ("        begin = end", "        pass"),
        ("nb = counts[group][slot]", "nb = counts[0][slot]"),
    ),
    *of("kernels/base/memory.py", ("rows = np.flatnonzero(slots >= 0)", "rows = np.flatnonzero(slots > 0)")),
    *of(
        "kernels/own/update.py",
        ("slots.state_idx[slot] = state_idx[i]", "slots.state_idx[slot] = -1"),
        ("slots.num_accepted[slot] = num_accepted[i]", "pass"),
        ("slots.num_computed[slot] = num_computed[i]", "slots.num_computed[slot] = 0"),
        ("query_len - num_rejected[row]", "query_len"),
        ("slots.total_len[slot] = start + count", "slots.total_len[slot] = start + 1"),
        ("sampled[row, count - 1]", "sampled[row, 0]"),
        ("slots.num_computed[ids] += query_start_loc", "slots.num_computed[ids] -= query_start_loc"),
        ("np.maximum(num_sampled[rows], 1)", "num_sampled[rows]"),
        (
            "slots.num_accepted[ids] = max(value, 1)",
            "pass",
            "",
            "a row that samples nothing has the count 1 already, and the others are replaced before their next step",
        ),
        ("out[rows] = slots.num_computed[ids]", "out[rows] = slots.num_computed[rows]"),
    ),
]

RUNNER = [
    *of(
        "simulator/rank/v2.py",
        ("if all(exclude):", "if any(exclude):"),
        ("[-1 if out else slot for out, slot in zip(exclude, entry.slots.tolist())]", "entry.slots"),
        ("self.block_counts[group][slot] = len(ids)", "self.block_counts[group][slot] += len(ids)"),
        ("start = self.block_counts[group][slot]", "start = self.block_counts[0][slot]"),
        ("self.block_counts[group][slot] = start + len(ids)", "self.block_counts[group][slot] = start"),
        ("prefill + 1 >= self.length_cap[slot]", "prefill + 2 >= self.length_cap[slot]"),
        ("is_spec=np.array(decodes if", "is_spec=np.array([d and not t for d, t in zip(decodes, tails)] if"),
        ("row.num_tokens - row.num_drafts == 1", "row.num_tokens == 1"),
        ("self.computed[slot] = known.num_computed_tokens", "pass"),
        ("self.prefill_len[slot] = len(new.prefill_token_ids)", "self.prefill_len[slot] = new.prompt_len"),
        ("(TableWrite(group, slot, start, ids))", "(TableWrite(group, slot, start, ids[:-1]))"),
    ),
    *of(
        "simulator/rank/ring.py",
        ("deque([None] * depth)", "deque([None] * (depth + 1))"),
        (
            "self._entries[-1] = entry",
            "self._entries[0] = entry",
            "",
            "an output that is consumed early is waited for on the device; it costs the overlap, not correctness",
        ),
    ),
    *of("simulator/rank/slots.py", ("self.generation[slot] += 1", "self.generation[slot] += 0")),
    *of("simulator/rank/batch.py", ("for r in rows], initial=0)", "for r in rows])")),
    *of("simulator/rank/staging.py", (", -1) + 1) % self.depth", ", -1) + 1) % max(self.depth - 1, 1)")),
    *of(
        "simulator/rank/base.py",
        ("zero = list(self.policy.blocks_to_zero(step))", "zero = list(self.policy.blocks_to_zero(step))[1:]"),
        ("count = len(step.copies)", "count = len(step.copies) - 1"),
        ("self.device([s for s, _ in step.copies]", "self.device([d for _, d in step.copies]"),
    ),
    *of(
        "simulator/rank/policy.py",
        ("(new.num_computed_tokens - 1) // block_size", "new.num_computed_tokens // block_size"),
        (
            "~entry.needs_output | (generation",
            "(generation",
            "",
            "the output of a row that samples nothing changes no count, and it has no boundary to save",
        ),
        ("        return 1\n", "        return 2\n"),
    ),
    *of(
        "simulator/rank/v1.py",
        ("-(-(k.computed + r.num_tokens) // size) - 1", "(k.computed + r.num_tokens) // size", "v1"),
        ("[k.accepted - 1 if m else 0", "[0 if m else 0", "v1"),
        ("k.accepted = 1 if move else k.accepted", "pass", "v1"),
        (".accepted = int(accepted[row])", ".accepted = 1", "v1"),
        ("known.computed = cached.num_computed_tokens", "pass", "v1"),
        ("known.blocks[group].extend(ids)", "known.blocks[group][:0] = ids", "v1"),
    ),
]

SCHEDULER = [
    *of(
        "simulator/engine/recurrent.py",
        ("column_ < cdiv(num_settled_tokens", "column_ <= cdiv(num_settled_tokens"),
        ("table.blocks.extend([NULL_BLOCK] * (skipped - length))", "pass"),
        ("return self._pool.num_blocks + 1", "pass"),
        ("return num_computed_tokens - 1", "return num_computed_tokens"),
        ("self._pool.move_hashes(source, private)", "pass"),
    ),
    *of(
        "simulator/engine/managers.py",
        ("return len(hit) > 0 and num_tokens % self.block_size != 0", "return False"),
        (
            "missing = cdiv(num_slots, self.block_size) - len(table.blocks)",
            "missing = num_slots // self.block_size - len(table.blocks)",
        ),
        ("self._pool.hold(hit)", "pass"),
        ("self._pool.hold((private,))", "pass"),
    ),
    *of(
        "simulator/engine/block_pool.py",
        (
            "                self.forget(block)\n            self._ref_counts[block] = 1",
            "                pass\n            self._ref_counts[block] = 1",
        ),
        ("self._ref_counts[block] += 1", "self._ref_counts[block] = 1"),
    ),
    *of(
        "simulator/engine/scheduler.py",
        ("self.current_step + self._decode_interval", "self.current_step"),
        ("request.num_in_flight_tokens += row.num_tokens", "pass"),
        ("min(max(beyond, 0), request.num_spec_tokens)", "request.num_spec_tokens"),
    ),
    *of(
        "simulator/engine/outputs.py",
        ("request.num_computed_tokens -= num_rejected", "pass"),
        ("request.num_output_placeholders -= num_rejected", "pass"),
        (
            "if row.num_drafts and not stale:",
            "if row.num_drafts:",
            "",
            "both counters of a preempted request are 0, and rolling back leaves a 0 alone",
        ),
    ),
    *of(
        "simulator/engine/cache.py",
        ("manager.adopt_hit(table, blocks, hit.num_tokens)", "pass"),
    ),
    *of(
        "simulator/engine/policies.py",
        ("num_computed_tokens - request.num_in_flight_tokens", "num_computed_tokens"),
        ("max(num_settled_tokens - 1, 0) // block_size", "num_settled_tokens // block_size"),
        ("max(length - num_speculative_blocks, 0)", "max(length - num_speculative_blocks - 1, 0)"),
        ("return not request.num_stale_output_tokens or request.drops_stale_output", "return True"),
        ("        return request.num_in_flight_tokens\n", "        return 0\n"),
        ("        return attention\n", "        return attention[1:]\n"),
        ("else request.num_tokens - 1", "else request.num_tokens"),
        ("        return config.recurrent_block_size\n", "        return config.recurrent_block_size - 1\n"),
    ),
    *of(
        "simulator/engine/admission.py",
        ("request.num_computed_tokens = hit.num_tokens", "pass"),
    ),
]

MUTANTS = (*KERNELS, *TABLES, *RUNNER, *SCHEDULER, *ORACLE, *TRITON, *UNIVERSES, *MIRRORED)
