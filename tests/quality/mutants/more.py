"""Mutants of what judges (the oracle), of the Triton forms, and of the packs, each with the trial that must tell it."""

from __future__ import annotations

from functools import partial

from mutant import of

oracle, triton, packs = (partial(of, trial=name) for name in ("faults", "triton", "packs"))

ORACLE = [
    *oracle(
        "simulator/oracle/effect.py",
        ("column = self.source if entry.conv_width else self.source + self.bias", "column = self.source"),
        ("if row.column_before < 0 or row.column_before == row.column:", "if row.column_before == row.column:"),
        ("row.accepted_before - 1", "row.accepted_before"),
        ("target[:] = source", "target[:] = target"),
        ("[copy.bias :].copy()", "[: entry.conv_width - copy.bias].copy()"),
        ("entry, target)[: entry.conv_width - copy.bias]", "entry, target)[copy.bias :]"),
        ("return slice(entry.offset, entry.offset + entry.data_bytes)", "return slice(entry.offset, entry.data_bytes)"),
    ),
    *oracle(
        "simulator/oracle/ledger.py",
        ("if column < hit:", "if column <= hit:"),
        ("if o.request not in gone]", "]"),
        ("hit = new.num_computed_tokens // self._sizes[group]", "hit = 0"),
        ("any(o.request == request and o.group == group for o", "any(o.request == request for o"),
        ("self.incarnation.get(new.request, 0) + 1", "1"),
        ("(taken.recurrent if recurrent else taken.attention).append(block)", "taken.attention.append(block)"),
    ),
    *oracle(
        "simulator/oracle/watch.py",
        (
            "[row for row in rows if row.needs_output]",
            "rows",
            "",
            "a row that needs no output accepts one token at most, so its boundary is the running column",
        ),
        ("self.handed_over = taken.recurrent", "self.handed_over = []"),
        ("                self.ledger.take_frees(operation.taken)\n", ""),
        ("                self._early(operation, operation.blocks)\n", ""),
        ("self.fresh_attention = taken.attention", "self.fresh_attention = []"),
        ("for r in requests if self.ledger.alive(r, rows[r].incarnation)]", "for r in requests]"),
        ("                self.filled(operation, operation.blocks, 0)\n", ""),
        ("if operation.step <= self.admitted:", "if True:"),
    ),
    *oracle(
        "simulator/oracle/slots.py",
        ("num_accepted=max(row.num_sampled, 1))\n        if row", "num_accepted=row.num_sampled)\n        if row"),
        ("self._set(slot, num_accepted=row.accepted_after)", "self._set(slot, num_accepted=accepted)"),
    ),
    *oracle("simulator/oracle/expected.py", ("counts = Counts(row.end, known,", "counts = Counts(row.start, known,")),
    *oracle(
        "simulator/oracle/judge.py",
        ("self.shadow[:, list(blocks), :] = byte", "self.shadow[:, list(blocks), 8:] = byte"),
        ("in reads.unzeroed(self._evidence(), operation, self.fresh_attention):", "in ():"),
        ("in slots.wrong_slots(rank.index, held(rank), self.planner, batch, rows, self._slots.told):", "in ():"),
        ("in bookkeeping.misplaced_output(self.rank.index, operation, outcomes):", "in ():"),
        ("in reads.wrong_cache(self._evidence(), self.pages(), self.offered(hashed)):", "in ():"),
        ("if value and row.num_sampled:", "if row.num_sampled:"),
        ("if not self.ledger.owns(copy.request, copy.entry.group, block):", "if False:"),
        ("self.report(bookkeeping.bound_to_the_dead(found, violation))", "self.report(violation)"),
    ),
    *oracle(
        "simulator/oracle/shadow.py",
        ("qsl[i + 1] = qsl[i] + row.num_tokens", "qsl[i + 1] = row.num_tokens"),
        ("self._slots.num_accepted[i] = row.accepted_in_forward", "self._slots.num_accepted[i] = 1"),
        ("seq_lens[i] = row.start + row.num_tokens", "seq_lens[i] = row.start"),
        ("[row.column : row.column + spans]", "[row.column : row.column + 1]"),
    ),
    *oracle(
        "simulator/oracle/resources.py",
        ("held.settled = end - rejected", "held.settled = end"),
        ("            ends.insert(0, held.settled)\n", "            pass\n"),
        ("held.furthest = max(held.furthest, end)", "held.furthest = end"),
        ("left = sorted(real - needed)", "left = sorted(needed - real)"),
        ("if request not in self._held:", "if request in self._held:"),
    ),
    *oracle(
        "simulator/oracle/explain/bookkeeping.py",
        ("if not evidence.dead_binding:", "if True:"),
    ),
    *oracle(
        "simulator/oracle/explain/copies.py",
        ("and meant.request not in at_source:", "and False:"),
        ("if late and not evidence.by_slot:", "if False:"),
    ),
]

