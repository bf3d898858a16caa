"""Cooperative softmax: several programs split a row, and each slice stays in registers.

Passes: one; reads MN, writes MN: 2MN. A program reduces its slice to (m, d): its maximum, and the
sum of exp(x − m). It publishes the pair, collects the pairs of the whole row, combines them and
scales its slice. The pairs pass through L2 as two words per program (described below). A launch
leaves these words to the next launch; they are not part of the 2MN.
On chip: the row, N elements, spread over the registers of as many SMs as needed; the limit is the
whole chip. Programs are persistent: groups of programs, one row per group at a time, share out the
rows. While one group waits, another group on the same SMs loads. Registers hold slices of two rows:
a program waits for a row's words only after it has published the next row's; by then they have
arrived, and the following slice is loading.

It cannot hang. A waiting program keeps its place on the card, so all programs that it waits for
need a place too: the launch is cooperative, and the driver refuses a grid that the card cannot hold
at once. All programs of a group take the same rows in the same order, and publish a row's word
before they wait for another's. So the first unpublished word in that order never waits for
anything. If a word still stays away (memory overwritten from elsewhere), the program traps after
2²⁶ polls: a lost context is a visible error, a made-up answer is not.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, section 3.1, "parallel online normalizer
calculation"; co-residency as in NVIDIA's CUDA C++ Programming Guide, "Grid Synchronization".
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple

import torch
from typing_extensions import override

from ..device import Device, device_of, known, resident_programs
from ..kernel import Kernel, Shape, power_of_two
from ..language import constant, jit, next_power_of_two, tl
from ..launch import load_hint, store_hint
from .tiles import TritonSoftmax, empty_result, rows_of

WHOLE = 16  # elements: what Triton asks of sizes and strides to load vectors
NOT_HERE = (
    "needs a CUDA device: its programs wait for one another, and Triton's interpreter "
    "runs each to its end before the next"
)
LEAST_SLICE, LARGEST_SLICE = 1024, 32768
LEAST_WARPS = 4  # so that an SM's warps run out before its places for programs
OTHERS = 32  # registers per thread that hold no element
SCRATCH_BYTES = 256  # shared memory of the reductions, generously
MOST_REGISTERS = 255
# Elements of a slice, warps of a program, and rows that must fit at once: the first that fits.
# Measured on an H100: slices of 4096 are fastest up to 540,000 columns, slices of 8192 beyond.
WAYS = ((4096, 4, 4), (8192, 8, 2))


@dataclass(frozen=True)
class Cooperative(TritonSoftmax):
    """A group of persistent programs per row, one slice per program."""

    dtypes = Kernel.dtypes

    block_size: Annotated[int | None, power_of_two(1, LARGEST_SLICE)] = None
    num_warps: Annotated[int | None, power_of_two(LEAST_WARPS, 32)] = None

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`: a row that the registers of the whole device do not hold."""
        if device.kind != "cuda":
            return NOT_HERE
        if shape[1] % WHOLE > 0:
            return f"takes rows of a multiple of {WHOLE} elements, not {shape[1]}"
        if 0 in shape or device.sms is None:
            return None
        slices = slices_of(shape[1], device, self.block_size, self.num_warps)
        if slices.number > slices.held:
            programs = f"{slices.number} programs of {next_power_of_two(slices.width)} elements"
            held = f"at once, and this device holds {slices.held}"
            return f"a row of {shape[1]} takes {programs} {held}"
        return None

    @override
    def prepare(self, x: torch.Tensor) -> Callable[..., torch.Tensor]:
        """A launch for inputs like ``x``, copied if they are strided; each stream has own words.

        Raises:
            RuntimeError: on a launch that the device cannot hold at once.
        """
        if x.numel() == 0:
            return empty_result
        (cols, row_stride, col_stride), rows, device = rows_of(x), len(x), device_of(x)
        copied = row_stride % WHOLE > 0 or col_stride != 1
        slices = slices_of(cols, device, self.block_size, self.num_warps)
        rounds = -(-rows // max(slices.held // slices.number, 1))
        groups = -(-rows // rounds)  # of programs, a row each: no more than share out rows evenly
        programs = slices.number * groups
        sizes = (rows, cols, cols if copied else row_stride, slices.number, slices.width)
        an_sm = -(-programs // known(device.sms))
        room = known(device.registers_per_sm) // (32 * slices.warps * an_sm)  # for each thread
        options = {
            "SLOTS": next_power_of_two(slices.number),
            "BLOCK": next_power_of_two(slices.width),
            "LOADS": load_hint(x),
            "STORES": store_hint(x),
            "num_warps": slices.warps,
            "maxnreg": min(room // 8 * 8, MOST_REGISTERS),
            "enable_fp_fusion": False,  # all threads of all programs are to sum alike
            "launch_cooperative_grid": True,  # refused by the driver if programs do not all fit
        }
        words_of_stream = workspaces(WORDS * programs, x.device)

        def launch(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            y = empty_result(x) if y is None else y
            x = x.contiguous() if copied else x
            _cooperative[(programs,)](x, y, words_of_stream(), *sizes, **options)
            return y

        return launch


class Slices(NamedTuple):
    """The cut of a row."""

    number: int  # programs per row
    width: int  # elements of a slice; the last may have fewer
    warps: int  # of a program
    held: int  # programs that the device holds at once


@lru_cache(maxsize=4096)
def slices_of(
    cols: int, device: Device, block: int | None = None, warps: int | None = None
) -> Slices:
    """The cut of a row of ``cols``, whatever the number of rows: no bit of a row depends on it.

    Slices are just narrow enough that the groups of programs which the registers of all SMs hold
    use all of them. ``block`` elements of a slice and ``warps`` of a program are derived where they
    are None.
    """
    for most, many, at_once in WAYS:
        most, many = block or most, warps or many
        elements = -(-most // (32 * many)) * 2  # slices of two rows
        needed = -(-(elements + elements // 2 + OTHERS) // 8) * 8  # some are twice on their way
        held = resident_programs(needed, many, SCRATCH_BYTES, device)
        held = held if needed <= MOST_REGISTERS else 0
        least = -(-cols // most)
        if least * at_once <= held:
            break  # else none holds it
    width = most
    if block is None:
        number = held // (held // least) if least <= held else least
        even = -(-cols // (number * WHOLE)) * WHOLE
        width = min(max(even, LEAST_SLICE), cols)
        if warps is None and width <= WAYS[0][0]:
            many = LEAST_WARPS
    return Slices(-(-cols // width), width, many, held)


def workspaces(words: int, device: torch.device) -> Callable[[], torch.Tensor]:
    """A function that returns so many 64-bit words, which the programs of a launch exchange.

    There is one buffer per stream, all zeros at first: launches on one stream run one after another
    and may share it. A captured launch runs at each replay, on any stream, beside other launches.
    So it gets its own buffer from the graph's memory, and a graph node that zeroes it: the graph
    may outlive whoever keeps a buffer, and `torch.compile` rejects memory of its pool that is kept
    beyond the capture.
    """
    streams: dict[int, torch.Tensor] = {}

    def zeros(stream: torch.cuda.Stream | None) -> torch.Tensor:
        with torch.cuda.stream(stream):
            return torch.zeros(words, dtype=torch.int64, device=device)

    def current() -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            return zeros(None)
        stream = torch.cuda.current_stream(device)
        if stream.cuda_stream not in streams:
            # What this thread allocates may go to the pool of a graph that is being warmed up
            with ThreadPoolExecutor(1) as elsewhere:
                made = elsewhere.submit(zeros, stream).result()
            streams.setdefault(stream.cuda_stream, made)
        return streams[stream.cuda_stream]

    return current


# How programs that share a row exchange its statistics: one 64-bit word each, through L2.
#
# A word is the whole message: the maximum m of a program's slice in its low half, the sum d of the
# slice's exponentials in its high half, and a tag in d's sign bit, which no sum needs. A 64-bit
# access is never torn, so whoever sees the tag has m and d too. Relaxed accesses do: no other
# memory is handed over, and a fence would make a row wait for the stores of the one before.
#
# The tag of a word is turned over each time it is published anew, so words need no clearing. A
# program learns its tags from its own words as it starts; all programs of a group publish equally
# often, so theirs are the tags of the whole group.
#
# A program may publish row i before it awaits row i − 1, so that nobody waits for a word that was
# only just sent. It has four words, for rows in turn. Row i overwrites the word of row i − 4: by
# then it has the words of row i − 2 of all others, and each of them published that one after it had
# read all of row i − 4. Three words would not do.

WORDS = 4  # of each program
WORDS_OF_EACH = constant(WORDS)

POLLS = 1 << 26  # trips to L2, so of the order of a minute: no word is as late as that

# A loop in Triton would ask all threads about one condition, but each thread loads a word for
# itself and may see it sooner or later than its neighbours. So each waits for its own words; one
# that has come stays until the waiting program publishes again.
AWAIT_ASM = constant(f"""{{
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
}}""")


@jit
def tag_of(word: tl.tensor) -> tl.tensor:
    """The tag of a word."""
    return (word.to(tl.uint64, bitcast=True) >> 63).to(tl.int32)


@jit
def publish(word: tl.tensor, maximum: tl.tensor, total: tl.tensor, tag: tl.tensor) -> None:
    """Publishes m and d of this program's slice to its group.

    The barrier is for the program's own warps: one may still be reading words that another program
    overwrites once it sees this word.
    """
    low = maximum.to(tl.uint32, bitcast=True).to(tl.uint64)
    high = total.to(tl.uint32, bitcast=True).to(tl.uint64) & 0x7FFFFFFF  # NaN too may have a sign
    packed = ((tag.to(tl.uint64) << 63) | (high << 32) | low).to(tl.int64, bitcast=True)
    tl.debug_barrier()
    tl.atomic_xchg(word, packed, sem="relaxed", scope="gpu")


@jit
def await_words(words: tl.tensor, tag: tl.tensor) -> tl.tensor:
    """Waits until all words at these addresses carry the tag, and returns them."""
    wanted = tl.zeros_like(words.to(tl.int64)) + tag.to(tl.int64)
    return tl.inline_asm_elementwise(
        AWAIT_ASM, "=l,l,l", [words.to(tl.int64), wanted], tl.int64, is_pure=False, pack=1
    )


@jit
def _cooperative(
    x: tl.tensor,
    y: tl.tensor,
    words: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    slices: tl.tensor,
    slice_width: tl.tensor,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
) -> None:
    member = tl.program_id(0) % slices
    group = (tl.program_id(0) // slices).to(tl.int64)
    groups = tl.num_programs(0) // slices  # no more than rows
    begin = member.to(tl.int64) * slice_width
    width = tl.minimum(slice_width, cols - member * slice_width)
    x += begin
    y += begin
    # under way before the words are asked for
    values = _load(x + group * row_stride, width, BLOCK, LOADS)

    words += group * WORDS_OF_EACH * slices
    tags = 0  # a bit for each word
    for turn in tl.static_range(WORDS_OF_EACH):
        tags |= tag_of(tl.load(words + turn * slices + member)) << turn
    turn = 0
    waiting = tl.zeros((BLOCK,), tl.float32)  # the row before's exponentials, and their maximum
    highest = 0.0
    for row in range(group, rows, groups):
        tags ^= 1 << turn
        values = values.to(tl.float32)
        maximum = tl.max(values)  # passes over NaN; the sum brings it back
        # A slice of -inf alone: -inf - -inf would be NaN, any finite shift gives zeros
        exponentials = tl.exp(values - tl.where(maximum == float("-inf"), 0.0, maximum))
        total = tl.sum(exponentials)
        publish(words + turn * slices + member, maximum, total, (tags >> turn) & 1)
        following = row + groups
        left = tl.where(following < rows, width, 0)
        values = _load(x + following * row_stride, left, BLOCK, LOADS)
        if row > group:
            before = (turn + WORDS_OF_EACH - 1) % WORDS_OF_EACH
            factor = _factor(words, slices, before, tags, highest, SLOTS)
            _store(y + (row - groups) * cols, waiting * factor, width, BLOCK, STORES)
        waiting = exponentials
        highest = maximum
        turn = (turn + 1) % WORDS_OF_EACH
    before = (turn + WORDS_OF_EACH - 1) % WORDS_OF_EACH
    factor = _factor(words, slices, before, tags, highest, SLOTS)
    last = group + (rows - 1 - group) // groups * groups
    _store(y + last * cols, waiting * factor, width, BLOCK, STORES)


@jit
def _factor(
    words: tl.tensor,
    slices: tl.tensor,
    turn: tl.tensor,
    tags: tl.tensor,
    maximum: tl.tensor,
    SLOTS: tl.constexpr,
) -> tl.tensor:
    """Waits for a row's words and returns the factor of its slice's exponentials.

    Words are combined in the order of the slices, so that every program gets the same sum every
    time. A lane too many repeats the last slice's word, which comes anyway: this leaves the maximum
    unchanged, and its sum is left out.
    """
    lanes = tl.arange(0, SLOTS)
    places = tl.minimum(lanes, slices - 1)
    seen = await_words(words + turn * slices + places, (tags >> turn) & 1)
    bits = seen.to(tl.uint64, bitcast=True)
    maxima = (bits & 0xFFFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)
    totals = ((bits >> 32) & 0x7FFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)
    totals = tl.where(lanes < slices, totals, 0.0)
    highest = tl.max(maxima)
    # -inf - -inf is NaN where all of a row is -inf, and so is the answer
    return tl.exp(maximum - highest) / tl.sum(totals * tl.exp(maxima - highest))


@jit
def _load(slice: tl.tensor, width: tl.tensor, BLOCK: tl.constexpr, HINT: tl.constexpr) -> tl.tensor:
    """The slice at a pointer, in its own dtype; −inf beyond its width."""
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    return tl.load(slice + columns, mask=inside, other=float("-inf"), eviction_policy=HINT)


@jit
def _store(
    slice: tl.tensor, values: tl.tensor, width: tl.tensor, BLOCK: tl.constexpr, HINT: tl.constexpr
) -> None:
    columns = tl.arange(0, BLOCK)
    values = values.to(slice.dtype.element_ty)
    tl.store(slice + columns, values, mask=columns < width, eviction_policy=HINT)
