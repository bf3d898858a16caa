"""Cross-entropy of rows of logits, forward, backward, and both in one call: streaming kernels.

`run` reads each logit once for any N and M: MN. A lane keeps a running maximum m of its
elements and a sum of exp(z − m), which it rescales once per tile. So an element costs one
exponential, and no thread waits for another within a chunk of tiles. Lanes are combined at the end
of a chunk, and chunks are added in order. The cut of a row follows from N, the dtype and the row's
alignment. Only the number of chunks per program depends on M, and it changes no bit.
With a gradient or a log-softmax it reads a row of up to `HELD` elements once, 2MN. For wider rows
a second launch is elementwise, from each row's m and sum, 3MN. (One launch that reads a row again
while L2 may hold it was slower from 32000 to 262144 columns on an H200.) `backward` is elementwise,
from a row's lse and entropy: 2MN.
The target's logit of each row is read twice. Rows may be unaligned (`kernels.vectors`).
On chip: a tile; with a gradient or a log-softmax a row of up to `HELD` elements.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867; the gradient from a kept logsumexp as in
flash-attention's and QuACK's cross-entropy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from typing_extensions import override

from ..device import device_of
from ..kernel import Kernel, Tensors
from ..language import constant, jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint, workspace
from ..vectors import (
    At,
    Layout,
    ahead_of,
    end_columns,
    first_element,
    first_vector,
    layout,
    offsets_of,
    vectors_of,
    whole_vectors,
)

LOG2E, HALF_LOG2E = constant(1.4426950408889634), constant(0.7213475204444817)
NARROW = 2048  # elements of a row that a warp, or a part of one, reads alone
A_LANE = 32  # elements that a lane takes of a tile of a wider row
AT_ONCE = 2  # vectors that a lane asks for at once, of several rows where they are narrow
FEW, PIECES = 4, 8  # of vectors of fewer elements a lane takes as many of a tile: it is unrolled
CHUNK, MOST_CHUNKS = 8192, 16  # elements of a chunk at least, chunks of a row about at most
HELD = 16384  # elements of a row that a program keeps from its reading to its gradient
MOVED = 2048  # elements of a tile of `backward`: of 16 bit 32 bytes a thread, as in copies
A_WARPS_ROW = 192  # most vectors of a row, narrower than such a tile, that one warp takes
SKIPPED = 8192  # elements of a row from which on it is worth waiting for its target first
PROGRAMS_PER_SM = 8  # wanted; where there are fewer rows, several programs share one
UNFUSED = {"enable_fp_fusion": False}  # or two kernels would round the same sum unlike each other


@dataclass(frozen=True)
class Options:
    """The options of the loss logsumexp(z) − z[target], where z = cap(x) / temperature.

    Attributes:
        ignore_index: Rows with this target have loss and gradient 0.
        label_smoothing: The weight of the mean over all columns in the loss.
        softcap: c of cap(x) = c·tanh(x / c); 0 for none.
        temperature: Divides the logits.
        z_loss: Factor of lse², which is added to the loss.
    """

    ignore_index: int = -100
    label_smoothing: float = 0.0
    softcap: float = 0.0
    temperature: float = 1.0
    z_loss: float = 0.0


PLAIN = Options()


class Call(NamedTuple):
    """Rows of logits, what else their results follow from, and memory for each wanted result.

    Results of one number per row are float32 (float64 for float64 logits) and contiguous; None is
    not written. A target out of range makes its row's loss, log-probability and gradient NaN.

    Attributes:
        x: The logits, (M, N), float16, bfloat16, float32 or float64; any row and column stride.
        target: (M,), int64, contiguous; for a loss, a log-probability, and their gradients.
        options: Of the loss; the temperature applies to every result.
        weight: (N,), one weight per class, or None.
        dloss: Gradient of the loss, of a floating dtype: (M,) of any stride, or one number for all
            rows; None for ones.
        loss: (M,).
        logprob: (M,), log p[target]; with ``entropy``.
        entropy: (M,), −Σ p·log p; not with ``loss``.
        lse: (M,), logsumexp(z). If there is a loss, it is 0 for an ignored row.
        dlogits: (M, N), the gradient in the dtype of the logits; may be the logits.
        y: (M, N), the log-softmax, under the same conditions, and not with ``dlogits``.
        dlogprob: For `backward`, (M,): the gradient of ``logprob``, or without a target of ``lse``.
        dentropy: Likewise of ``entropy``.
        block_size: Elements of a tile, for rows wider than `NARROW`; None decides by the width.
        num_warps: Warps per program, likewise.
    """

    x: torch.Tensor
    target: torch.Tensor | None = None
    options: Options = PLAIN
    weight: torch.Tensor | None = None
    dloss: torch.Tensor | None = None
    loss: torch.Tensor | None = None
    logprob: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    lse: torch.Tensor | None = None
    dlogits: torch.Tensor | None = None
    y: torch.Tensor | None = None
    dlogprob: torch.Tensor | None = None
    dentropy: torch.Tensor | None = None
    block_size: int | None = None
    num_warps: int | None = None

    @property
    def kind(self) -> str:
        """``"loss"``, ``"numbers"``, or ``"lse"`` where no target is looked at."""
        if any(each is not None for each in (self.entropy, self.dlogprob, self.dentropy)):
            return "numbers"
        return "lse" if self.loss is None and self.dlogits is None else "loss"

    @property
    def further(self) -> str:
        """How the further sum of a row's `Statistics` is combined: weighted, added, or not."""
        if self.kind == "loss" and self.options.label_smoothing:
            return "added"
        return "weighted" if self.kind == "numbers" else ""

    @property
    def of_target(self) -> torch.Tensor | None:
        """The loss, or the log-probability."""
        return self.logprob if self.loss is None else self.loss

    @property
    def matrix(self) -> torch.Tensor | None:
        """The gradient, or the log-softmax."""
        return self.y if self.dlogits is None else self.dlogits