TRITON = [
    *triton(
        "kernels/align/copy_triton.py",
        ("load_kept(blocks + source + tl.where(width == 0, bias, 0))", "load_kept(blocks + source)"),
        ("tl.where(width == 0, 1, width - bias)", "tl.where(width == 0, 1, width)"),
        ("skipped = tl.where(width == 0, 0, bias)", "skipped = bias"),
        ("token_stride = elem if CHANNELS_FIRST else row_bytes", "token_stride = row_bytes"),
        ("            src + bias * token_stride,\n", "            src,\n"),
        ("            width - bias,\n            begin,", "            width,\n            begin,"),
        ("gap = channel_stride.to(tl.int32) - elem", "gap = channel_stride.to(tl.int32)"),
        ("nth = begin // steps + 1", "nth = begin // steps"),
        ("dst_block = load_kept(blocks + target)", "dst_block = load_kept(blocks + source)"),
        ("words = (size - head) // ALIGN", "words = size // ALIGN"),
        ("head = tl.minimum((-dst) & (ALIGN - 1), size)", "head = tl.minimum((-dst) & (ALIGN - 1), 0)"),
    ),
    *triton(
        "kernels/align/postprocess_triton.py",
        ("first = total - accepted + 1", "first = total - accepted"),
        ("target = aligned // BLOCK_SIZE - 1", "target = aligned // BLOCK_SIZE"),
        ("present & (aligned >= first)", "present & (aligned > first)"),
        ("reached & ((running != target) | (aligned != first)),", "reached & (running != target),"),
        ("mask=reached & (running == target)", "mask=reached"),
        ("            aligned - first,\n", "            (aligned - first) * 0,\n"),
        ("table_row = slot\n", "table_row = row\n"),
        ("load_kept(num_accepted_snapshot + slot", "load_kept(state_idx + slot"),
    ),
    *triton(
        "kernels/align/precopy_triton.py",
        ("(source >= 0) & (source != target),", "source != target,"),
        ("(source >= 0) & (source != target),", "source >= 0,"),
        ("load_kept(src_off + slot", "load_kept(src_col + slot"),
        ("table_row = slot\n", "table_row = row\n"),
    ),
    *triton(
        "kernels/align/preprocess_triton.py",
        ("tl.maximum(accepted - 1, 0)", "accepted"),
        ("(computed + end - begin + BLOCK_SIZE - 1)", "(computed + end - begin)"),
        ("mask=live & (old >= 0) & (old != new)", "mask=live & (old >= 0)"),
        ("tl.store(src_col + slot, old, mask=live)", "tl.store(src_col + slot, new, mask=live)"),
    ),
    *triton(
        "kernels/align/indices_triton.py",
        ("(length - 1) // BLOCK_SIZE", "length // BLOCK_SIZE"),
        ("column = first[None, :, None] + j", "column = first[None, :, None] * 0 + j"),
    ),
    *triton(
        "kernels/own/tables_triton.py",
        ("tl.int32)) + slot * row_stride", "tl.int32)) + write * row_stride"),
        ("column = start[:, None] + i[None, :]", "column = start[:, None] * 0 + i[None, :]"),
        ("contents + begin[:, None] + i[None, :]", "contents + begin[:, None] * 0 + i[None, :]"),
        ("source += slot * row_stride", "source += row * row_stride"),
        ("tl.where(row >= num_rows, max_blocks, count)", "count"),
    ),
    *triton(
        "kernels/own/blocks_triton.py",
        ("(j < page_bytes)[None, :]", "(j < page_bytes - 1)[None, :]"),
        ("layer_start = item // n * num_blocks", "layer_start = item // n * n"),
        ("+ byte).to(tl.uint8)", "+ byte * 0).to(tl.uint8)"),
    ),
    *triton(
        "kernels/own/update_triton.py",
        ("tl.load(new_num_accepted + i", "tl.load(new_state_idx + i"),
        ("row * sampled_stride + count - 1", "row * sampled_stride + count * 0"),
        ("delta = -tl.load(num_rejected", "delta = tl.load(num_rejected"),
        ("length += tl.load(query_start_loc + row + 1", "length += tl.load(query_start_loc + row"),
        ("computed + end - begin, mask=live", "computed + end, mask=live"),
        ("tl.maximum(count, 1)", "count"),
    ),
]

