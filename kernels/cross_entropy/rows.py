"""Cross-entropy of rows of logits, forward, backward, and both in one call: streaming kernels.

`run` reads each logit once for any N and M: MN. A lane keeps a running maximum m of its
elements and a sum of exp(z − m), which it rescales once per tile. So an element costs one
exponential, and no thread waits for another within a chunk of tiles. Lanes are combined at the end
of a chunk, and chunks are added in order. The cut of a row follows from N, the dtype and the row's
alignment. Only the number of chunks per program depends on M, and it changes no bit.
With a gradient or a log-softmax it reads a row of up to `HELD` elements once, 2MN. For wider rows
a second launch is elementwise, from each row's m and sum, 3MN. (One launch that reads a row again
while L2 may hold it was slower from 32000 to 262144 columns on an H200.) `backward` is elementwise,
from a row's lse: 2MN.
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

from ..device import Device, device_of
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

LOG2E = constant(1.4426950408889634)
NARROW = 2048  # elements of a row that a warp, or a part of one, reads alone
A_LANE = 32  # elements that a lane takes of a tile of a wider row
AT_ONCE = 2  # vectors that a lane asks for at once, of several rows where they are narrow
FEW, PIECES = 4, 8  # of vectors of fewer elements a lane takes as many of a tile: it is unrolled
CHUNK, MOST_CHUNKS = 8192, 16  # elements of a chunk at least, chunks of a row about at most
HELD = 16384  # elements of a row that a program keeps from its reading to its gradient
MOVED = 2048  # elements of a tile of `backward`: of 16 bit 32 bytes a thread, as in copies
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


@dataclass(frozen=True)
class Tiles:
    """The requested cut of rows; None decides by the width.

    Attributes:
        block_size: Elements of a tile, for rows wider than `NARROW`.
        num_warps: Warps per program.
        split: Programs that share a row; None picks it from M. Results are bitwise independent of
            it.
    """

    block_size: int | None = None
    num_warps: int | None = None
    split: int | None = None


PLAIN, BY_WIDTH = Options(), Tiles()


@dataclass(frozen=True)
class Results:
    """The memory for each requested result of the rows of logits (M, N); None for all others.

    A target out of range makes its row's loss, log-probability and gradient NaN.

    Attributes:
        loss: (M,), float32, or float64 for float64 logits; contiguous, like the next three.
        logprob: log p[target].
        entropy: −Σ p·log p; with ``logprob``, and not with ``loss``.
        lse: logsumexp(z). If there is a loss, it is 0 for an ignored row.
        dlogits: (M, N), the gradient of the loss, in the dtype of the logits; may be the logits.
        y: (M, N), the log-softmax, under the same conditions, and not with ``dlogits``.
    """

    loss: torch.Tensor | None = None
    logprob: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    lse: torch.Tensor | None = None
    dlogits: torch.Tensor | None = None
    y: torch.Tensor | None = None

    @property
    def kind(self) -> str:
        """``"loss"``, ``"entropy"``, or ``"lse"`` where no target is looked at."""
        if self.entropy is not None:
            return "entropy"
        return "lse" if self.loss is None else "loss"

    @property
    def of_target(self) -> torch.Tensor | None:
        """The loss, or the log-probability."""
        return self.logprob if self.loss is None else self.loss

    @property
    def matrix(self) -> torch.Tensor | None:
        """The gradient, or the log-softmax."""
        return self.y if self.dlogits is None else self.dlogits


class RowVariant(Kernel):
    """A kernel whose outputs bear the names of `Results`: it has memory for them and runs once.

    Attributes:
        beside: Results of one float32 per row that are written too, for a gradient.
    """

    backend = "triton"
    beside: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def write(self, *inputs: Any, **results: Any) -> None:
        """Writes the results of the operation's inputs for which memory is given."""

    @override
    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        x, outputs = inputs[0], self.operation.outputs
        layout = self.operation.layout(outputs, tuple(x.shape), x.dtype)
        made: dict[str, torch.Tensor] = {}
        for array, (size, dtype) in zip(outputs, layout, strict=True):
            over = self.overwrites is not None and array.name == "dlogits"
            made[array.name] = x if over else torch.empty(size, dtype=dtype, device=x.device)
        rows = {name: torch.empty(len(x), device=x.device) for name in self.beside}
        self.write(*inputs, **made, **rows)
        first, *others = made.values()
        return (first, *others) if others else first