class RowVariant(Kernel):
    """A kernel whose inputs and outputs bear the names of `Call`, but for the first input.

    Attributes:
        beside: Results of one float32 per row that are written too, for a gradient.
    """

    backend = "triton"
    beside: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, call: Call) -> None:
        """Writes all results for which a call has memory."""

    @override
    def __call__(self, x: torch.Tensor, *inputs: torch.Tensor | None) -> Tensors:
        names, outputs = (array.name for array in self.operation.inputs[1:]), self.operation.outputs
        layout = self.operation.layout(outputs, tuple(x.shape), x.dtype)
        made: dict[str, torch.Tensor] = {}
        for array, (size, dtype) in zip(outputs, layout, strict=True):
            over = self.overwrites is not None and array.name == "dlogits"
            made[array.name] = x if over else torch.empty(size, dtype=dtype, device=x.device)
        rows = {name: torch.empty(len(x), device=x.device) for name in self.beside}
        given: dict[str, Any] = {**dict(zip(names, inputs, strict=True)), **made, **rows}
        self.run(Call(x, **given))
        first, *others = made.values()
        return (first, *others) if others else first


def run(call: Call) -> None:
    """Writes all results for which a call has memory.

    The kernel does not read a wide ignored row if it only computes a loss.
    """
    x, y = call.x, call.matrix
    rows, cols = x.shape
    if x.numel() == 0:  # no columns: the result of PyTorch
        nothing = (call.lse, float("-inf")), (call.of_target, float("nan")), (call.entropy, 0.0)
        for result, value in nothing:
            if result is not None:
                result.fill_(value)
        return
    plan, more = layout(x) if y is None else layout(x, y), _more(call)
    twice = y is not None and cols > (HELD if plan.vector > 1 else 32 * PIECES)
    held, first = y is not None and not twice, call
    if twice:
        plan, first = layout(x), call._replace(dloss=None, dlogits=None, y=None)
    parts = cut(cols, plan.vector, held, call.block_size, call.num_warps)
    split = 1
    if not held:  # programs that share a row, a power of two
        wanted = next_power_of_two(PROGRAMS_PER_SM * (device_of(x).sms or 0) // rows)
        split = min(wanted, next_power_of_two(parts.chunks + 1) // 2)
    sums, numbers = None, 2 * twice + (split > 1) * parts.chunks * (2 + bool(call.further))
    if numbers:
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        sums = workspace((numbers, rows), dtype, x.device)
    whole = held or cols // plan.vector <= parts.lanes * parts.pieces
    skip = call.kind == "loss" and cols >= SKIPPED and not held
    how = How("rows", split=split, skip=skip, whole=whole, kept=twice)
    _launch(how, first, plan, parts, sums, more)
    if split > 1:
        of_a_warp = replace(parts, rows=32, warps=1)
        _launch(How("join", kept=twice), first, plan, of_a_warp, sums, more)
    if twice:
        _each_element(call._replace(loss=None, lse=None), sums, more)


def backward(call: Call, mean: bool = False) -> None:
    """Writes the gradient of the logits from what `run` wrote for each row.

    With p = exp(z − lse), the gradient of log-probability and entropy is the sum of
    dlogprob·(onehot − p) and −dentropy·p·(log p + entropy), of lse dlogprob·p, all divided by the
    temperature. If rows of ``dlogits`` are aligned differently from the rows of the logits, both
    move by shorter vectors.

    Args:
        call: Its ``lse``, and where there is ``dentropy`` its ``entropy``, are read.
        mean: Whether ``dloss`` is multiplied by ``lse[M]``, which `reduce_losses` wrote.
    """
    if call.x.numel() > 0:
        _each_element(call, None, _more(call), mean)


def reduce_losses(
    call: Call, mean: bool, *, out: torch.Tensor, kept: torch.Tensor | None = None
) -> None:
    """Writes the sum of all losses into ``out``, one number; always adds in the same order.

    With ``mean`` it divides by Σ weight[target] over the rows that are not ignored (NaN if there is
    none) and writes the inverse of that sum into ``kept[M]``, if ``kept`` is given. Without a loss
    the sum is 1.
    """
    target, weight = call.target, call.weight
    cols = 0 if weight is None else weight.numel()
    launch(
        _reduce,
        (1,),
        (call.loss, target, weight, out, kept, len(call.x), cols, call.options.ignore_index),
        {"MEAN": mean, "BLOCK": 4096},
        num_warps=16,
    )


# --- launching ---


@dataclass(frozen=True)
class Cut:
    """The cut of rows.

    Attributes:
        rows: Rows per program.
        lanes: Lanes per row.
        pieces: Vectors per lane and tile.
        tiles: Tiles per chunk.
        chunks: Chunks per row.
        warps: Warps per program.
    """

    rows: int
    lanes: int
    pieces: int
    tiles: int
    chunks: int
    warps: int


def cut(cols: int, vector: int, whole: bool, block_size: int | None, num_warps: int | None) -> Cut:
    """The cut of rows of ``cols`` elements, for any M.

    Args:
        cols: At least 1.
        vector: Elements of a vector.
        whole: Whether a tile must hold a whole row.
        block_size: The requested elements of a tile, or None.
        num_warps: The requested warps of a program, or None.
    """
    vectors = max(cols // vector, 1)
    if cols <= NARROW:
        warps = num_warps or 4
        lanes, most = min(32, next_power_of_two(vectors)), max(1, 2 * A_LANE // vector)
    else:
        held = next_power_of_two(cols) // (32 * A_LANE)
        warps = num_warps or (held if whole else 4)
        lanes = 32 * warps
        most = max(1, (block_size or lanes * A_LANE) // (lanes * vector))
    if vector < FEW:
        most = min(most, PIECES)
    needed = -(-vectors // lanes)
    pieces = needed if whole else min(most, needed)
    a_tile = lanes * pieces
    chunk = max(CHUNK, next_power_of_two(cols) // MOST_CHUNKS) // vector
    in_chunk = max(1, chunk // a_tile)
    chunks = -(-vectors // (a_tile * in_chunk))
    rows = 32 * warps // lanes
    if a_tile >= vectors and not whole and cols <= NARROW:
        rows *= max(1, AT_ONCE // pieces)
    return Cut(rows, lanes, pieces, in_chunk, chunks, warps)


def _each_element(
    call: Call, sums: torch.Tensor | None, more: torch.Tensor | None, mean: bool = False
) -> None:
    """Writes a call's matrix, a tile a program, from what ``sums`` or its ``lse`` tells of rows."""
    x, y, block = call.x, call.matrix, call.block_size or MOVED
    assert y is not None
    plan, warps = layout(x, y), call.num_warps or 4
    vectors, chunks = max(x.shape[1] // plan.vector, 1), -(-x.shape[1] // block)
    a_warp = x.shape[1] < block and vectors <= A_WARPS_ROW
    lanes = min(32 if a_warp else 32 * warps, next_power_of_two(vectors))
    pieces = max(1, min(block // (lanes * plan.vector), -(-vectors // lanes)))
    parts = Cut(32 * warps // lanes, lanes, pieces, 1, chunks, warps)
    how = How("elements", split=chunks, mean=mean, kept=sums is not None)
    _launch(how, call, plan, parts, sums, more)


class How(NamedTuple):
    """The constants of a kernel; see `Call`, `Cut` and `kernels.vectors.Layout`."""

    step: str  # "rows", "join" of rows that programs shared, or "elements"
    split: int = 1  # programs that share a row
    skip: bool = False  # whether rows that do not count are not read
    whole: bool = False  # whether a tile holds a whole row
    kept: bool = False  # whether each row's m and sum are kept for elements
    mean: bool = False  # whether lse[M] multiplies the gradient
    kind: str = ""
    further: str = ""
    statistics: Any = None  # a dtype
    vector: int = 1
    ends: bool = False
    cut: Any = None
    capped: bool = False
    scaled: bool = False
    squared: bool = False
    loads: str = ""
    stores: str = ""


def _launch(
    how: How,
    call: Call,
    plan: Layout,
    parts: Cut,
    sums: torch.Tensor | None,
    more: torch.Tensor | None,
) -> None:
    x, options = call.x, call.options
    bases, places = (*plan.bases, None), (*plan.places, At(0, 1, 0))
    d = call.dloss if call.dlogprob is None else call.dlogprob
    d_stride = 0 if d is None or d.numel() == 1 else d.stride(0)
    how = how._replace(
        kind=call.kind,
        further=call.further,
        statistics=tl.float64 if x.dtype == torch.float64 else tl.float32,
        vector=plan.vector,
        ends=plan.ends,
        cut=parts,
        capped=options.softcap != 0,
        scaled=options.temperature != 1,
        squared=options.z_loss != 0,
        loads=load_hint(x),
        stores=store_hint(x),
    )
    sizes = Sizes(
        *(len(x), plan.cols, parts.chunks, options.ignore_index, d_stride),
        *(*places[0], *places[1]),
    )
    launch(
        _streaming_rows,
        (-(-len(x) // parts.rows) * how.split,),
        (
            *(bases[0], call.target, call.weight, more, call.of_target, call.entropy),
            *(call.lse, sums, bases[1], d, sizes),
            *(1 / options.temperature, options.softcap, options.label_smoothing, options.z_loss),
        ),
        {"HOW": how},
        num_warps=parts.warps,
        **UNFUSED,
    )


def _more(call: Call) -> torch.Tensor | None:
    """The entropy's gradient, or of a smoothed loss the sum of all weights."""
    if call.weight is None or not call.options.label_smoothing:
        return call.dentropy
    return call.weight.sum(dtype=torch.float64)


# --- device code ---
#
# Shapes: [rows] for a value per row, [lanes, rows] per lane, [lanes, rows, elements of a vector]
# per element of a piece of a tile. With this order Triton gives each warp its own rows where a
# program has several. Exponentials take z − _shift(m), so that an infinite m does no harm.


# The whole numbers of a launch; `cols` is in vectors, or in elements of unaligned rows
Sizes = namedtuple(
    "Sizes",
    "rows cols chunks ignored dloss_stride row_stride col_stride lead y_row_stride y_col_stride "
    "y_lead",
)
# Of a program: the arguments of the launch, see `Call`. `more` is by `_more`, `first` the loss or
# the log-probability, `y` the matrix to write. `sums` has of each row the shift of z and the sum of
# exponentials if they are `kept`, then the `Statistics` of chunks. The options have the dtype of
# the statistics. Of its rows: their numbers (int64), whether they exist, their elements, and those
# before whole vectors; `how` is `How`.
Rows = namedtuple(
    "Rows",
    "x target weight more first entropy lse sums y dloss x_at y_at sizes inverse softcap smoothing "
    "z_loss number exists length ahead how",
)
# Of rows: whether they count, the target's column, its weight and its z. The column of a target out
# of range is −1, its weight and z NaN. Without targets, rows that exist count, of weight 1.
Target = namedtuple("Target", "counts column weight z")
# Of a part of a row: the maximum m of z, the sum s of exp(z − m), and a further sum: for the
# entropy of exp(z − m)·(z − m), for label smoothing of w·z
Statistics = namedtuple("Statistics", "m s further")
# Of rows: whether they count, the target's column, the shift of z, and a, b, c. The gradient is
# a·exp(z − shift) − b·onehot − c·w, of a row's numbers (a − c·(z − shift))·exp(z − shift) −
# b·onehot; log-softmax is z − shift − a.
Factors = namedtuple("Factors", "counts column shift a b c")


@jit
def _exp(difference: tl.tensor) -> tl.tensor:
    # exp itself takes three more instructions, to keep the smallest subnormal results
    if difference.dtype == tl.float64:
        return tl.exp(difference)
    return tl.exp2(difference * LOG2E)


@jit
def _shift(most: tl.tensor) -> tl.tensor:
    return tl.where(tl.abs(most) == float("inf"), 0.0, most)


@jit
def _product(s: tl.tensor, difference: tl.tensor) -> tl.tensor:
    """s·difference, 0 where s is 0 because the difference is −inf."""
    return s * tl.maximum(difference, -1e30)


@jit
def _tanh(u: tl.tensor) -> tl.tensor:
    # the quotient is ±1 where exp overflows or is 0, and loses the digits of a small u: the series
    SMALL: tl.constexpr = 0.01 if u.dtype == tl.float64 else 0.2
    square = u * u
    series = u * (1 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315))))
    return tl.where(tl.abs(u) < SMALL, series, 1 - 2 / (_exp(2 * u) + 1))


@jit
def _transform(rows: Rows, values: tl.tensor) -> tl.tensor:
    """z of logits."""
    z = values.to(rows.how.statistics)
    if rows.how.capped:
        z = rows.softcap * _tanh(z / rows.softcap)
    if rows.how.scaled:
        z *= rows.inverse
    return z


@jit
def _load_tile(
    rows: Rows, tile: tl.tensor, many: tl.tensor, MASKED: tl.constexpr = True
) -> tl.tuple:
    """z of a tile, piece by piece; −inf beyond ``many`` vectors of each row."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    LOADS: tl.constexpr = rows.how.loads
    source = first_vector(rows.x, rows.x_at, rows.number, rows.how)[None, :, None]
    pieces: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, rows.how.cut.lanes)
        places = source + offsets_of(vector, rows.x_at.col_stride, rows.how.vector)
        inside = vector < many
        mask, other = (inside, float("-inf")) if MASKED else (None, None)
        z = _transform(rows, tl.load(places, mask, other, eviction_policy=LOADS))
        if MASKED and rows.how.capped:
            z = tl.where(inside, z, float("-inf"))
        pieces = pieces + (z,)  # noqa: RUF005, Triton unpacks no tuple
    return pieces


@jit
def _weighted(rows: Rows, z: tl.tensor, columns: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """w·z of label smoothing."""
    z = tl.where(inside, z, 0.0)
    if rows.weight is not None:
        z *= tl.load(rows.weight + columns, mask=inside, other=0.0)
    return z


@jit
def _absorb(
    rows: Rows, lanes: Statistics, pieces: tl.tuple, tile: tl.tensor, many: tl.tensor
) -> Statistics:
    """Updates the statistics of lanes by one tile."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    highest = pieces[0]
    for piece in tl.static_range(1, PIECES):
        highest = tl.maximum(highest, pieces[piece])
    # Triton's maximum passes over NaN; it comes back through the sum
    raised = tl.maximum(lanes.m, tl.max(highest, 2))
    shift = _shift(raised)
    change = lanes.m - shift
    scale = _exp(change)
    sums = tl.zeros_like(highest)
    further = sums
    # Of log-probability and entropy an element takes a fourth less by powers of two, each rounded
    # once. Their shift is not quite m's shift: `off` is the difference.
    FUSED: tl.constexpr = rows.how.further == "weighted" and rows.how.statistics == tl.float32
    of_two = shift * LOG2E
    for piece in tl.static_range(PIECES):
        if FUSED:
            power = tl.fma(pieces[piece], LOG2E, -of_two[:, :, None])
            exponential = tl.exp2(power)
            further = tl.fma(exponential, tl.maximum(power, -1e30), further)
        else:
            difference = pieces[piece] - shift[:, :, None]
            exponential = _exp(difference)
            if rows.how.further == "weighted":
                further += _product(exponential, difference)
        sums += exponential
        if rows.how.further == "added":
            vector = vectors_of(tile * PIECES + piece, rows.how.cut.lanes)
            columns = rows.ahead[None, :, None] + offsets_of(vector, 1, rows.how.vector)
            further += _weighted(rows, pieces[piece], columns, vector < many)
    total, more = tl.sum(sums, 2), tl.sum(further, 2)
    if FUSED:
        off = tl.fma(shift, LOG2E, -of_two)
        back = tl.exp2(-off)
        more = (more - off * total) * (back / LOG2E)
        total *= back
    more = _rescaled(lanes, change, scale, rows.how) + more
    return Statistics(raised, lanes.s * scale + total, more)


@jit
def _rescaled(
    part: Statistics, change: tl.tensor, scale: tl.tensor, HOW: tl.constexpr
) -> tl.tensor:
    """The further sum of a part whose shift changes by ``change``, the logarithm of ``scale``."""
    further = part.further
    if HOW.further == "weighted":
        further = (further + _product(part.s, change)) * scale
    return further


@jit
def _meet(lanes: Statistics, HOW: tl.constexpr) -> Statistics:
    """Combines the statistics of lanes into the statistics of rows."""
    most = tl.max(lanes.m, 0)
    change = lanes.m - _shift(most)[None, :]
    scale = _exp(change)
    total = tl.sum(lanes.s * scale, 0)
    further = tl.zeros_like(total)
    if HOW.further != "":
        further = tl.sum(_rescaled(lanes, change, scale, HOW), 0)
    return Statistics(most, total, further)


@jit
def _fold(one: Statistics, two: Statistics, HOW: tl.constexpr) -> Statistics:
    """Combines the statistics of two parts of each row."""
    most = tl.maximum(one.m, two.m)
    shift = _shift(most)
    change, change2 = one.m - shift, two.m - shift
    scale, scale2 = _exp(change), _exp(change2)
    further = _rescaled(one, change, scale, HOW) + _rescaled(two, change2, scale2, HOW)
    return Statistics(most, one.s * scale + two.s * scale2, further)


@jit
def _nothing(HOW: tl.constexpr, BY_LANE: tl.constexpr = False) -> Statistics:
    """The statistics of no elements, of each row or of each lane."""
    ROWS: tl.constexpr = HOW.cut.rows
    LANES: tl.constexpr = HOW.cut.lanes
    zeros = tl.zeros((LANES, ROWS) if BY_LANE else (ROWS,), HOW.statistics)
    return Statistics(zeros + float("-inf"), zeros, zeros)


@jit
def _load_ends(rows: Rows, counts: tl.tensor) -> tl.tuple:
    """The columns of the ends of rows, −1 for none, and their z, −inf for none."""
    columns = end_columns(rows.length, rows.ahead, rows.how.vector)
    columns = tl.where(counts[None, :], columns, -1)
    begin = first_element(rows.x, rows.x_at, rows.number, rows.how)
    value = tl.load(begin[None, :] + columns, mask=columns >= 0, other=float("-inf"))
    return columns, tl.where(columns >= 0, _transform(rows, value), float("-inf"))


@jit
def _fold_ends(rows: Rows, of_row: Statistics, z: tl.tensor, columns: tl.tensor) -> tl.tuple:
    """Adds the ends of rows, one element per lane, to the statistics of rows."""
    further = tl.zeros_like(z)
    if rows.how.further == "added":
        further = _weighted(rows, z, columns, columns >= 0)
    return _fold(of_row, _meet(Statistics(z, _exp(z - _shift(z)), further), rows.how), rows.how)


@jit
def _targets(rows: Rows) -> Target:
    """The targets of rows; elements need no z."""
    counts, column = rows.exists, rows.number
    w = tl.where(counts, 1.0, 1.0).to(rows.how.statistics)
    z = w
    if rows.target is not None:
        chosen = tl.load(rows.target + rows.number, mask=counts, other=-1)
        if rows.how.kind == "loss":
            counts = counts & (chosen != rows.sizes.ignored)
        valid = counts & (chosen >= 0) & (chosen < rows.length)
        w = tl.where(valid, 1.0, float("nan")).to(rows.how.statistics)
        if rows.weight is not None:
            w = tl.load(rows.weight + chosen, mask=valid, other=float("nan"))
            w = w.to(rows.how.statistics)
        z = w
        if rows.how.step != "elements":
            begin = first_element(rows.x, rows.x_at, rows.number, rows.how)
            place = begin + chosen * rows.x_at.col_stride
            z = _transform(rows, tl.load(place, mask=valid, other=float("nan")))
        column = tl.where(valid, chosen, -1)
    return Target(counts, column, w, z)


@jit
def _sum_of_weights(rows: Rows) -> tl.tensor:
    total = rows.length if rows.weight is None else tl.load(rows.more)
    return tl.cast(total, rows.how.statistics)


@jit
def _store_results(rows: Rows, of_row: Statistics, target: Target) -> None:
    """Writes the results of one number per row."""
    logarithm, row, exists = tl.log(of_row.s), rows.number, rows.exists
    shift = _shift(of_row.m)
    lse = shift + logarithm
    if rows.how.kind == "numbers":
        tl.store(rows.first + row, (target.z - shift) - logarithm, mask=exists)
        tl.store(rows.entropy + row, logarithm - of_row.further / of_row.s, mask=exists)
    if rows.how.kind == "loss":
        # not lse − z, in which a large shift would swallow the logarithm
        loss = target.weight * ((shift - target.z) + logarithm)
        if rows.how.further == "added":
            share, total = rows.smoothing / rows.length, _sum_of_weights(rows)
            loss = (1 - rows.smoothing) * loss + share * (total * lse - of_row.further)
        if rows.how.squared:
            loss += rows.z_loss * (lse * lse)
        lse = tl.where(target.counts, lse, 0.0)
        tl.store(rows.first + row, tl.where(target.counts, loss, 0.0), mask=exists)
    if rows.how.kept:
        tl.store(rows.sums + row, shift, mask=exists)
        tl.store(rows.sums + rows.sizes.rows + row, of_row.s, mask=exists)
    if rows.lse is not None:
        tl.store(rows.lse + row, lse, mask=exists)


@jit
def _factors(rows: Rows, target: Target, shift: tl.tensor, summed: tl.tensor) -> tl.tuple:
    """The factors of rows from the ``shift`` of z and the sum of exponentials.

    Computed from the row's maximum and 1 / Σ exp(z − m), p has half the error of a p computed from
    a rounded lse. Where ``summed`` is None, the shift is the lse.
    """
    lse, w = shift, target.weight
    if summed is not None:
        logarithm = tl.log(summed)
        lse = shift + logarithm
    if rows.how.kind == "lse":
        return Factors(rows.exists, rows.number, shift, logarithm, logarithm, logarithm)
    a, b, c = w, w, w
    if rows.how.further == "added":
        b = (1 - rows.smoothing) * w
        c = rows.smoothing / rows.length + tl.zeros_like(w)
        a = b + c * _sum_of_weights(rows)
    if rows.how.squared:
        a += 2 * rows.z_loss * lse
    scale = tl.full((), 1.0, rows.how.statistics)
    if rows.dloss is not None:
        dloss = rows.dloss + rows.number * rows.sizes.dloss_stride
        scale *= tl.load(dloss, mask=rows.exists, other=0.0).to(rows.how.statistics)
    if rows.how.mean:
        scale *= tl.load(rows.lse + rows.sizes.rows)
    if rows.how.scaled:
        scale *= rows.inverse
    if rows.how.kind == "numbers":  # the gradients of log-probability, else of lse, and of entropy
        b = w * 0.0 if rows.dloss is None else w * scale
        a, c = (b if rows.target is None else -b), b
        if rows.more is not None:
            c = tl.load(rows.more + rows.number, mask=rows.exists, other=0.0)
            if rows.how.scaled:
                c *= rows.inverse
            a -= c * tl.load(rows.entropy + rows.number, mask=rows.exists, other=0.0)
        return Factors(target.counts, target.column, shift, a, -b, c)
    a *= scale
    if summed is not None:
        a *= 1 / summed
    return Factors(target.counts, target.column, shift, a, b * scale, c * scale)


@jit
def _gradient(
    rows: Rows,
    factors: Factors,
    z: tl.tensor,
    columns: tl.tensor,
    inside: tl.tensor,
    COMMON: tl.constexpr = False,
) -> tl.tensor:
    """The gradient of logits, or log-softmax, from their z.

    ``COMMON`` promises that no row is ignored and that no element is its row's target.
    """
    counts, chosen, shift, a, b, c = factors
    if rows.how.kind == "lse":
        gradient = (z - shift) - a
    elif rows.how.kind == "numbers" and rows.more is not None:  # where p is 0, 0·−inf is no NaN
        # exp2 gives 0 for a subnormal p, but p times a hundred may be normal: square the root
        difference = z - shift
        if rows.how.statistics == tl.float64:
            root = tl.exp(difference * 0.5)
        else:
            root = tl.exp2(difference * HALF_LOG2E)
        gradient = (a - _product(c, difference)) * root * root
    else:
        gradient = a * _exp(z - shift)
    if rows.how.further == "added":
        if rows.weight is not None:
            c = c * tl.load(rows.weight + columns, mask=inside, other=0.0)
        gradient -= c
    if rows.target is not None and not COMMON:
        gradient -= tl.where(columns == chosen, b, 0.0)
    if rows.how.capped:  # the derivative of cap is 1 − tanh²
        u = z / rows.softcap
        if rows.how.scaled:
            u = u / rows.inverse
        gradient *= 1 - u * u
    return gradient if COMMON else tl.where(counts, gradient, 0.0)


@jit
def _emit_tile(
    rows: Rows,
    aim: tl.tensor,
    factors: Factors,
    pieces: tl.tuple,
    tile: tl.tensor,
    many: tl.tensor,
    COMMON: tl.constexpr = False,
) -> None:
    """Writes the gradient, or log-softmax, of a tile, from its z, behind ``aim``."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    STORES: tl.constexpr = rows.how.stores
    wide = [each[None, :, None] for each in factors]
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, rows.how.cut.lanes)
        inside = vector < many
        columns = rows.ahead[None, :, None] + offsets_of(vector, 1, rows.how.vector)
        answer = _gradient(rows, wide, pieces[piece], columns, inside, COMMON)
        places = aim + offsets_of(vector, rows.y_at.col_stride, rows.how.vector)
        answer = answer.to(aim.dtype.element_ty)
        tl.store(places, answer, mask=inside, eviction_policy=STORES)


@jit
def _emit_ends(rows: Rows, factors: Factors, z: tl.tensor, columns: tl.tensor) -> None:
    """Writes the gradient, or log-softmax, of the ends of rows."""
    wide = [each[None, :] for each in factors]
    begin = first_element(rows.y, rows.y_at, rows.number, rows.how)
    answer = _gradient(rows, wide, z, columns, columns >= 0)
    tl.store(begin[None, :] + columns, answer.to(begin.dtype.element_ty), mask=columns >= 0)


@jit
def _streaming_rows(
    x: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    more: tl.tensor,
    first: tl.tensor,
    entropy: tl.tensor,
    lse: tl.tensor,
    sums: tl.tensor,
    y: tl.tensor,
    dloss: tl.tensor,
    sizes: Sizes,
    inverse: tl.float64,  # a plain float would be float32
    softcap: tl.float64,
    smoothing: tl.float64,
    z_loss: tl.float64,
    HOW: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = HOW.statistics
    block = tl.program_id(0) // (sizes.chunks if HOW.step == "elements" else HOW.split)
    row = block.to(tl.int64) * HOW.cut.rows + tl.arange(0, HOW.cut.rows)
    x_at = At(sizes.row_stride, sizes.col_stride, sizes.lead)
    # not assigned to a name, which would make a tensor of HOW
    (_elements if HOW.step == "elements" else _rows)(
        Rows(
            *(x, target, weight, more, first, entropy, lse, sums, y, dloss, x_at),
            *(At(sizes.y_row_stride, sizes.y_col_stride, sizes.y_lead), sizes),
            tl.full((), inverse, tl.float64).to(STATISTICS),
            tl.full((), softcap, tl.float64).to(STATISTICS),
            tl.full((), smoothing, tl.float64).to(STATISTICS),
            tl.full((), z_loss, tl.float64).to(STATISTICS),
            *(row, row < sizes.rows, sizes.cols * (1 if HOW.ends else HOW.vector)),
            *(ahead_of(x_at, row, HOW), HOW),
        )
    )


@jit
def _rows(rows: Rows) -> None:
    """Reads rows, and writes what follows from their statistics unless programs share them."""
    counted = rows.exists
    if rows.how.skip:
        target = _targets(rows)
        counted = target.counts
    vectors = tl.where(counted, whole_vectors(rows.sizes.cols, rows.ahead, rows.how), 0)
    if rows.how.ends and rows.how.split == 1 and rows.how.step == "rows":
        columns, z_at_ends = _load_ends(rows, counted)
    many = vectors[None, :, None]
    if rows.how.whole:  # all of the row is on its way before a target is waited for
        pieces = _load_tile(rows, 0, many)
    if not rows.how.skip:
        target = _targets(rows)
    if rows.how.whole:
        of_row = _meet(_absorb(rows, _nothing(rows.how, True), pieces, 0, many), rows.how)
    elif rows.how.step == "join":
        of_row = _join(rows)
    else:
        of_row = _stream(rows, vectors)
    if rows.how.split == 1:
        if rows.how.ends:
            if rows.how.step == "join":
                columns, z_at_ends = _load_ends(rows, rows.exists)
            of_row = _fold_ends(rows, of_row, z_at_ends, columns)
        if rows.how.kind == "loss" or rows.how.kept or rows.y is not None:
            # +inf − inf, as in PyTorch
            summed = tl.where(of_row.m == float("inf"), float("nan"), of_row.s)
            of_row = Statistics(of_row.m, summed, of_row.further)
        _store_results(rows, of_row, target)
        if rows.y is not None:
            factors = _factors(rows, target, _shift(of_row.m), of_row.s)
            # another warp may not have read the target's logit yet, which is now overwritten
            tl.debug_barrier()
            aim = first_vector(rows.y, rows.y_at, rows.number, rows.how)[None, :, None]
            _emit_tile(rows, aim, factors, pieces, 0, many)
            if rows.how.ends:
                _emit_ends(rows, factors, z_at_ends, columns)


@jit
def _stream(rows: Rows, vectors: tl.tensor) -> tl.tuple:
    """The statistics of rows chunk by chunk.

    Programs that share a row write what their own chunks give; the step "join" reads it.
    """
    A_TILE: tl.constexpr = rows.how.cut.lanes * rows.how.cut.pieces
    many = vectors[None, :, None]
    if rows.how.cut.rows == 1:
        tiles = tl.cdiv(tl.max(vectors, 0), A_TILE)
        full = tl.min(vectors, 0) // A_TILE  # tiles that need no mask
    else:  # not to be found out among warps, each of which has rows of its own
        tiles = tl.cdiv(rows.length // rows.how.vector, A_TILE)
        full = 0
    of_row = _nothing(rows.how)
    each = tl.cdiv(rows.sizes.chunks, rows.how.split)
    first = tl.program_id(0) % rows.how.split * each
    last = tl.minimum(first + each, rows.sizes.chunks)
    for chunk in tl.range(first, last, num_stages=1):
        lanes = _nothing(rows.how, True)
        start = tl.minimum(chunk * rows.how.cut.tiles, tiles)
        end = tl.minimum(start + rows.how.cut.tiles, tiles)
        middle = tl.minimum(tl.maximum(full, start), end)
        if rows.how.cut.rows == 1:
            for tile in tl.range(start, middle, num_stages=1):
                pieces = _load_tile(rows, tile, many, False)
                lanes = _absorb(rows, lanes, pieces, tile, many)
        for tile in tl.range(middle, end, num_stages=1):
            pieces = _load_tile(rows, tile, many)
            lanes = _absorb(rows, lanes, pieces, tile, many)
        found = _meet(lanes, rows.how)
        if rows.how.split > 1:
            places, step = _partial(rows, chunk)
            for i in tl.static_range(2 + (rows.how.further != "")):
                tl.store(places + i * step, found[i], mask=rows.exists)
        else:
            of_row = _fold(of_row, found, rows.how)
    return of_row


@jit
def _partial(rows: Rows, chunk: tl.tensor) -> tl.tuple:
    """Where the first statistic of a chunk of each row is kept, and how far apart they are."""
    line = tl.cast(chunk, tl.int64) + (2 if rows.how.kept else 0)
    places = rows.sums + (line * rows.sizes.rows + rows.number)
    return places, tl.cast(rows.sizes.chunks, tl.int64) * rows.sizes.rows


@jit
def _join(rows: Rows) -> tl.tuple:
    """The statistics of rows from the chunks that several programs kept."""
    of_row = _nothing(rows.how)
    zeros = of_row.s
    for chunk in tl.range(rows.sizes.chunks, num_stages=1):
        places, step = _partial(rows, chunk)
        m = tl.load(places, mask=rows.exists, other=float("-inf"))
        s = tl.load(places + step, mask=rows.exists, other=0.0)
        further = zeros
        if rows.how.further != "":
            further = tl.load(places + 2 * step, mask=rows.exists, other=0.0)
        of_row = _fold(of_row, Statistics(m, s, further), rows.how)
    return of_row


@jit
def _elements(rows: Rows) -> None:
    """Writes a tile of the gradient, or of log-softmax, from what is known of its rows."""
    tile, sizes, exists = tl.program_id(0) % rows.sizes.chunks, rows.sizes, rows.exists
    many = tl.where(exists, whole_vectors(sizes.cols, rows.ahead, rows.how), 0)[None, :, None]
    pieces = _load_tile(rows, tile, many)
    summed = None
    if rows.how.kept:
        shift = tl.load(rows.sums + rows.number, mask=exists, other=0.0)
        summed = tl.load(rows.sums + sizes.rows + rows.number, mask=exists, other=1.0)
    else:
        shift = tl.load(rows.lse + rows.number, mask=exists, other=0.0)
    target = _targets(rows)
    factors = _factors(rows, target, shift, summed)
    common = 1
    if rows.target is not None:
        # most tiles have no target, and rows that count: their elements take a third less
        A_TILE: tl.constexpr = rows.how.cut.lanes * rows.how.cut.pieces * rows.how.vector
        place = target.column - rows.ahead - tile * A_TILE
        apart = ((place >= 0) & (place < A_TILE)) | (exists & (target.counts == 0))
        common = 1 - tl.max(apart.to(tl.int32), 0)
    aim = first_vector(rows.y, rows.y_at, rows.number, rows.how)[None, :, None]
    if common == 1:
        _emit_tile(rows, aim, factors, pieces, tile, many, True)
    else:
        _emit_tile(rows, aim, factors, pieces, tile, many)
    if rows.how.ends and tile == 0:  # a branch, so that other tiles skip the masked accesses
        columns, z = _load_ends(rows, exists)
        _emit_ends(rows, factors, z, columns)


@jit
def _reduce(
    loss: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    kept: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    ignored: tl.tensor,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    sums = tl.zeros((BLOCK,), tl.float64)
    weights = tl.zeros((BLOCK,), tl.float64)
    for start in tl.range(0, rows, BLOCK, num_stages=1):
        row = tl.cast(start, tl.int64) + tl.arange(0, BLOCK)
        inside = row < rows
        if loss is not None:
            sums += tl.load(loss + row, mask=inside, other=0.0).to(tl.float64)
        if MEAN:
            chosen = tl.load(target + row, mask=inside, other=ignored)
            counts = inside & (chosen != ignored)
            if weight is not None:
                valid = counts & (chosen >= 0) & (chosen < cols)
                weights += tl.load(weight + chosen, mask=valid, other=0.0).to(tl.float64)
            else:
                weights += counts.to(tl.float64)
    total = tl.full((), 1.0, tl.float64)
    if loss is not None:
        total = tl.sum(sums, 0)
    if MEAN:
        weight_of_all = tl.sum(weights, 0)
        total = total / weight_of_all
        if kept is not None:
            tl.store(kept + rows, (1.0 / weight_of_all).to(kept.dtype.element_ty))
    if out.dtype.element_ty != tl.float64:
        total = total.to(tl.float32)  # from float64 to bfloat16 at once the interpreter goes wrong
    tl.store(out, total.to(out.dtype.element_ty))
