"""Cooperative softmax: a row is split over several programs, and each slice stays in registers.

Passes: one; reads MN, writes MN: 2MN. A program reduces its slice to (m, d), its maximum and the
sum of its exponentials against it, and publishes the two; it collects those of the whole row,
combines them and scales what it holds. How they pass through L2 is written below; they are
two words a program, which one launch hands to the next, and no part of the 2MN.
On chip: the row, N elements, spread over the registers of as many SMs as it takes, so that what
ends is the whole chip. Programs are persistent: groups of them, each of a row's width, share out
the rows, and while one group waits another, on the same SMs, loads.

It cannot hang. A program that waits keeps its place on the card, so that all for which it waits
must have one too: the launch is cooperative, and the driver refuses a grid that the card cannot
hold at once. All programs of a group take the same rows in the same order and publish a row's word
before they wait for another's; of all words not yet published, the first in that order has nobody
in its way, so one always comes. Should a word stay away against all this (memory overwritten from
elsewhere), the program traps after 2²⁶ polls. It does not go on: a lost context is an error that
says so; an invented answer does not count.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, section 3.1, "parallel online normalizer
calculation"; co-residency as in NVIDIA's CUDA C++ Programming Guide, "Grid Synchronization".
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from typing_extensions import override

from ..device import Device, device_of, resident_programs
from ..kernel import Kernel, Shape, one_of, power_of_two
from ..language import constant, jit, next_power_of_two, tl
from ..launch import load_hint, store_hint
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import empty_result

WHOLE = 16  # elements: what Triton asks of sizes and strides to load vectors
NOT_HERE = (
    "needs a CUDA device: its programs wait for one another, and Triton's interpreter "
    "runs each to its end before the next"
)
LEAST_SLICE, LARGEST_SLICE = 1024, 32768
SLICE = 8192  # 64 elements per thread of 4 warps: half of an SM's registers hold slices
RAGGED_SLICE = 16384  # where an address and a mask an element leave room for two programs an SM
LEAST_WARPS = 4  # so that an SM's warps run out before its places for programs
OTHERS = 32  # registers per thread that hold no element
SCRATCH_BYTES = 256  # shared memory of the reductions, generously
MOST_REGISTERS = 255
LEAST_AN_SM = 2  # programs: one loads while another waits


@dataclass(frozen=True)
class Cooperative(Kernel):
    """A group of persistent programs for a row, each holding a slice of it.

    Attributes:
        block_size: Elements of a slice; a row takes N / `block_size` programs, rounded up. None
            takes slices that spread the matrix over all SMs, from 1024 to 16384 elements.
        num_warps: Warps a program, at least 4; None takes 4, or 8 for slices of 8192 on.
        loads: When the next row's slice is asked for: ``"after"`` this row's is stored, or
            ``"before"`` this row's words are awaited, which keeps both slices in registers.
        keep: Whether loads ask L2 to keep them longest; None asks by size (`kernels.launch`).
        keep_output: Whether stores ask for it; None likewise.
    """

    operation = SOFTMAX
    backend = "triton"
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    block_size: Annotated[int | None, power_of_two(1, LARGEST_SLICE)] = None
    num_warps: Annotated[int | None, power_of_two(LEAST_WARPS, 32)] = None
    loads: Annotated[str, one_of("after", "before")] = "after"
    keep: bool | None = None
    keep_output: bool | None = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also a row that the registers of the whole device do not hold."""
        if tl is not None and device.kind != "cuda":
            return NOT_HERE
        reason = super().unsupported(shape, dtype, device)
        if reason is not None or 0 in shape or device.sms is None:
            return reason
        slices = self._slices(shape, True, device)
        held = slices.most_at_once(self._ahead, device)
        if slices.number > held:
            return (
                f"a row of {shape[1]} takes {slices.number} programs of {slices.block} elements "
                f"at once, and this device holds {held}"
            )
        return None

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`. It derives the launch and zeroes words at every call, `prepare` once."""
        return self.prepare(x)(x)

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """A launch for inputs like ``x``, with words of its own for each stream it runs on.

        Raises:
            RuntimeError: on a launch that the device cannot hold at once.
        """
        if x.numel() == 0:
            return empty_result
        rows, cols = x.shape
        device = device_of(x)
        whole = cols % WHOLE == 0 and x.stride(0) % WHOLE == 0 and x.stride(1) == 1
        slices = self._slices((rows, cols), whole, device)
        options = {
            "SLOTS": slices.slots,
            "BLOCK": slices.block,
            "AHEAD": self._ahead,
            "LOADS": load_hint(x, self.keep),
            "STORES": store_hint(x, self.keep_output),
            "num_warps": slices.warps,
            "maxnreg": slices.registers(self._ahead, whole, device),
            "enable_fp_fusion": False,  # all threads of all programs are to sum alike
            "launch_cooperative_grid": True,
        }

        def arguments(x: torch.Tensor, y: torch.Tensor, words: torch.Tensor) -> tuple[Any, ...]:
            return x, y, words, rows, cols, x.stride(0), x.stride(1), slices.number

        some = torch.empty(1, dtype=torch.int64, device=x.device)
        compiled = _cooperative.warmup(*arguments(x, empty_result(x), some), **options, grid=(1,))
        compiled._init_handles()  # loads it, after which its registers are known
        held = resident_programs(compiled.n_regs, slices.warps, compiled.metadata.shared, device)
        # at least one group: were the count wrong, the driver would refuse the launch
        programs = slices.number * min(rows, max(held // slices.number, 1))
        words = Workspaces(2 * programs, x.device)

        def launch(x: torch.Tensor) -> torch.Tensor:
            y = empty_result(x)
            _cooperative[(programs,)](*arguments(x, y, words.current()), **options)
            return y

        return launch

    @property
    def _ahead(self) -> bool:
        return self.loads == "before"

    def _slices(self, shape: Shape, whole: bool, device: Device) -> Slices:
        rows, cols = shape
        return slices_of(rows, cols, device, whole, self._ahead, self.block_size, self.num_warps)


@dataclass(frozen=True)
class Slices:
    """A row's cut.

    Attributes:
        number: Programs a row.
        block: Elements of a slice, a power of two.
        warps: Warps a program.
    """

    number: int
    block: int
    warps: int

    @property
    def slots(self) -> int:
        """Lanes that await a row's words, a power of two."""
        return next_power_of_two(self.number)

    def registers(self, ahead: bool, whole: bool, device: Device) -> int:
        """Registers a thread may have: what its elements need, so that most programs fit.

        Without whole vectors it may have more, as long as the row's programs fit, two an SM.
        """
        if whole:
            return self._needed(ahead)
        an_sm = max(LEAST_AN_SM, -(-self.number // (device.sms or 1)))
        room = (device.registers_per_sm or 0) // (32 * self.warps * an_sm) // 8 * 8
        return max(self._needed(ahead), min(room, MOST_REGISTERS))

    def most_at_once(self, ahead: bool, device: Device) -> int:
        """Programs that the device holds with the registers they need."""
        if self._needed(ahead) > MOST_REGISTERS:
            return 0
        return resident_programs(self._needed(ahead), self.warps, SCRATCH_BYTES, device)

    def _needed(self, ahead: bool) -> int:
        elements = -(-self.block // (32 * self.warps)) * (2 if ahead else 1)
        return -(-(elements + elements // 2 + OTHERS) // 8) * 8  # some are held twice on their way


def slices_of(
    rows: int,
    cols: int,
    device: Device,
    whole: bool,
    ahead: bool,
    block: int | None = None,
    warps: int | None = None,
) -> Slices:
    """The cut of a row of ``cols``.

    Few rows are cut finely, so that their slices cover all SMs; many, or wide ones, coarsely, so
    that few words are exchanged for what is loaded.

    Args:
        rows: Of the matrix, at least one.
        cols: At least one.
        device: A CUDA device.
        whole: Whether rows can be loaded in whole vectors.
        ahead: Whether a program keeps two slices, of this row and of its next.
        block: Elements of a slice; None derives it.
        warps: Warps a program; None derives them.
    """
    sms = device.sms or 1
    if block is None:
        most = SLICE if whole or cols <= SLICE * LEAST_AN_SM * sms else RAGGED_SLICE
        share = next_power_of_two(-(-rows * cols // sms))
        block = min(max(share, LEAST_SLICE), most, next_power_of_two(cols))
    number = -(-cols // block)
    if warps is None:  # a program alone on its SM takes more
        doubled = block >= SLICE and (ahead or not whole or rows * number <= sms)
        warps = 2 * LEAST_WARPS if doubled else LEAST_WARPS
    return Slices(number, block, warps)


class Workspaces:
    """Device memory in which the programs of one launch meet, and no other launch at the same time.

    There is one buffer for each stream, and one for each captured launch, all zeros at first.
    Launches on one stream run one after another and may share one; launches on two streams may not.
    A launch that is captured in a graph runs at each replay, on any stream, beside whatever else
    runs there: it gets a buffer of its own from the graph's memory, and with it a node of the graph
    that zeroes it. Without that node the graph's launches could not share one either: a graph may
    outlive whoever keeps their buffer, and memory of its pool that is kept beyond the capture is
    an error to `torch.compile`.

    Args:
        words: 64-bit words of a buffer.
        device: Where it lies.
    """

    def __init__(self, words: int, device: torch.device) -> None:
        self._words, self._device = words, device
        self._streams: dict[int, torch.Tensor] = {}

    def current(self) -> torch.Tensor:
        """The buffer for the next launch on the device's current stream, int64.

        Outside of a capture the launch finds in it what the last one on the stream left there.
        """
        if torch.cuda.is_current_stream_capturing():
            return self._zeros()
        stream = torch.cuda.current_stream(self._device)
        buffer = self._streams.get(stream.cuda_stream)
        if buffer is None:
            # What this thread allocates may go to the pool of a graph that is being warmed up
            with ThreadPoolExecutor(1) as elsewhere:
                zeros = elsewhere.submit(self._zeros_on, stream).result()
            buffer = self._streams.setdefault(stream.cuda_stream, zeros)
        return buffer

    def _zeros_on(self, stream: torch.cuda.Stream) -> torch.Tensor:
        with torch.cuda.stream(stream):
            return self._zeros()

    def _zeros(self) -> torch.Tensor:
        return torch.zeros(self._words, dtype=torch.int64, device=self._device)


# How programs that share a row exchange its statistics: one 64-bit word each, through L2.
#
# A word is the whole message: the maximum m of a program's slice in its low half, the sum d of the
# slice's exponentials in its high half, and a tag in d's sign bit, which no sum needs. A 64-bit
# access is never torn, so that whoever sees the tag has m and d too. Hence relaxed accesses do: no
# other memory is handed over, and a fence would make a row wait for the stores of the one before.
#
# The tag of a word is turned over each time it is published anew. Words therefore need no
# clearing: whatever a launch leaves behind carries the old tag of the next. A program learns its
# own tags from its own words as it starts, and since all programs of a group publish equally often,
# theirs are the tags of the whole group.
#
# Each program has two words, for rows in turn. Publishing row i + 2 overwrites row i: this is safe,
# as a program gets there only with the words of row i + 1 of all others in hand, and each of them
# published that one after it had read all of row i.

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
AWAIT_ASM = constant(AWAIT)


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


@jit
def _cooperative(
    x: tl.tensor,
    y: tl.tensor,
    words: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    slices: tl.tensor,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
    AHEAD: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
) -> None:
    member = tl.program_id(0) % slices
    group = (tl.program_id(0) // slices).to(tl.int64)
    groups = tl.num_programs(0) // slices

    words += group * 2 * slices
    lanes = tl.arange(0, SLOTS)
    present = lanes < slices
    places = tl.minimum(lanes, slices - 1)  # a lane too many awaits a word that comes anyway
    tag, other_tag = tag_of(tl.load(words + member)), tag_of(tl.load(words + slices + member))
    turn = 0

    x += member.to(tl.int64) * BLOCK * col_stride
    y += member.to(tl.int64) * BLOCK
    width = cols - member * BLOCK
    columns = tl.arange(0, BLOCK)
    if AHEAD:
        values = _load(x + group * row_stride, width, col_stride, BLOCK, LOADS)
    for row in range(group, rows, groups):
        if not AHEAD:
            values = _load(x + row * row_stride, width, col_stride, BLOCK, LOADS)
        tag ^= 1
        exponentials, maximum, total = summarise(values.to(tl.float32))
        publish(words + turn * slices + member, maximum, total, tag)
        if AHEAD:
            following = row + groups
            left = tl.where(following < rows, width, 0)
            values = _load(x + following * row_stride, left, col_stride, BLOCK, LOADS)
        seen = await_words(words + turn * slices + places, tag)
        quotients = (exponentials * scale(seen, present, maximum)).to(y.dtype.element_ty)
        target = y + row * cols + columns
        tl.store(target, quotients, mask=columns < width, eviction_policy=STORES)
        tag, other_tag = other_tag, tag
        turn = 1 - turn


@jit
def _load(
    slice: tl.tensor, width: tl.tensor, stride: tl.tensor, BLOCK: tl.constexpr, HINT: tl.constexpr
) -> tl.tensor:
    """The slice at a pointer, in its own dtype, padded with −inf beyond its width."""
    columns = tl.arange(0, BLOCK)
    places = slice + columns.to(tl.int64) * stride
    return tl.load(places, mask=columns < width, other=float("-inf"), eviction_policy=HINT)