UNIVERSES = [
    *packs(
        "simulator/universes/pack.py",
        ('BLOCKS = ("block", "source", "target", ', 'BLOCKS = ("block", "source", '),
        ('values[column] += universe * sizes["slots"]', "values[column] += 0"),
        ("values[column] += universe * requests", "values[column] += 0"),
        ('np.argsort(values[:, 0], kind="stable")', "np.arange(len(values))"),
    ),
    *packs(
        "simulator/universes/batches.py",
        ("self.mapping = dense(rows, 2, -1)", "self.mapping = dense(rows, 1, -1)"),
        ("self.outcomes = dense(outcomes, 2, -1)", "self.outcomes = dense(outcomes, 1, -1)"),
        ("self.good = dense(rows, 6, 0)", "self.good = dense(rows, 7, 0)"),
        ("dense(rows, 7, 0) + lengths", "lengths"),
    ),
    *packs(
        "simulator/universes/group.py",
        ("else self._frame - self.num_ranks", "else self._frame - self.num_ranks + 1"),
        ('self._compact("outcomes") if self.is_last else None', "None"),
        ('        self._move("premoves")\n', ""),
        ('        self._move("postmoves")\n', ""),
        ('self._check_counts("rows", 7, held', 'self._check_counts("rows", 6, held'),
        ("self.ops.advance_computed(self.slots, mapping, qsl, self.num_rows)", "pass"),
        ("self._compare(3)", "pass"),
        ("table[padding] = self.null[padding][:, None]", "table[padding] = 0"),
    ),
    *packs(
        "simulator/universes/record.py",
        ("move.source + move.bias)", "move.source)"),
        ("(frame, slot) for slot in idx[:num_rows].tolist()", "(frame, slot) for slot in idx[:1].tolist()"),
        ("start + k, ids[begin + k])", "start, ids[begin + k])"),
    ),
    *packs(
        "simulator/universes/rank_memory.py",
        (
            'np.arange(count, dtype=np.int32) * sizes["blocks"], sizes["slots"])',
            "np.zeros(count, np.int32), sizes['slots'])",
        ),
        ("self.owned.num_blocks[:] = sizes", "self.owned.num_blocks[:1] = sizes"),
    ),
    *packs(
        "simulator/universes/memory.py",
        ("np.arange(0, layout.num_blocks, size,", "np.arange(0, size, size,"),
    ),
    *packs(
        "simulator/universes/execute.py",
        ("first = int(verdicts[:, u].min())", "first = int(verdicts[:, u].max())"),
    ),
]
