"""The kinds of violation: a fixed vocabulary, and the page in Markdown that reports and `stalerow explain` show."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal[
    "cross-request copy",
    "use after free",
    "stale slot",
    "wrong position",
    "torn copy",
    "uninitialised read",
    "null block write",
    "poisoned cache",
    "dead binding",
    "rank divergence",
    "output divergence",
    "out of bounds",
    "leak",
    "starvation",
    "preemption loop",
    "racing writes",
    "kernel raised",
    "broken rule",
    "engine raised",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

PAGES: dict[Kind, str] = {
    "cross-request copy": """
**What it means.** A copy launch that worked for one request read or wrote a block that belongs to another. From here
on a live request computes with somebody else's state, or with one that was overwritten under it.

**Usual cause.** The block table was looked up by something that no longer names the request: a batch row after the
table was gathered again for a later batch, a stale slot, a pointer to another group's table. Rarely, the block id was
right and the address arithmetic wrong.

**Public bugs that looked like this.** vLLM #55506, #55951 and #57807 (copies indexed by batch row, run `P` steps late
on the non-last ranks); vLLM #45357, where the block had been handed on before the copy ran.

**Look at next.** The table under the timeline: which request sat in that row in the step the launch was for, and
which sits there in the table gathered last. If the two differ, the lookup is by row. If they agree, compare the block
read with the one meant: equal blocks and a wrong owner mean that the block changed hands too early.
""",
    "use after free": """
**What it means.** A launch wrote or read a block that nobody owns at that moment on that rank's own timeline, or one
that the request which needs it no longer has.

**Usual cause.** Blocks are freed by finish, abort or preemption while a step that touches them is still in flight,
and something lets the free or the next owner come first. Reading a column past the end of a row gives the same
picture, since what stands there is an old id.

**Public bugs that looked like this.** vLLM #45357, #45096 and vllm-ascend #14055 (blocks handed out while a step that
writes them is in flight); vLLM #47728 (blocks retired on the optimistic token count).

**Look at next.** The history of the block: the event at which its owner left, and whether the launch was enqueued
before or after it. A mark named 'open window' tells the legal cousin of this.
""",
    "stale slot": """
**What it means.** A per-slot value (running column, accepted count, computed tokens) is not the one of the request
that has the slot now.

**Usual cause.** A slot was reused and a value of its previous owner survived, or an output that arrived late was
scattered into a slot that had been freed and given away in the meantime.

**Public bugs that looked like this.** vLLM #48132 (accepted count survives admission), #35157 (a resumed request
keeps its old column), the review of #50514 (no generation check on deferred results).

**Look at next.** The step at which the slot changed hands, and the seed and post_update launches after it. If the
value is right after the seed and wrong after a deferred post_update, the mask of that output is at fault.
""",
    "wrong position": """
**What it means.** The right request's bytes, at the wrong place: another column, another number of tokens, or a page
that a launch changed or left alone against its orders.

**Usual cause.** An off-by-one in a column, a bias that ignores rejected drafts, a block size in the wrong unit, or a
chunk that ends where nobody expected a boundary.

**Public bugs that looked like this.** vLLM #53142, #53798, #55507 and #55600 (the column seeded in the scheduler's
block size: 100096 tokens gave column 781, not 45); #54076 (chunks clipped on another block grid); #57605 (drafts need
a page that is not there).

**Look at next.** The copy that was meant beside the one that was made: if the columns differ by a constant factor, it
is a unit; if they differ by one, it is a boundary. The number of tokens that the bytes have absorbed says how far off
they are.
""",
    "torn copy": """
**What it means.** Part of a state arrived: some layers, some state tensors, or some rows of a window hold the new
bytes and the others the old.

**Usual cause.** Programs of one launch depend on each other: one resets a value that its siblings still read, or a
window is shifted in place without care for overlap. A mask that misses a dimension tears too.

**Public bugs that looked like this.** vLLM #50432 (one program resets the accepted count while siblings read it);
#50729 and vllm-ascend #15592 (left shift within one block done as if nothing overlapped).

