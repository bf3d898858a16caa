"""How programs that share a row tell each other its statistics: one 64-bit word each, through L2.

A word is the whole message: the maximum m of a program's slice in its low half, the sum d of the
slice's exponentials in its high half, and a tag in d's sign bit, which no sum needs. A 64-bit
access is never torn, so that whoever sees the tag has m and d too. Hence relaxed accesses do: no
other memory is handed over, and a fence would make a row wait for the stores of the one before.

The tag of a word is turned over each time it is published anew. Words therefore need no clearing:
whatever a launch leaves behind carries the old tag of the next. A program learns its own tags from
its own words as it starts, and since all programs of a group publish equally often, theirs are the
tags of the whole group.

Each program has two words, for rows in turn. Publishing row i + 2 overwrites row i: this is safe,
as a program gets there only with the words of row i + 1 of all others in hand, and each of them
published that one after it had read all of row i.
"""

from __future__ import annotations

from kernels.language import jit, tl

POLLS = 1 << 26  # trips to L2, so of the order of a minute: no word is as late as that

# A loop in Triton would ask all threads about one condition, but each thread loads a word for
# itself and may see it sooner or later than its neighbours. So each waits for its own words; one
# that has come stays until the waiting program publishes again.
AWAIT = f"""{{
    .reg .pred there, again;
    .reg .b32 polls;
    .reg .b64 word, tag;
    mov.u32 polls, 0;
POLL:
    ld.relaxed.gpu.global.b64 word, [$1];
    shr.u64 tag, word, 63;
    setp.eq.u64 there, tag, $2;
    @there bra THERE;
    add.u32 polls, polls, 1;
    setp.lt.u32 again, polls, {POLLS};
    @again bra POLL;
    trap;
THERE:
    mov.b64 $0, word;
}}"""
AWAIT_ASM = None if tl is None else tl.constexpr(AWAIT)


@jit
def summarise(values: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Exponentials of a slice against its own maximum, that maximum m, and their sum d ≥ 0.

    Triton's maximum passes over NaN; it comes back through the sum.
    """
    maximum = tl.max(values)
    # A slice of -inf alone: -inf - -inf would be NaN, any finite shift gives zeros
    exponentials = tl.exp(values - tl.where(maximum == float("-inf"), 0.0, maximum))
    return exponentials, maximum, tl.sum(exponentials)


@jit
def pack(maximum: tl.tensor, total: tl.tensor, tag: tl.tensor) -> tl.tensor:
    """The word that says m, d and a tag of 0 or 1."""
    low = maximum.to(tl.uint32, bitcast=True).to(tl.uint64)
    high = total.to(tl.uint32, bitcast=True).to(tl.uint64) & 0x7FFFFFFF  # NaN too may have a sign
    return ((tag.to(tl.uint64) << 63) | (high << 32) | low).to(tl.int64, bitcast=True)


@jit
def tag_of(word: tl.tensor) -> tl.tensor:
    """The tag of a word."""
    return (word.to(tl.uint64, bitcast=True) >> 63).to(tl.int32)


@jit
def scale(words: tl.tensor, present: tl.tensor, maximum: tl.tensor) -> tl.tensor:
    """What turns a slice's exponentials into quotients, given the words of all slices of its row.

    The words are combined in the order of the slices: each program gets the same sum, each time. A
    lane that is not present repeats the word of one that is: no other maximum, but a sum too many.
    """
    bits = words.to(tl.uint64, bitcast=True)
    maxima = (bits & 0xFFFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)
    totals = ((bits >> 32) & 0x7FFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)
    totals = tl.where(present, totals, 0.0)
    highest = tl.max(maxima)
    # -inf - -inf is NaN where all of a row is -inf, and so is the answer
    return tl.exp(maximum - highest) / tl.sum(totals * tl.exp(maxima - highest))


@jit
def publish(word: tl.tensor, maximum: tl.tensor, total: tl.tensor, tag: tl.tensor) -> None:
    """Lets the group see m and d of this program's slice.

    The barrier is for the program's own warps: one may still be reading what a word published
    too soon would let another program overwrite.
    """
    tl.debug_barrier()
    tl.atomic_xchg(word, pack(maximum, total, tag), sem="relaxed", scope="gpu")


@jit
def await_words(words: tl.tensor, tag: tl.tensor) -> tl.tensor:
    """The words at these addresses, each as soon as it carries the tag."""
    wanted = tl.zeros_like(words.to(tl.int64)) + tag.to(tl.int64)
    return tl.inline_asm_elementwise(
        AWAIT_ASM, "=l,l,l", [words.to(tl.int64), wanted], tl.int64, is_pure=False, pack=1
    )