def run(
    x: torch.Tensor,
    options: Options = PLAIN,
    *,
    target: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    dloss: torch.Tensor | None = None,
    tiles: Tiles = BY_WIDTH,
    **results: torch.Tensor | None,
) -> None:
    """Writes all results for which memory is given.

    The kernel does not read a wide ignored row if it only computes a loss.

    Args:
        x: The logits, (M, N), float16, bfloat16, float32 or float64; any row and column stride.
        options: The options of the loss; the temperature applies to every result.
        target: (M,), int64, contiguous, for the loss, log-probability and gradient.
        weight: (N,), one weight per class, or None.
        dloss: Gradient of the loss, of a floating dtype: (M,) of any stride, or one number for all
            rows; None for ones.
        tiles: The requested cut.
        results: See `Results`.
    """
    given, total = Results(**results), _total(options, weight)
    outputs = given.of_target, given.entropy, given.lse, given.matrix
    _statistics(Call(given.kind, x, options, target, weight, total, dloss, tiles, *outputs))


def backward(
    logits: torch.Tensor,
    target: torch.Tensor,
    lse: torch.Tensor,
    dloss: torch.Tensor | None,
    options: Options = PLAIN,
    weight: torch.Tensor | None = None,
    *,
    dlogits: torch.Tensor,
    mean: bool = False,
    tiles: Tiles = BY_WIDTH,
) -> None:
    """Writes the gradient of the logits from the logsumexp of each row.

    Args:
        logits: As in `run`, like the arguments that are not named here.
        target: (M,).
        lse: A result of `run`.
        dloss: As in `run`.
        options: As in `run`.
        weight: As in `run`.
        dlogits: (M, N), in the dtype of the logits; may be ``logits`` itself. If its rows are
            aligned differently from the rows of ``logits``, both move by shorter vectors.
        mean: Whether ``dloss`` is multiplied by ``lse[M]``, which `reduce_losses` wrote.
        tiles: The requested cut.
    """
    if logits.numel() > 0:
        total = _total(options, weight)
        results = None, None, lse, dlogits
        call = Call("loss", logits, options, target, weight, total, dloss, tiles, *results)
        _each_element(call, mean)


def reduce_losses(
    loss: torch.Tensor | None,
    target: torch.Tensor,
    options: Options,
    weight: torch.Tensor | None,
    mean: bool,
    *,
    out: torch.Tensor,
    kept: torch.Tensor | None = None,
) -> None:
    """Writes the sum of all losses into ``out``, one number; always adds in the same order.

    With ``mean`` it divides by Σ weight[target] over the rows that are not ignored (NaN if there is
    none) and writes the result of `scale_of_mean` into ``kept[M]``, if ``kept`` is given. Without a
    loss the sum is 1.
    """
    cols = 0 if weight is None else weight.numel()
    launch(
        _reduce,
        (1,),
        (loss, target, weight, out, kept, target.numel(), cols, options.ignore_index),
        {"MEAN": mean, "BLOCK": 4096},
        num_warps=16,
    )