**Look at next.** How many copies were left out, and whether they are whole tensors (a race between programs) or rows
of one window (overlap). Run the same schedule with the reference form of the kernels: it has no programs, so a race
disappears and a wrong mask stays.
""",
    "uninitialised read": """
**What it means.** A forward or a copy read bytes that nobody wrote since the block changed hands, or the null block
as if it were a state.

**Usual cause.** A state that was expected at a boundary was never saved, an admission took a hit for more than is
there, or a block was handed on without being zeroed where zeros are expected.

**Public bugs that looked like this.** vLLM #33937, #53084 and #39064 (block 0 read or written as a state); #56524 and
#35219 (a recycled block read before anything wrote it); SGLang #39342 (the checkpoint was never written).

**Look at next.** The history of the block that was read: if it ends with 'poisoned', find the launch that should have
written it and what it did instead. It is often an earlier violation's echo, so look at the first one first.
""",
    "null block write": """
**What it means.** A launch wrote to block 0, the page that belongs to nobody and that every empty column names. Whoever
reads an empty column later reads what was written there.

**Usual cause.** A target column that the engine never filled or has given up, a row of another request that is shorter,
or a padded row whose indices were left at zero and that the forward did not skip.

**Public bugs that looked like this.** vLLM #33937, #53084 and #39064 (block 0 read or written as a state); #57605 (a
draft's page that is missing).

**Look at next.** The row and column that were looked up for the target: whether the column should hold a block by then,
and in which step the engine was to hand it out.
""",
    "poisoned cache": """
**What it means.** The prefix cache offers a block for a prefix whose state it does not hold. Whoever hits it next
starts from somebody else's state, or from junk.

**Usual cause.** A wrong copy at a boundary, or a block that was hashed before the launch that fills it had run.

**Public bugs that looked like this.** vLLM #54173 collects reports of it after the row bug; #41838 (hashed before
anything wrote it, hit in the same step); #53505 (the hit length of one group taken for another).

**Look at next.** The block's history up to the moment it was cached: the last write before it, by which launch, and
whether that launch was asked to write there.
""",
    "dead binding": """
**What it means.** The copy kernels hold addresses, or a group count, of a cache that is gone.

**Usual cause.** The context was bound once and lazily by whichever caller came first: memory profiling or graph
capture, whose cache was temporary.

**Public bugs that looked like this.** vLLM #57807 and #54044 ("expected 3 block tables, got 4").

**Look at next.** When the binding was made and when that cache went away. Binding when the KV cache is initialised
removes the question.
""",
    "rank divergence": """
**What it means.** Two pipeline ranks disagree about one request's counts or columns after the same step.

**Usual cause.** A non-last rank does not take rejected drafts back, advances twice, or masks another set of rows than
the last rank does.

**Public bugs that looked like this.** vLLM #44697, #44698 and #46994 (the rejected count is not applied on non-last
ranks).

**Look at next.** The post_update of that step on both ranks, and the advance of the non-last one: their sum must be
the accepted tokens.
""",
    "output divergence": """
**What it means.** The tokens or states that left the last rank are not what the request alone would have given.

**Usual cause.** Nearly always the echo of an earlier violation: damage that was read, recomputed from, and passed on.
On its own it means that a value nobody checks directly was wrong.

**Public bugs that looked like this.** What users report as one constant token up to the length cap and an acceptance
length of 1.0: vLLM #54173, #55506.

**Look at next.** The first violation of the run. If this is the first, look at what the forward of that step read.
""",
    "out of bounds": """
**What it means.** A kernel was told to touch memory outside a table or the pool, or died of having done so.

**Usual cause.** A column past the end of a row, a block id that is none, or an address that lost its upper half: a
32-bit product of id and stride, or an address at or above 2^63 in a signed integer.

**Public bugs that looked like this.** vLLM #35275, #41817, #48109 and #49436 (address width); #55600 (134400 tokens
gave column 8399 in a row of 123).

**Look at next.** The value that was out of range and its bound: a small excess is a column, a huge one an address.
""",
    "leak": """
**What it means.** A request holds blocks that no rule of the engine lets it keep: they are neither needed for its
next step nor offered by the prefix cache.

**Usual cause.** The rule that frees states of passed columns looks at the wrong column, or at fewer of them than a
long chunk skips.

**Public bugs that looked like this.** vLLM #55450 (states of skipped columns are never released: 71 held, 9 needed).

**Look at next.** The counter of blocks in use and the request's list of columns after each of its chunks: the first
chunk after which the list grows and does not shrink is the one.
""",
    "starvation": """
**What it means.** Requests wait and nothing in flight can ever let them in.

**Usual cause.** Blocks that are held and not needed, an admission that asks for more than the pool has, or a limit
that no request can meet.

**Public bugs that looked like this.** vLLM #55450 describes how a pool fills with states that nobody needs or frees.

**Look at next.** Blocks in use at the last step, and who owns them on the block map.
""",
    "preemption loop": """
**What it means.** Requests preempt each other, or themselves, for ever: steps are scheduled and no token is
delivered.

**Usual cause.** A pool too small for what one request needs, or blocks that preemption does not give back.

**Public bugs that looked like this.** Seen as a hang with full GPU use; vLLM #47900 and #48245 are about outputs that
are lost on the way.

**Look at next.** The steps list: who is preempted, who is admitted, and how many blocks come free between the two.
""",
    "racing writes": """
**What it means.** Two programs of one launch, or two warps of one program, wrote different bytes to one place, and
nothing says which comes last. In this run the right bytes stayed; in another order the others do.

**Usual cause.** Two rows of the batch copy to one block: a stale row, a null block written by every short row, or a
grid that cuts a state into pieces that overlap.

**Public bugs that looked like this.** vLLM #50729 and vllm-ascend #15592 are the same fault between a load and a store;
#53084 lets several rows write the null block.

**Look at next.** The two programs and their lines, and the block that they wrote: whose is it, and does either row mean
it? Take the lags out of the saved order one by one: without any, programs run one after another.
""",
    "kernel raised": """
**What it means.** A kernel under test raised an exception instead of returning. The run ends there: what a launch
leaves behind when it stops half way means nothing. The explanation names the exception, and file and line of the
kernel.

**Usual cause.** A mistake that the interpreter sees before any copy is made: a name that a branch does not define, a
division by a size that is zero for one group, an argument of another shape than the caller gives. On a GPU, an illegal
memory access that the driver reports at this launch or a later one.

**Public bugs that looked like this.** None of the catalogue: a release's kernels do not raise on any recorded run.

**Look at next.** At the line that is named, with the schedule's smallest form: `stalerow replay FILE --step` shows what
the launch was given. """,
    "broken rule": """
**What it means.** The engine that schedules broke a rule of its own: it prefilled a request with tokens that are not
the request's, admitted more requests than it has room for, or ran into one of its own assertions. No kernel has a part
in it, and the run ends there.

**Usual cause.** A change of the scheduler, or a fault's policy: a request that comes back after preemption with the
tokens of another, a list that is cut at the wrong place, a slot that is given away before it is free.

**Public bugs that looked like this.** None of the catalogue.

**Look at next.** At the step that is named: `stalerow replay FILE --step` shows what was scheduled before it.
""",
    "engine raised": """
**What it means.** The engine's own scheduler or worker raised an exception while it ran a schedule; the sentence names
its file and line.

**Usual cause.** An assertion of the engine about its own state, or two sides that do not fit, such as a broadcast that
is narrower than its receive.

**Public bugs that looked like this.** vLLM #54044 ("expected 3 block tables, got 4").

**Look at next.** The line in the engine's source, then the last step of the schedule: what it holds that a smaller one
does not.
""",
}
"""What it means, what usually causes it, which public bug looked like this, and what to look at next."""