def scale_of_mean(
    target: torch.Tensor, options: Options, weight: torch.Tensor | None, *, scale: torch.Tensor
) -> None:
    """Writes 1 / Σ weight[target] over the rows that are not ignored into ``scale``, one number."""
    reduce_losses(None, target, options, weight, True, out=scale)


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

    def split(self, rows: int, wanted: int | None, device: Device) -> int:
        """Programs that share a row, a power of two."""
        if wanted is None:
            wanted = PROGRAMS_PER_SM * (device.sms or 0) // rows
        return min(next_power_of_two(wanted), next_power_of_two(self.chunks + 1) // 2)


def cut(cols: int, vector: int, tiles: Tiles, whole: bool = False) -> Cut:
    """The cut of rows of ``cols`` elements, for any M.

    Args:
        cols: At least 1.
        vector: Elements of a vector.
        tiles: The requested cut.
        whole: Whether a tile must hold a whole row.
    """
    vectors = max(cols // vector, 1)
    if cols <= NARROW:
        warps = tiles.num_warps or 4
        lanes, most = min(32, next_power_of_two(vectors)), max(1, 2 * A_LANE // vector)
    else:
        held = next_power_of_two(cols) // (32 * A_LANE)
        warps = tiles.num_warps or (held if whole else 4)
        lanes = 32 * warps
        most = max(1, (tiles.block_size or lanes * A_LANE) // (lanes * vector))
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


def cut_of_copy(cols: int, vector: int, tiles: Tiles) -> Cut:
    """The cut for elementwise work: one program per tile, and a tile is a chunk."""
    vectors = max(cols // vector, 1)
    warps, block = tiles.num_warps or 4, tiles.block_size or MOVED
    lanes = min(32 * warps, next_power_of_two(vectors))
    pieces = max(1, min(block // (lanes * vector), -(-vectors // lanes)))
    return Cut(32 * warps // lanes, lanes, pieces, 1, -(-cols // block), warps)


class Call(NamedTuple):
    """The inputs of `run`, the sum of all weights, and the memory for the results of a launch.

    Attributes:
        kind: See `Results`.
        first: (M,), the loss or the log-probability.
        second: (M,), the entropy, for its kind. Otherwise None, or (2, M) for `_each_element`: the
            shift of each row's z, and Σ exp(z − shift).
        lse: (M,); None leaves it unwritten.
        y: (M, N): the gradient of the loss, or log-softmax for the kind ``"lse"``, or None.
    """

    kind: str
    x: torch.Tensor
    options: Options
    target: torch.Tensor | None
    weight: torch.Tensor | None
    total: torch.Tensor | None
    dloss: torch.Tensor | None
    tiles: Tiles
    first: torch.Tensor | None
    second: torch.Tensor | None
    lse: torch.Tensor | None
    y: torch.Tensor | None

    @property
    def further(self) -> str:
        """How the further sum of a row's `Statistics` is combined: weighted, added, or not."""
        if self.kind == "loss" and self.options.label_smoothing:
            return "added"
        return "weighted" if self.kind == "entropy" else ""


def _statistics(call: Call) -> None:
    """Computes the logsumexp of each row and the results that follow from it."""
    x, y = call.x, call.y
    rows, cols = x.shape
    if x.numel() == 0:  # no columns: the result of PyTorch
        empty = ((call.lse, float("-inf")), (call.first, float("nan")), (call.second, 0.0))
        for result, value in empty:
            if result is not None:
                result.fill_(value)
        return
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    plan = layout(x) if y is None else layout(x, y)
    if y is not None and cols > (HELD if plan.vector > 1 else 32 * PIECES):
        sums = workspace((2, rows), dtype, x.device)
        _statistics(call._replace(dloss=None, second=sums, y=None))
        _each_element(call._replace(first=None, second=sums, lse=None))
        return
    parts = cut(cols, plan.vector, call.tiles, y is not None)
    split = 1 if y is not None else parts.split(rows, call.tiles.split, device_of(x))
    partial = None
    if split > 1:
        partial = workspace((2 + bool(call.further), parts.chunks, rows), dtype, x.device)
    skip = call.kind == "loss" and cols >= SKIPPED and y is None
    whole = y is not None or cols // plan.vector <= parts.lanes * parts.pieces
    programs = -(-rows // parts.rows) * split
    flags = {"split": split, "skip": skip, "whole": whole}
    _launch("rows", call, plan, parts, programs, partial, **flags)
    if split > 1:
        of_a_warp = replace(parts, rows=32, warps=1)
        _launch("join", call, plan, of_a_warp, -(-rows // 32), partial)


def _each_element(call: Call, mean: bool = False) -> None:
    """Writes ``y`` of a call element by element, from ``second``, or a loss's from ``lse``."""
    x, y = call.x, call.y
    assert y is not None
    plan = layout(x, y)
    parts = cut_of_copy(x.shape[1], plan.vector, call.tiles)
    programs = -(-x.shape[0] // parts.rows) * parts.chunks
    _launch("elements", call, plan, parts, programs, mean=mean)


class How(NamedTuple):
    """The compile-time flags of a kernel; see `Call`, `Cut` and `kernels.vectors.Layout`."""

    step: str  # "rows", "join" of rows that programs shared, or "elements"
    kind: str
    further: str
    statistics: Any  # a dtype
    vector: int
    ends: bool
    rows: int
    lanes: int
    pieces: int
    tiles: int
    weighted: bool
    capped: bool
    scaled: bool
    squared: bool
    loads: str
    stores: str
    split: int = 1
    skip: bool = False  # whether rows that do not count are not read
    whole: bool = False  # whether a tile holds a whole row
    mean: bool = False  # whether lse[M] multiplies the gradient


def _launch(
    step: str,
    call: Call,
    plan: Layout,
    parts: Cut,
    programs: int,
    partial: torch.Tensor | None = None,
    **flags: Any,
) -> None:
    x, options, dloss = call.x, call.options, call.dloss
    y, y_at = (None, At(0, 1, 0)) if call.y is None else (plan.bases[1], plan.places[1])
    dloss_stride = 0 if dloss is None or dloss.numel() == 1 else dloss.stride(0)
    how = How(
        step=step,
        kind=call.kind,
        further=call.further,
        statistics=tl.float64 if x.dtype == torch.float64 else tl.float32,
        vector=plan.vector,
        ends=plan.ends,
        rows=parts.rows,
        lanes=parts.lanes,
        pieces=parts.pieces,
        tiles=parts.tiles,
        weighted=call.weight is not None,
        capped=options.softcap != 0,
        scaled=options.temperature != 1,
        squared=options.z_loss != 0,
        loads=load_hint(x),
        stores=store_hint(x),
        **flags,
    )
    launch(
        _streaming_rows,
        (programs,),
        (
            *(plan.bases[0], call.target, call.weight, call.total, call.first, call.second),
            *(call.lse, partial, y, dloss, plan.places[0], y_at),
            Sizes(len(x), plan.cols, parts.chunks, options.ignore_index, dloss_stride),
            *(1 / options.temperature, options.softcap, options.label_smoothing, options.z_loss),
        ),
        {"HOW": how},
        num_warps=parts.warps,
        **UNFUSED,
    )


def _total(options: Options, weight: torch.Tensor | None) -> torch.Tensor | None:
    """The sum of all weights, which label smoothing needs."""
    if weight is None or not options.label_smoothing:
        return None
    return weight.sum(dtype=torch.float64)


# --- device code ---
#
# Shapes: [rows] for a value per row, [lanes, rows] per lane, [lanes, rows, elements of a vector]
# per element of a piece of a tile. With this order Triton gives each warp its own rows where a
# program has several. Exponentials take z − _shift(m), so that an infinite m does no harm.


# The whole numbers of a launch; `cols` is in vectors, or in elements of unaligned rows
Sizes = namedtuple("Sizes", "rows cols chunks ignored dloss_stride")
# The arguments of a launch, see `Call`; the last four have the dtype of the statistics
Given = namedtuple(
    "Given",
    "x target weight total first second lse partial y dloss x_at y_at sizes "
    "inverse softcap smoothing z_loss",
)
# Of rows: their numbers (int64), whether they exist, their elements, those before whole vectors
Rows = namedtuple("Rows", "number exists length ahead")
# Of rows: whether they count, the target's column, its weight and its z. The column of a target out
# of range is −1, its weight and z NaN.
Target = namedtuple("Target", "counts column weight z")
# Of a part of a row: the maximum m of z, the sum s of exp(z − m), and a further sum: for the
# entropy of exp(z − m)·(z − m), for label smoothing of w·z
Statistics = namedtuple("Statistics", "m s further")
# Of rows: whether they count, the target's column, the shift of z, and a, b, c. The gradient is
# a·exp(z − shift) − b·onehot − c·w; log-softmax is z − shift − a.
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
def _transform(given: Given, values: tl.tensor, HOW: tl.constexpr) -> tl.tensor:
    """z of logits."""
    STATISTICS: tl.constexpr = HOW.statistics
    z = values.to(STATISTICS)
    if HOW.capped:
        z = given.softcap * _tanh(z / given.softcap)
    if HOW.scaled:
        z *= given.inverse
    return z


@jit
def _load_tile(
    given: Given,
    source: tl.tensor,
    tile: tl.tensor,
    vectors: tl.tensor,
    HOW: tl.constexpr,
    MASKED: tl.constexpr = True,
) -> tl.tuple:
    """z of a tile, piece by piece; −inf beyond a row's ``vectors``."""
    PIECES: tl.constexpr = HOW.pieces
    LOADS: tl.constexpr = HOW.loads
    pieces: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, HOW.lanes)
        places = source + offsets_of(vector, given.x_at.col_stride, HOW.vector)
        if MASKED:
            inside = vector < vectors
            value = tl.load(places, mask=inside, other=float("-inf"), eviction_policy=LOADS)
        else:
            value = tl.load(places, eviction_policy=LOADS)
        z = _transform(given, value, HOW)
        if MASKED and HOW.capped:
            z = tl.where(inside, z, float("-inf"))
        pieces = pieces + (z,)  # noqa: RUF005, Triton unpacks no tuple
    return pieces


@jit
def _absorb(
    given: Given,
    rows: Rows,
    lanes: Statistics,
    pieces: tl.tuple,
    tile: tl.tensor,
    vectors: tl.tensor,
    HOW: tl.constexpr,
) -> Statistics:
    """Updates the statistics of lanes by one tile."""
    PIECES: tl.constexpr = HOW.pieces
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
    FUSED: tl.constexpr = HOW.kind == "entropy" and HOW.statistics == tl.float32
    of_two = shift * LOG2E
    for piece in tl.static_range(PIECES):
        if FUSED:
            power = tl.fma(pieces[piece], LOG2E, -of_two[:, :, None])
            exponential = tl.exp2(power)
            further = tl.fma(exponential, tl.maximum(power, -1e30), further)
        else:
            difference = pieces[piece] - shift[:, :, None]
            exponential = _exp(difference)
            if HOW.kind == "entropy":
                further += _product(exponential, difference)
        sums += exponential
        if HOW.further == "added":
            vector = vectors_of(tile * PIECES + piece, HOW.lanes)
            z = tl.where(vector < vectors, pieces[piece], 0.0)
            if HOW.weighted:
                first = given.weight + rows.ahead[None, :, None]
                places = first + offsets_of(vector, 1, HOW.vector)
                z *= tl.load(places, mask=vector < vectors, other=0.0)
            further += z
    total = tl.sum(sums, 2)
    more = lanes.further
    if HOW.further != "":
        more = tl.sum(further, 2)
    if FUSED:
        off = tl.fma(shift, LOG2E, -of_two)
        back = tl.exp2(-off)
        more = (more - off * total) * (back / LOG2E)
        total *= back
    if HOW.further != "":
        more = _rescaled(lanes, change, scale, HOW) + more
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
    further = one.further
    if HOW.further != "":
        further = _rescaled(one, change, scale, HOW) + _rescaled(two, change2, scale2, HOW)
    return Statistics(most, one.s * scale + two.s * scale2, further)


@jit
def _nothing(HOW: tl.constexpr, BY_LANE: tl.constexpr = False) -> Statistics:
    """The statistics of no elements, of each row or of each lane."""
    STATISTICS: tl.constexpr = HOW.statistics
    ROWS: tl.constexpr = HOW.rows
    LANES: tl.constexpr = HOW.lanes
    zeros = tl.zeros((LANES, ROWS) if BY_LANE else (ROWS,), STATISTICS)
    return Statistics(zeros + float("-inf"), zeros, zeros)


@jit
def _rows_of(given: Given, block: tl.tensor, HOW: tl.constexpr) -> Rows:
    """The rows of a ``block`` of as many as a program has."""
    row = block.to(tl.int64) * HOW.rows + tl.arange(0, HOW.rows)
    length = given.sizes.cols * (1 if HOW.ends else HOW.vector)
    return Rows(row, row < given.sizes.rows, length, ahead_of(given.x_at, row, HOW))


@jit
def _load_ends(given: Given, rows: Rows, counts: tl.tensor, HOW: tl.constexpr) -> tl.tuple:
    """The columns of the ends of rows, −1 for none, and their z, −inf for none."""
    columns = end_columns(rows.length, rows.ahead, HOW.vector)
    columns = tl.where(counts[None, :], columns, -1)
    begin = first_element(given.x, given.x_at, rows.number, HOW)
    value = tl.load(begin[None, :] + columns, mask=columns >= 0, other=float("-inf"))
    return columns, tl.where(columns >= 0, _transform(given, value, HOW), float("-inf"))


@jit
def _fold_ends(
    given: Given, row: Statistics, z: tl.tensor, columns: tl.tensor, HOW: tl.constexpr
) -> tl.tuple:
    """Adds the ends of rows, one element per lane, to the statistics of rows."""
    further = tl.zeros_like(z)
    if HOW.further == "added":
        further = tl.where(columns >= 0, z, 0.0)
        if HOW.weighted:
            further *= tl.load(given.weight + columns, mask=columns >= 0, other=0.0)
    return _fold(row, _meet(Statistics(z, _exp(z - _shift(z)), further), HOW), HOW)


@jit
def _targets(given: Given, rows: Rows, HOW: tl.constexpr, LOGIT: tl.constexpr = True) -> Target:
    """The targets of rows; without ``LOGIT`` no z is loaded."""
    STATISTICS: tl.constexpr = HOW.statistics
    chosen = tl.load(given.target + rows.number, mask=rows.exists, other=-1)
    counts = rows.exists
    if HOW.kind == "loss":
        counts = rows.exists & (chosen != given.sizes.ignored)
    valid = counts & (chosen >= 0) & (chosen < rows.length)
    w = tl.where(valid, 1.0, float("nan")).to(STATISTICS)
    if HOW.weighted:
        w = tl.load(given.weight + chosen, mask=valid, other=float("nan")).to(STATISTICS)
    z = w
    if LOGIT:
        begin = first_element(given.x, given.x_at, rows.number, HOW)
        place = begin + chosen * given.x_at.col_stride
        z = _transform(given, tl.load(place, mask=valid, other=float("nan")), HOW)
    return Target(counts, tl.where(valid, chosen, -1), w, z)


@jit
def _sum_of_weights(given: Given, rows: Rows, HOW: tl.constexpr) -> tl.tensor:
    STATISTICS: tl.constexpr = HOW.statistics
    total = tl.cast(rows.length, STATISTICS)
    if HOW.weighted and HOW.further == "added":
        total = tl.load(given.total).to(STATISTICS)
    return total


@jit
def _store_results(
    given: Given,
    rows: Rows,
    statistics: Statistics,
    target: Target,
    total: tl.tensor,
    HOW: tl.constexpr,
) -> None:
    """Writes the results of one number per row; ``total`` is the sum of all weights."""
    logarithm, row, exists = tl.log(statistics.s), rows.number, rows.exists
    shift = _shift(statistics.m)
    lse = shift + logarithm
    if HOW.kind == "entropy":
        tl.store(given.first + row, (target.z - shift) - logarithm, mask=exists)
        tl.store(given.second + row, logarithm - statistics.further / statistics.s, mask=exists)
    if HOW.kind == "loss":
        lse = tl.where(lse == float("inf"), float("nan"), lse)  # inf − inf, as in PyTorch
        # not lse − z, in which a large shift would swallow the logarithm
        loss = target.weight * (tl.where(lse == lse, shift - target.z, lse) + logarithm)
        if HOW.further == "added":
            share = given.smoothing / rows.length
            loss = (1 - given.smoothing) * loss + share * (total * lse - statistics.further)
        if HOW.squared:
            loss += given.z_loss * (lse * lse)
        lse = tl.where(target.counts, lse, 0.0)
        tl.store(given.first + row, tl.where(target.counts, loss, 0.0), mask=exists)
    if HOW.kind != "entropy" and given.second is not None:
        shift, summed = _shift_and_sum(statistics)
        tl.store(given.second + row, shift, mask=exists)
        tl.store(given.second + given.sizes.rows + row, summed, mask=exists)
    if given.lse is not None:
        tl.store(given.lse + row, lse, mask=exists)


@jit
def _shift_and_sum(statistics: Statistics) -> tl.tuple:
    """The shift of z in a row's exponentials, and the sum of these.

    A row with +inf gives NaN, inf − inf, as in PyTorch.
    """
    m = statistics.m
    return _shift(m), tl.where(m == float("inf"), float("nan"), statistics.s)


@jit
def _factors(
    given: Given,
    rows: Rows,
    target: Target,
    shift: tl.tensor,
    summed: tl.tensor,
    total: tl.tensor,
    HOW: tl.constexpr,
) -> Factors:
    """The factors of rows from the ``shift`` of z and the sum of exponentials.

    Computed from the row's maximum and 1 / Σ exp(z − m), p has half the error of a p computed from
    a rounded lse. Where ``summed`` is None, the shift is the lse.
    """
    STATISTICS: tl.constexpr = HOW.statistics
    lse = shift
    if summed is not None:
        logarithm = tl.log(summed)
        lse = shift + logarithm
    if HOW.kind == "lse":
        return Factors(rows.exists, rows.number, shift, logarithm, logarithm, logarithm)
    w = target.weight
    a, b, c = w, w, w
    if HOW.further == "added":
        b = (1 - given.smoothing) * w
        c = given.smoothing / rows.length + tl.zeros_like(w)
        a = b + c * total
    if HOW.squared:
        a += 2 * given.z_loss * lse
    scale = tl.full((), 1.0, STATISTICS)
    if given.dloss is not None:
        dloss = given.dloss + rows.number * given.sizes.dloss_stride
        scale *= tl.load(dloss, mask=rows.exists, other=0.0).to(STATISTICS)
    if HOW.mean:
        scale *= tl.load(given.lse + given.sizes.rows)
    if HOW.scaled:
        scale *= given.inverse
    a *= scale
    if summed is not None:
        a *= 1 / summed
    return Factors(target.counts, target.column, shift, a, b * scale, c * scale)


@jit
def _gradient(
    given: Given,
    factors: Factors,
    z: tl.tensor,
    columns: tl.tensor,
    inside: tl.tensor,
    HOW: tl.constexpr,
    COMMON: tl.constexpr = False,
) -> tl.tensor:
    """The gradient of logits, or log-softmax, from their z.

    ``COMMON`` promises that no row is ignored and that no element is its row's target.
    """
    counts, chosen, shift, a, b, c = factors
    gradient = (z - shift) - a if HOW.kind == "lse" else a * _exp(z - shift)
    if HOW.further == "added":
        if HOW.weighted:
            c = c * tl.load(given.weight + columns, mask=inside, other=0.0)
        gradient -= c
    if HOW.kind == "loss" and not COMMON:
        gradient -= tl.where(columns == chosen, b, 0.0)
    if HOW.capped:  # the derivative of cap is 1 − tanh²
        u = z / given.softcap
        if HOW.scaled:
            u = u / given.inverse
        gradient *= 1 - u * u
    return gradient if COMMON else tl.where(counts, gradient, 0.0)


@jit
def _emit_tile(
    given: Given,
    rows: Rows,
    aim: tl.tensor,
    factors: Factors,
    pieces: tl.tuple,
    tile: tl.tensor,
    vectors: tl.tensor,
    HOW: tl.constexpr,
    COMMON: tl.constexpr = False,
) -> None:
    """Writes the gradient, or log-softmax, of a tile, from its z, behind ``aim``."""
    PIECES: tl.constexpr = HOW.pieces
    STORES: tl.constexpr = HOW.stores
    wide: tl.tuple = ()
    for i in tl.static_range(len(factors)):
        wide = wide + (factors[i][None, :, None],)  # noqa: RUF005, Triton unpacks no tuple
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, HOW.lanes)
        inside = vector < vectors
        columns = rows.ahead[None, :, None] + offsets_of(vector, 1, HOW.vector)
        answer = _gradient(given, wide, pieces[piece], columns, inside, HOW, COMMON)
        places = aim + offsets_of(vector, given.y_at.col_stride, HOW.vector)
        answer = answer.to(aim.dtype.element_ty)
        tl.store(places, answer, mask=inside, eviction_policy=STORES)


@jit
def _emit_ends(
    given: Given, rows: Rows, factors: Factors, z: tl.tensor, columns: tl.tensor, HOW: tl.constexpr
) -> None:
    """Writes the gradient, or log-softmax, of the ends of rows."""
    wide: tl.tuple = ()
    for i in tl.static_range(len(factors)):
        wide = wide + (factors[i][None, :],)  # noqa: RUF005, Triton unpacks no tuple
    begin = first_element(given.y, given.y_at, rows.number, HOW)
    answer = _gradient(given, wide, z, columns, columns >= 0, HOW)
    tl.store(begin[None, :] + columns, answer.to(begin.dtype.element_ty), mask=columns >= 0)


@jit
def _streaming_rows(
    x: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    total: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    lse: tl.tensor,
    partial: tl.tensor,
    y: tl.tensor,
    dloss: tl.tensor,
    x_at: At,
    y_at: At,
    sizes: Sizes,
    inverse: tl.float64,  # a plain float would be float32
    softcap: tl.float64,
    smoothing: tl.float64,
    z_loss: tl.float64,
    HOW: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = HOW.statistics
    given = Given(
        *(x, target, weight, total, first, second, lse, partial, y, dloss, x_at, y_at, sizes),
        tl.full((), inverse, tl.float64).to(STATISTICS),
        tl.full((), softcap, tl.float64).to(STATISTICS),
        tl.full((), smoothing, tl.float64).to(STATISTICS),
        tl.full((), z_loss, tl.float64).to(STATISTICS),
    )
    if HOW.step == "elements":
        _elements(given, HOW)
    else:
        _rows(given, HOW)


@jit
def _rows(given: Given, HOW: tl.constexpr) -> None:
    """Reads rows, and writes what follows from their statistics unless programs share them."""
    rows = _rows_of(given, tl.program_id(0) // HOW.split, HOW)
    source = first_vector(given.x, given.x_at, rows.number, HOW)[None, :, None]
    target = Target(rows.exists, rows.number, rows.number, rows.number)
    if HOW.skip:
        target = _targets(given, rows, HOW)
    counted = target.counts
    vectors = tl.where(counted, whole_vectors(given.sizes.cols, rows.ahead, HOW), 0)
    if HOW.ends and HOW.split == 1 and HOW.step == "rows":
        columns, z_at_ends = _load_ends(given, rows, counted, HOW)
    many = vectors[None, :, None]
    if HOW.whole:  # all of the row is on its way before a target is waited for
        pieces = _load_tile(given, source, 0, many, HOW)
    if HOW.kind != "lse" and not HOW.skip:
        target = _targets(given, rows, HOW)
    if HOW.whole:
        lanes = _nothing(HOW, True)
        statistics = _meet(_absorb(given, rows, lanes, pieces, 0, many, HOW), HOW)
    elif HOW.step == "join":
        statistics = _join(given, rows, HOW)
    else:
        statistics = _stream(given, rows, source, vectors, HOW)
    if HOW.split == 1:
        if HOW.ends:
            if HOW.step == "join":
                columns, z_at_ends = _load_ends(given, rows, rows.exists, HOW)
            statistics = _fold_ends(given, statistics, z_at_ends, columns, HOW)
        total = _sum_of_weights(given, rows, HOW)
        _store_results(given, rows, statistics, target, total, HOW)
        if given.y is not None:
            shift, summed = _shift_and_sum(statistics)
            factors = _factors(given, rows, target, shift, summed, total, HOW)
            # another warp may not have read the target's logit yet, which is now overwritten
            tl.debug_barrier()
            aim = first_vector(given.y, given.y_at, rows.number, HOW)[None, :, None]
            _emit_tile(given, rows, aim, factors, pieces, 0, many, HOW)
            if HOW.ends:
                _emit_ends(given, rows, factors, z_at_ends, columns, HOW)


@jit
def _stream(
    given: Given, rows: Rows, source: tl.tensor, vectors: tl.tensor, HOW: tl.constexpr
) -> tl.tuple:
    """The statistics of rows chunk by chunk; programs that share rows write those instead."""
    A_TILE: tl.constexpr = HOW.lanes * HOW.pieces
    many = vectors[None, :, None]
    if HOW.rows == 1:
        tiles = tl.cdiv(tl.max(vectors, 0), A_TILE)
        full = tl.min(vectors, 0) // A_TILE  # tiles that need no mask
    else:  # not to be found out among warps, each of which has rows of its own
        tiles = tl.cdiv(given.sizes.cols // HOW.vector if HOW.ends else given.sizes.cols, A_TILE)
        full = 0
    statistics = _nothing(HOW)
    each = tl.cdiv(given.sizes.chunks, HOW.split)
    first = tl.program_id(0) % HOW.split * each
    last = tl.minimum(first + each, given.sizes.chunks)
    for chunk in tl.range(first, last, num_stages=1):
        lanes = _nothing(HOW, True)
        start = tl.minimum(chunk * HOW.tiles, tiles)
        end = tl.minimum(start + HOW.tiles, tiles)
        middle = tl.minimum(tl.maximum(full, start), end)
        if HOW.rows == 1:
            for tile in tl.range(start, middle, num_stages=1):
                pieces = _load_tile(given, source, tile, many, HOW, False)
                lanes = _absorb(given, rows, lanes, pieces, tile, many, HOW)
        for tile in tl.range(middle, end, num_stages=1):
            pieces = _load_tile(given, source, tile, many, HOW)
            lanes = _absorb(given, rows, lanes, pieces, tile, many, HOW)
        found = _meet(lanes, HOW)
        if HOW.split > 1:
            places, step = _partial(given, rows, chunk)
            tl.store(places, found.m, mask=rows.exists)
            tl.store(places + step, found.s, mask=rows.exists)
            if HOW.further != "":
                tl.store(places + 2 * step, found.further, mask=rows.exists)
        else:
            statistics = _fold(statistics, found, HOW)
    return statistics


@jit
def _partial(given: Given, rows: Rows, chunk: tl.tensor) -> tl.tuple:
    """Where the first statistic of a chunk of each row is kept, and how far apart they are."""
    places = given.partial + (tl.cast(chunk, tl.int64) * given.sizes.rows + rows.number)
    return places, tl.cast(given.sizes.chunks, tl.int64) * given.sizes.rows


@jit
def _join(given: Given, rows: Rows, HOW: tl.constexpr) -> tl.tuple:
    """The statistics of rows from the chunks that several programs kept."""
    statistics = _nothing(HOW)
    zeros = statistics.s
    for chunk in tl.range(given.sizes.chunks, num_stages=1):
        places, step = _partial(given, rows, chunk)
        m = tl.load(places, mask=rows.exists, other=float("-inf"))
        s = tl.load(places + step, mask=rows.exists, other=0.0)
        further = zeros
        if HOW.further != "":
            further = tl.load(places + 2 * step, mask=rows.exists, other=0.0)
        statistics = _fold(statistics, Statistics(m, s, further), HOW)
    return statistics


@jit
def _elements(given: Given, HOW: tl.constexpr) -> None:
    """Writes a tile of the gradient, or of log-softmax, from what is known of its rows."""
    program, sizes = tl.program_id(0), given.sizes
    rows, tile = _rows_of(given, program // sizes.chunks, HOW), program % sizes.chunks
    exists = rows.exists
    vectors = tl.where(exists, whole_vectors(sizes.cols, rows.ahead, HOW), 0)[None, :, None]
    source = first_vector(given.x, given.x_at, rows.number, HOW)[None, :, None]
    pieces = _load_tile(given, source, tile, vectors, HOW)
    summed = None
    if given.second is not None:
        shift = tl.load(given.second + rows.number, mask=exists, other=0.0)
        summed = tl.load(given.second + sizes.rows + rows.number, mask=exists, other=1.0)
    else:
        shift = tl.load(given.lse + rows.number, mask=exists, other=0.0)
    target = Target(exists, rows.number, rows.number, rows.number)
    if HOW.kind == "loss":
        target = _targets(given, rows, HOW, False)
    total = _sum_of_weights(given, rows, HOW)
    factors = _factors(given, rows, target, shift, summed, total, HOW)
    common = 1
    if HOW.kind == "loss":
        # most tiles have no target, and rows that count: their elements take a third less
        A_TILE: tl.constexpr = HOW.lanes * HOW.pieces * HOW.vector
        place = target.column - rows.ahead - tile * A_TILE
        apart = ((place >= 0) & (place < A_TILE)) | (exists & (target.counts == 0))
        common = 1 - tl.max(apart.to(tl.int32), 0)
    aim = first_vector(given.y, given.y_at, rows.number, HOW)[None, :, None]
    if common == 1:
        _emit_tile(given, rows, aim, factors, pieces, tile, vectors, HOW, True)
    else:
        _emit_tile(given, rows, aim, factors, pieces, tile, vectors, HOW)
    if HOW.ends and tile == 0:  # a branch, so that other tiles skip the masked accesses
        columns, z = _load_ends(given, rows, exists, HOW)
        _emit_ends(given, rows, factors, z, columns, HOW)


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
