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
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from typing_extensions import override

from ..device import Device, device_of
from ..kernel import Kernel, Tensors
from ..language import constant, jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint, workspace
from ..vectors import (
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
        made = {
            array.name: torch.empty(size, dtype=dtype, device=x.device)
            for array, (size, dtype) in zip(outputs, layout, strict=True)
        }
        if self.overwrites is not None:
            made["dlogits"] = x
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
    given = Results(**results)
    outputs = given.of_target, given.entropy, given.lse, given.matrix
    _statistics(Call(given.kind, x, options, target, weight, dloss, tiles), *outputs)


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
        call = Call("loss", logits, options, target, weight, dloss, tiles)
        _each_element(call, lse, None, dlogits, mean)


def reduce_losses(
    loss: torch.Tensor,
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
    none) and writes the result of `scale_of_mean` into ``kept[M]``, if ``kept`` is given.
    """
    _reduce_rows(loss, target, options, weight, out, mean, kept)


def scale_of_mean(
    target: torch.Tensor, options: Options, weight: torch.Tensor | None, *, scale: torch.Tensor
) -> None:
    """Writes 1 / Σ weight[target] over the rows that are not ignored into ``scale``, one number."""
    _reduce_rows(None, target, options, weight, scale, True)


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
    """The inputs of `run`, and the kind of its results."""

    kind: str
    x: torch.Tensor
    options: Options
    target: torch.Tensor | None
    weight: torch.Tensor | None
    dloss: torch.Tensor | None
    tiles: Tiles


def _statistics(
    call: Call,
    first: torch.Tensor | None,
    second: torch.Tensor | None,
    lse: torch.Tensor | None,
    y: torch.Tensor | None,
) -> None:
    """Computes the logsumexp of each row and the results that follow from it.

    Args:
        call: The inputs.
        first: (M,), the loss or the log-probability, by ``call.kind``.
        second: (M,), the entropy, for its kind. Otherwise None, or (2, M) for `_each_element`: the
            shift of each row's z, and Σ exp(z − shift).
        lse: (M,); None leaves it unwritten.
        y: (M, N): the gradient of the loss, or log-softmax for the kind ``"lse"``, or None.
    """
    kind, x, options, target, weight, dloss, tiles = call
    rows, cols = x.shape
    if x.numel() == 0:  # no columns: the result of PyTorch
        for result, value in ((lse, float("-inf")), (first, float("nan")), (second, 0.0)):
            if result is not None:
                result.fill_(value)
        return
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    plan = layout(x) if y is None else layout(x, y)
    if y is not None and cols > (HELD if plan.vector > 1 else 32 * PIECES):
        sums = workspace((2, rows), dtype, x.device)
        _statistics(call._replace(dloss=None), first, sums, lse, None)
        _each_element(call, None, sums, y)
        return
    parts = cut(cols, plan.vector, tiles, y is not None)
    split = 1 if y is not None else parts.split(rows, tiles.split, device_of(x))
    partial = None
    if split > 1:
        numbers = 2 + (kind == "entropy") + bool(options.label_smoothing)
        partial = workspace((numbers, parts.chunks, rows), dtype, x.device)
    arguments = (
        *(plan.bases[0], target, weight, _total(options, weight), first, second, lse, partial),
        *(rows, plan.cols, parts.chunks, *plan.strides[0], plan.leads[0], *_of(options)),
    )
    answer = (None, 0, 1, 0) if y is None else (plan.bases[1], *plan.strides[1], plan.leads[1])
    how = _how(call, plan, parts, lse is not None, second is not None)
    launch(
        _rows,
        (-(-rows // parts.rows) * split,),
        (*arguments, *answer, *_spread(dloss)),
        {
            "HOW": how,
            "ROWS": parts.rows,
            "TILES": parts.tiles,
            "SPLIT": split,
            "SKIP": kind == "loss" and cols >= SKIPPED and y is None,
            "WHOLE": y is not None or cols // plan.vector <= parts.lanes * parts.pieces,
        },
        num_warps=parts.warps,
        **UNFUSED,
    )
    if split > 1:
        rest = {"HOW": how, "ROWS": 32}
        launch(_join, (-(-rows // 32),), arguments, rest, num_warps=1, **UNFUSED)


def _each_element(
    call: Call,
    lse: torch.Tensor | None,
    sums: torch.Tensor | None,
    y: torch.Tensor,
    mean: bool = False,
) -> None:
    """Writes ``y`` of `_statistics` element by element, from ``sums``, or a loss's from ``lse``."""
    _, x, options, target, weight, dloss, tiles = call
    rows, cols = x.shape
    plan = layout(x, y)
    parts = cut_of_copy(cols, plan.vector, tiles)
    launch(
        _elements,
        (-(-rows // parts.rows) * parts.chunks,),
        (
            *(plan.bases[0], target, weight, _total(options, weight), lse, sums, *_spread(dloss)),
            *(rows, plan.cols, parts.chunks, *plan.strides[0], plan.leads[0], *_of(options)),
            *(plan.bases[1], *plan.strides[1], plan.leads[1]),
        ),
        {"HOW": _how(call, plan, parts), "ROWS": parts.rows, "MEAN": mean},
        num_warps=parts.warps,
        **UNFUSED,
    )


def _reduce_rows(
    loss: torch.Tensor | None,
    target: torch.Tensor,
    options: Options,
    weight: torch.Tensor | None,
    out: torch.Tensor,
    mean: bool,
    kept: torch.Tensor | None = None,
) -> None:
    cols = 0 if weight is None else weight.numel()
    launch(
        _reduce,
        (1,),
        (loss, target, weight, out, kept, target.numel(), cols, options.ignore_index),
        {"SUMMED": loss is not None, "WEIGHTED": weight is not None, "MEAN": mean, "BLOCK": 4096},
        num_warps=16,
    )


class How(NamedTuple):
    """The compile-time flags of a kernel; see `_statistics` and `kernels.vectors.Layout`."""

    kind: str
    vector: int
    ends: bool
    lanes: int
    pieces: int
    keeps: bool  # the logsumexp
    more: bool  # writes `second`
    ones: bool  # for dloss
    weighted: bool
    smooth: bool
    capped: bool
    scaled: bool
    squared: bool
    loads: str
    stores: str
    statistics: Any


def _how(call: Call, plan: Layout, parts: Cut, keeps: bool = True, more: bool = False) -> How:
    options, weight, x = call.options, call.weight, call.x
    return How(
        *(call.kind, plan.vector, plan.ends, parts.lanes, parts.pieces, keeps, more),
        *(call.dloss is None, weight is not None, options.label_smoothing != 0),
        *(options.softcap != 0, options.temperature != 1, options.z_loss != 0),
        *(load_hint(x), store_hint(x)),
        tl.float64 if x.dtype == torch.float64 else tl.float32,
    )


def _of(options: Options) -> tuple[int, float, float, float, float]:
    """The numeric options."""
    return (
        *(options.ignore_index, 1 / options.temperature, options.softcap),
        *(options.label_smoothing, options.z_loss),
    )


def _total(options: Options, weight: torch.Tensor | None) -> torch.Tensor | None:
    """The sum of all weights, which label smoothing needs."""
    if weight is None or not options.label_smoothing:
        return None
    return weight.sum(dtype=torch.float64)


def _spread(dloss: torch.Tensor | None) -> tuple[torch.Tensor | None, int]:
    """The gradients of the losses, and their stride from row to row."""
    return dloss, 0 if dloss is None or dloss.numel() == 1 else dloss.stride(0)


# --- device code ---
#
# Shapes: [rows] for a value per row, [lanes, rows] per lane, [lanes, rows, elements of a vector]
# per element of a piece of a tile. With this order Triton gives each warp its own rows where a
# program has several. The statistics of a part of a row are four: the maximum m of z, the sum s of
# exp(z − m), the sum e of exp(z − m)·(z − m) for the entropy, and the sum t of w·z for label
# smoothing. Exponentials take z − _shift(m), so that an infinite m does no harm.
# `numbers` are the inverse of the temperature, softcap, label_smoothing and z_loss.


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
def _transform(values: tl.tensor, numbers: tl.tuple, HOW: tl.constexpr) -> tl.tensor:
    """z of logits."""
    STATISTICS: tl.constexpr = HOW.statistics
    z = values.to(STATISTICS)
    if HOW.capped:
        z = numbers[1] * _tanh(z / numbers[1])
    if HOW.scaled:
        z *= numbers[0]
    return z


@jit
def _load_tile(
    source: tl.tensor,
    tile: tl.tensor,
    vectors: tl.tensor,
    stride: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
    MASKED: tl.constexpr,
    HINT: tl.constexpr,
) -> tl.tuple:
    """z of a tile, piece by piece; −inf beyond a row's ``vectors``."""
    PIECES: tl.constexpr = HOW.pieces
    LANES: tl.constexpr = HOW.lanes
    VECTOR: tl.constexpr = HOW.vector
    pieces: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, LANES)
        places = source + offsets_of(vector, stride, VECTOR)
        if MASKED:
            inside = vector < vectors
            value = tl.load(places, mask=inside, other=float("-inf"), eviction_policy=HINT)
        else:
            value = tl.load(places, eviction_policy=HINT)
        z = _transform(value, numbers, HOW)
        if MASKED and HOW.capped:
            z = tl.where(inside, z, float("-inf"))
        pieces = pieces + (z,)  # noqa: RUF005, Triton unpacks no tuple
    return pieces


@jit
def _absorb(
    lanes: tl.tuple,
    pieces: tl.tuple,
    tile: tl.tensor,
    vectors: tl.tensor,
    weight: tl.tensor,
    HOW: tl.constexpr,
) -> tl.tuple:
    """Updates the statistics of lanes by one tile; ``weight`` points to the row's first vector."""
    PIECES: tl.constexpr = HOW.pieces
    LANES: tl.constexpr = HOW.lanes
    VECTOR: tl.constexpr = HOW.vector
    m, s, e, t = lanes
    highest = pieces[0]
    for piece in tl.static_range(1, PIECES):
        highest = tl.maximum(highest, pieces[piece])
    # Triton's maximum passes over NaN; it comes back through the sum
    raised = tl.maximum(m, tl.max(highest, 2))
    shift = _shift(raised)
    scale = _exp(m - shift)
    sums = tl.zeros_like(highest)
    products, plain = sums, sums
    # Of log-probability and entropy an element takes a fourth less by powers of two, each rounded
    # once. Their shift is not quite m's shift: `off` is the difference.
    FUSED: tl.constexpr = HOW.kind == "entropy" and HOW.statistics == tl.float32
    of_two = shift * LOG2E
    for piece in tl.static_range(PIECES):
        if FUSED:
            power = tl.fma(pieces[piece], LOG2E, -of_two[:, :, None])
            exponential = tl.exp2(power)
            products = tl.fma(exponential, tl.maximum(power, -1e30), products)
        else:
            difference = pieces[piece] - shift[:, :, None]
            exponential = _exp(difference)
            if HOW.kind == "entropy":
                products += _product(exponential, difference)
        sums += exponential
        if HOW.smooth:
            vector = vectors_of(tile * PIECES + piece, LANES)
            z = tl.where(vector < vectors, pieces[piece], 0.0)
            if HOW.weighted:
                places = weight + offsets_of(vector, 1, VECTOR)
                z *= tl.load(places, mask=vector < vectors, other=0.0)
            plain += z
    total, product = tl.sum(sums, 2), tl.sum(products, 2)
    if FUSED:
        off = tl.fma(shift, LOG2E, -of_two)
        back = tl.exp2(-off)
        product = (product - off * total) * (back / LOG2E)
        total *= back
    if HOW.kind == "entropy":
        e = (e + _product(s, m - shift)) * scale + product
    if HOW.smooth:
        t += tl.sum(plain, 2)
    return raised, s * scale + total, e, t


@jit
def _meet(lanes: tl.tuple, HOW: tl.constexpr) -> tl.tuple:
    """Combines the statistics of lanes into the statistics of rows."""
    m, s, e, t = lanes
    most = tl.max(m, 0)
    change = m - _shift(most)[None, :]
    scale = _exp(change)
    total = tl.sum(s * scale, 0)
    products, plain = tl.zeros_like(total), tl.zeros_like(total)
    if HOW.kind == "entropy":
        products = tl.sum((e + _product(s, change)) * scale, 0)
    if HOW.smooth:
        plain = tl.sum(t, 0)
    return most, total, products, plain


@jit
def _fold(one: tl.tuple, two: tl.tuple, HOW: tl.constexpr) -> tl.tuple:
    """Combines the statistics of two parts of each row."""
    m, s, e, t = one
    m2, s2, e2, t2 = two
    most = tl.maximum(m, m2)
    shift = _shift(most)
    scale, scale2 = _exp(m - shift), _exp(m2 - shift)
    if HOW.kind == "entropy":
        e = (e + _product(s, m - shift)) * scale + (e2 + _product(s2, m2 - shift)) * scale2
    return most, s * scale + s2 * scale2, e, t + t2


@jit
def _nothing(shape: tl.constexpr, HOW: tl.constexpr) -> tl.tuple:
    """The statistics of no elements."""
    STATISTICS: tl.constexpr = HOW.statistics
    zeros = tl.zeros(shape, STATISTICS)
    return zeros + float("-inf"), zeros, zeros, zeros


@jit
def _load_ends(
    begin: tl.tensor, columns: tl.tensor, numbers: tl.tuple, HOW: tl.constexpr
) -> tl.tensor:
    """z of the ends of rows that begin at ``begin``; −inf where there is no element."""
    value = tl.load(begin[None, :] + columns, mask=columns >= 0, other=float("-inf"))
    return tl.where(columns >= 0, _transform(value, numbers, HOW), float("-inf"))


@jit
def _fold_ends(
    row: tl.tuple, z: tl.tensor, columns: tl.tensor, weight: tl.tensor, HOW: tl.constexpr
) -> tl.tuple:
    """Adds the ends of rows, one element per lane, to the statistics of rows."""
    plain = tl.where(columns >= 0, z, 0.0)
    if HOW.smooth and HOW.weighted:
        plain *= tl.load(weight + columns, mask=columns >= 0, other=0.0)
    return _fold(row, _meet((z, _exp(z - _shift(z)), tl.zeros_like(z), plain), HOW), HOW)


@jit
def _targets(
    begin: tl.tensor,
    col_stride: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    row: tl.tensor,
    exists: tl.tensor,
    length: tl.tensor,
    ignored: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
) -> tl.tuple:
    """For each row: whether it is not ignored, its target, the target's weight, and its z.

    A target out of range is −1, its weight and z NaN.
    """
    STATISTICS: tl.constexpr = HOW.statistics
    chosen = tl.load(target + row, mask=exists, other=-1)
    wanted = exists
    if HOW.kind == "loss":
        wanted = exists & (chosen != ignored)
    valid = wanted & (chosen >= 0) & (chosen < length)
    w = tl.where(valid, 1.0, float("nan")).to(STATISTICS)
    if HOW.weighted:
        w = tl.load(weight + chosen, mask=valid, other=float("nan")).to(STATISTICS)
    z = w
    if begin is not None:
        value = tl.load(begin + chosen * col_stride, mask=valid, other=float("nan"))
        z = _transform(value, numbers, HOW)
    return wanted, tl.where(valid, chosen, -1), w, z


@jit
def _finish(
    statistics: tl.tuple,
    targets: tl.tuple,
    total: tl.tensor,
    length: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
) -> tl.tuple:
    """The requested results and the logsumexp of each row; ``total`` is the sum of all weights."""
    m, s, e, t = statistics
    wanted, _, w, z = targets
    shift, logarithm = _shift(m), tl.log(s)
    lse = shift + logarithm
    first, second = lse, lse
    if HOW.kind == "entropy":
        first, second = (z - shift) - logarithm, logarithm - e / s
    if HOW.kind == "loss":
        lse = tl.where(lse == float("inf"), float("nan"), lse)  # inf − inf, as in PyTorch
        # not lse − z, in which a large shift would swallow the logarithm
        first = w * (tl.where(lse == lse, shift - z, lse) + logarithm)
        if HOW.smooth:
            first = (1 - numbers[2]) * first + numbers[2] / length * (total * lse - t)
        if HOW.squared:
            first += numbers[3] * (lse * lse)
        first, lse = tl.where(wanted, first, 0.0), tl.where(wanted, lse, 0.0)
    return first, second, lse


@jit
def _shift_and_sum(statistics: tl.tuple) -> tl.tuple:
    """The shift of z in a row's exponentials, and the sum of these.

    A row with +inf gives NaN, inf − inf, as in PyTorch.
    """
    m, s, _, _ = statistics
    return _shift(m), tl.where(m == float("inf"), float("nan"), s)


@jit
def _store_statistics(
    outputs: tl.tuple,
    answers: tl.tuple,
    statistics: tl.tuple,
    row: tl.tensor,
    rows: tl.tensor,
    exists: tl.tensor,
    HOW: tl.constexpr,
) -> None:
    if HOW.kind != "lse":
        tl.store(outputs[0] + row, answers[0], mask=exists)
    if HOW.kind == "entropy":
        tl.store(outputs[1] + row, answers[1], mask=exists)
    elif HOW.more:
        shift, summed = _shift_and_sum(statistics)
        tl.store(outputs[1] + row, shift, mask=exists)
        tl.store(outputs[1] + rows + row, summed, mask=exists)
    if HOW.keeps:
        tl.store(outputs[2] + row, answers[2], mask=exists)


@jit
def _factors(
    shift: tl.tensor,
    over: tl.tensor,
    lse: tl.tensor,
    targets: tl.tuple,
    dloss: tl.tensor,
    mean: tl.tensor,
    exists: tl.tensor,
    total: tl.tensor,
    length: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
) -> tl.tuple:
    """The inputs of a row's gradient: whether it is not ignored, target, ``shift``, a, b and c.

    The gradient is a·exp(z − shift) − b·onehot − c·w, with p = ``over``·exp(z − shift). Computed
    from the row's maximum and 1 / Σ exp(z − m), p has half the error of a p computed from a rounded
    lse. ``dloss`` points to the gradients of the rows' losses; ``mean``, if given, to a common
    factor.
    """
    STATISTICS: tl.constexpr = HOW.statistics
    wanted, chosen, w, _ = targets
    a, b, c = w, w, w
    if HOW.smooth:
        b = (1 - numbers[2]) * w
        c = numbers[2] / length + tl.zeros_like(w)
        a = b + c * total
    if HOW.squared:
        a += 2 * numbers[3] * lse
    scale = tl.full((), 1.0, STATISTICS)
    if not HOW.ones:
        scale *= tl.load(dloss, mask=exists, other=0.0).to(STATISTICS)
    if mean is not None:
        scale *= tl.load(mean)
    if HOW.scaled:
        scale *= numbers[0]
    return wanted, chosen, shift, a * scale * over, b * scale, c * scale


@jit
def _gradient(
    z: tl.tensor,
    columns: tl.tensor,
    inside: tl.tensor,
    row: tl.tuple,
    weight: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
    COMMON: tl.constexpr,
) -> tl.tensor:
    """The gradient of logits, or log-softmax, from their z; ``row`` is the result of `_factors`.

    ``COMMON`` promises that no row is ignored and that no element is its row's target.
    """
    wanted, chosen, shift, a, b, c = row
    gradient = (z - shift) - a if HOW.kind == "lse" else a * _exp(z - shift)
    if HOW.smooth:
        if HOW.weighted:
            c = c * tl.load(weight + columns, mask=inside, other=0.0)
        gradient -= c
    if HOW.kind == "loss" and not COMMON:
        gradient -= tl.where(columns == chosen, b, 0.0)
    if HOW.capped:  # the derivative of cap is 1 − tanh²
        u = z / numbers[1]
        if HOW.scaled:
            u = u / numbers[0]
        gradient *= 1 - u * u
    return gradient if COMMON else tl.where(wanted, gradient, 0.0)


@jit
def _emit_tile(
    aim: tl.tensor,
    pieces: tl.tuple,
    tile: tl.tensor,
    vectors: tl.tensor,
    stride: tl.tensor,
    ahead: tl.tensor,
    row: tl.tuple,
    weight: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
    COMMON: tl.constexpr,
) -> None:
    """Writes the gradient, or log-softmax, of a tile, from its z, behind ``aim``."""
    PIECES: tl.constexpr = HOW.pieces
    LANES: tl.constexpr = HOW.lanes
    VECTOR: tl.constexpr = HOW.vector
    STORES: tl.constexpr = HOW.stores
    wide: tl.tuple = ()
    for i in tl.static_range(len(row)):
        wide = wide + (row[i][None, :, None],)  # noqa: RUF005, Triton unpacks no tuple
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, LANES)
        inside = vector < vectors
        columns = ahead[None, :, None] + offsets_of(vector, 1, VECTOR)
        answer = _gradient(pieces[piece], columns, inside, wide, weight, numbers, HOW, COMMON)
        places = aim + offsets_of(vector, stride, VECTOR)
        answer = answer.to(aim.dtype.element_ty)
        tl.store(places, answer, mask=inside, eviction_policy=STORES)


@jit
def _emit_ends(
    begin: tl.tensor,
    z: tl.tensor,
    columns: tl.tensor,
    row: tl.tuple,
    weight: tl.tensor,
    numbers: tl.tuple,
    HOW: tl.constexpr,
) -> None:
    """Writes the gradient, or log-softmax, of the ends of rows that begin at ``begin``."""
    wide: tl.tuple = ()
    for i in tl.static_range(len(row)):
        wide = wide + (row[i][None, :],)  # noqa: RUF005, Triton unpacks no tuple
    answer = _gradient(z, columns, columns >= 0, wide, weight, numbers, HOW, False)
    tl.store(begin[None, :] + columns, answer.to(begin.dtype.element_ty), mask=columns >= 0)


@jit
def _numbers(
    inverse: tl.tensor,
    softcap: tl.tensor,
    smoothing: tl.tensor,
    z_loss: tl.tensor,
    HOW: tl.constexpr,
) -> tl.tuple:
    STATISTICS: tl.constexpr = HOW.statistics
    return (
        tl.full((), inverse, tl.float64).to(STATISTICS),
        tl.full((), softcap, tl.float64).to(STATISTICS),
        tl.full((), smoothing, tl.float64).to(STATISTICS),
        tl.full((), z_loss, tl.float64).to(STATISTICS),
    )


@jit
def _rows(
    x: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    weight_total: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    lse: tl.tensor,
    partial: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    chunks: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    lead: tl.tensor,
    ignored: tl.tensor,
    inverse: tl.float64,  # a plain float would be float32
    softcap: tl.float64,
    smoothing: tl.float64,
    z_loss: tl.float64,
    y: tl.tensor,
    y_row_stride: tl.tensor,
    y_col_stride: tl.tensor,
    y_lead: tl.tensor,
    dloss: tl.tensor,
    dloss_stride: tl.tensor,
    HOW: tl.constexpr,
    ROWS: tl.constexpr,
    TILES: tl.constexpr,
    SPLIT: tl.constexpr,
    SKIP: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    PIECES: tl.constexpr = HOW.pieces
    LANES: tl.constexpr = HOW.lanes
    VECTOR: tl.constexpr = HOW.vector
    ENDS: tl.constexpr = HOW.ends
    LOADS: tl.constexpr = HOW.loads
    STATISTICS: tl.constexpr = HOW.statistics
    A_TILE: tl.constexpr = LANES * PIECES
    numbers = _numbers(inverse, softcap, smoothing, z_loss, HOW)
    program = tl.program_id(0)
    row = (program // SPLIT).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    exists = row < rows
    length = cols * (1 if ENDS else VECTOR)
    begin = first_element(x, row, row_stride, lead, VECTOR, ENDS)
    ahead = ahead_of(row, row_stride, lead, VECTOR, ENDS)
    source = first_vector(x, row, row_stride, lead, VECTOR, ENDS)[None, :, None]
    weight_ahead = weight
    if HOW.weighted:
        weight_ahead = weight + ahead[None, :, None]
    targets = (exists, row, row, row)
    if SKIP:
        targets = _targets(
            begin, col_stride, target, weight, row, exists, length, ignored, numbers, HOW
        )
    vectors = tl.where(targets[0], whole_vectors(cols, ahead, VECTOR, ENDS), 0)
    if ENDS and SPLIT == 1:
        columns = tl.where(targets[0][None, :], end_columns(length, ahead, VECTOR), -1)
        z_at_ends = _load_ends(begin, columns, numbers, HOW)
    many = vectors[None, :, None]
    if ROWS == 1:
        tiles = tl.cdiv(tl.max(vectors, 0), A_TILE)
        full = tl.min(vectors, 0) // A_TILE  # tiles that need no mask
    else:  # not to be found out among warps, each of which has rows of its own
        tiles = tl.cdiv(cols // VECTOR if ENDS else cols, A_TILE)
        full = 0

    statistics = _nothing((ROWS,), HOW)
    if WHOLE:  # all of the row is on its way before a target is waited for
        pieces = _load_tile(source, 0, many, col_stride, numbers, HOW, True, LOADS)
    if HOW.kind != "lse" and not SKIP:
        targets = _targets(
            begin, col_stride, target, weight, row, exists, length, ignored, numbers, HOW
        )
    if WHOLE:
        lanes = _absorb(_nothing((LANES, ROWS), HOW), pieces, 0, many, weight_ahead, HOW)
        statistics = _meet(lanes, HOW)
    else:
        each = tl.cdiv(chunks, SPLIT)
        begin_at = program % SPLIT * each
        for chunk in tl.range(begin_at, tl.minimum(begin_at + each, chunks), num_stages=1):
            lanes = _nothing((LANES, ROWS), HOW)
            start = tl.minimum(chunk * TILES, tiles)
            end = tl.minimum(start + TILES, tiles)
            middle = tl.minimum(tl.maximum(full, start), end)
            if ROWS == 1:
                for tile in tl.range(start, middle, num_stages=1):
                    pieces = _load_tile(source, tile, many, col_stride, numbers, HOW, False, LOADS)
                    lanes = _absorb(lanes, pieces, tile, many, weight_ahead, HOW)
            for tile in tl.range(middle, end, num_stages=1):
                pieces = _load_tile(source, tile, many, col_stride, numbers, HOW, True, LOADS)
                lanes = _absorb(lanes, pieces, tile, many, weight_ahead, HOW)
            found = _meet(lanes, HOW)
            if SPLIT > 1:
                places = partial + (tl.cast(chunk, tl.int64) * rows + row)
                step = tl.cast(chunks, tl.int64) * rows
                tl.store(places, found[0], mask=exists)
                tl.store(places + step, found[1], mask=exists)
                if HOW.kind == "entropy":
                    tl.store(places + 2 * step, found[2], mask=exists)
                if HOW.smooth:
                    tl.store(places + 2 * step, found[3], mask=exists)
            else:
                statistics = _fold(statistics, found, HOW)

    if SPLIT == 1:
        if ENDS:
            statistics = _fold_ends(statistics, z_at_ends, columns, weight, HOW)
        total = tl.cast(length, STATISTICS)
        if HOW.weighted and HOW.smooth:
            total = tl.load(weight_total).to(STATISTICS)
        answers = _finish(statistics, targets, total, length, numbers, HOW)
        _store_statistics((first, second, lse), answers, statistics, row, rows, exists, HOW)
        if y is not None:
            shift, summed = _shift_and_sum(statistics)
            logarithm = tl.log(summed)
            of_row = (exists, row, shift, logarithm, logarithm, logarithm)
            if HOW.kind == "loss":
                gradient_at = dloss
                if not HOW.ones:
                    gradient_at = dloss + row * dloss_stride
                of_row = _factors(
                    shift,
                    1 / summed,
                    answers[2],
                    targets,
                    gradient_at,
                    None,
                    exists,
                    total,
                    length,
                    numbers,
                    HOW,
                )
            # another warp may not have read the target's logit yet, which is now overwritten
            tl.debug_barrier()
            aim = first_vector(y, row, y_row_stride, y_lead, VECTOR, ENDS)[None, :, None]
            _emit_tile(
                aim, pieces, 0, many, y_col_stride, ahead, of_row, weight, numbers, HOW, False
            )
            if ENDS:
                begin = first_element(y, row, y_row_stride, y_lead, VECTOR, ENDS)
                _emit_ends(begin, z_at_ends, columns, of_row, weight, numbers, HOW)


@jit
def _join(
    x: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    weight_total: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    lse: tl.tensor,
    partial: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    chunks: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    lead: tl.tensor,
    ignored: tl.tensor,
    inverse: tl.float64,
    softcap: tl.float64,
    smoothing: tl.float64,
    z_loss: tl.float64,
    HOW: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """Adds the chunks of rows that several programs shared, then continues as `_rows`."""
    VECTOR: tl.constexpr = HOW.vector
    ENDS: tl.constexpr = HOW.ends
    STATISTICS: tl.constexpr = HOW.statistics
    numbers = _numbers(inverse, softcap, smoothing, z_loss, HOW)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    exists = row < rows
    length = cols * (1 if ENDS else VECTOR)
    begin = first_element(x, row, row_stride, lead, VECTOR, ENDS)
    targets = (exists, row, row, row)
    if HOW.kind != "lse":
        targets = _targets(
            begin, col_stride, target, weight, row, exists, length, ignored, numbers, HOW
        )
    statistics = _nothing((ROWS,), HOW)
    zeros = statistics[1]
    step = tl.cast(chunks, tl.int64) * rows
    for chunk in tl.range(chunks, num_stages=1):
        places = partial + (tl.cast(chunk, tl.int64) * rows + row)
        m = tl.load(places, mask=exists, other=float("-inf"))
        s = tl.load(places + step, mask=exists, other=0.0)
        e, t = zeros, zeros
        if HOW.kind == "entropy":
            e = tl.load(places + 2 * step, mask=exists, other=0.0)
        if HOW.smooth:
            t = tl.load(places + 2 * step, mask=exists, other=0.0)
        statistics = _fold(statistics, (m, s, e, t), HOW)
    if ENDS:
        ahead = ahead_of(row, row_stride, lead, VECTOR, ENDS)
        columns = tl.where(exists[None, :], end_columns(length, ahead, VECTOR), -1)
        z = _load_ends(begin, columns, numbers, HOW)
        statistics = _fold_ends(statistics, z, columns, weight, HOW)
    total = tl.cast(length, STATISTICS)
    if HOW.weighted and HOW.smooth:
        total = tl.load(weight_total).to(STATISTICS)
    answers = _finish(statistics, targets, total, length, numbers, HOW)
    _store_statistics((first, second, lse), answers, statistics, row, rows, exists, HOW)


@jit
def _elements(
    x: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    weight_total: tl.tensor,
    lse: tl.tensor,
    sums: tl.tensor,
    dloss: tl.tensor,
    dloss_stride: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    chunks: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    lead: tl.tensor,
    ignored: tl.tensor,
    inverse: tl.float64,
    softcap: tl.float64,
    smoothing: tl.float64,
    z_loss: tl.float64,
    y: tl.tensor,
    y_row_stride: tl.tensor,
    y_col_stride: tl.tensor,
    y_lead: tl.tensor,
    HOW: tl.constexpr,
    ROWS: tl.constexpr,
    MEAN: tl.constexpr,
) -> None:
    VECTOR: tl.constexpr = HOW.vector
    ENDS: tl.constexpr = HOW.ends
    LOADS: tl.constexpr = HOW.loads
    STATISTICS: tl.constexpr = HOW.statistics
    numbers = _numbers(inverse, softcap, smoothing, z_loss, HOW)
    program = tl.program_id(0)
    row = (program // chunks).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    tile = program % chunks
    exists = row < rows
    length = cols * (1 if ENDS else VECTOR)
    ahead = ahead_of(row, row_stride, lead, VECTOR, ENDS)
    vectors = tl.where(exists, whole_vectors(cols, ahead, VECTOR, ENDS), 0)[None, :, None]
    source = first_vector(x, row, row_stride, lead, VECTOR, ENDS)[None, :, None]
    pieces = _load_tile(source, tile, vectors, col_stride, numbers, HOW, True, LOADS)
    if sums is not None:
        shift = tl.load(sums + row, mask=exists, other=0.0)
        summed = tl.load(sums + rows + row, mask=exists, other=1.0)
        logarithm = tl.log(summed)
        over, kept = 1 / summed, shift + logarithm
        of_row = (exists, row, shift, logarithm, logarithm, logarithm)
    else:
        shift = tl.load(lse + row, mask=exists, other=0.0)
        over, kept = 1.0, shift
    common = 1
    A_TILE: tl.constexpr = HOW.lanes * HOW.pieces * VECTOR
    if HOW.kind == "loss":
        targets = _targets(
            None, col_stride, target, weight, row, exists, length, ignored, numbers, HOW
        )
        total = tl.cast(length, STATISTICS)
        if HOW.weighted and HOW.smooth:
            total = tl.load(weight_total).to(STATISTICS)
        gradient_at = dloss
        if not HOW.ones:
            gradient_at = dloss + row * dloss_stride
        mean = None
        if MEAN:
            mean = lse + rows
        of_row = _factors(
            shift, over, kept, targets, gradient_at, mean, exists, total, length, numbers, HOW
        )
        # most tiles have no target, and rows that count: their elements take a third less
        place = targets[1] - ahead - tile * A_TILE
        apart = ((place >= 0) & (place < A_TILE)) | (exists & (targets[0] == 0))
        common = 1 - tl.max(apart.to(tl.int32), 0)
    aim = first_vector(y, row, y_row_stride, y_lead, VECTOR, ENDS)[None, :, None]
    if common == 1:
        _emit_tile(
            aim, pieces, tile, vectors, y_col_stride, ahead, of_row, weight, numbers, HOW, True
        )
    else:
        _emit_tile(
            aim, pieces, tile, vectors, y_col_stride, ahead, of_row, weight, numbers, HOW, False
        )
    if ENDS and tile == 0:  # a branch, so that other tiles skip the masked accesses
        columns = tl.where(exists[None, :], end_columns(length, ahead, VECTOR), -1)
        begin_of_row = first_element(x, row, row_stride, lead, VECTOR, ENDS)
        z = _load_ends(begin_of_row, columns, numbers, HOW)
        begin_of_row = first_element(y, row, y_row_stride, y_lead, VECTOR, ENDS)
        _emit_ends(begin_of_row, z, columns, of_row, weight, numbers, HOW)


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
    SUMMED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    sums = tl.zeros((BLOCK,), tl.float64)
    weights = tl.zeros((BLOCK,), tl.float64)
    for start in tl.range(0, rows, BLOCK, num_stages=1):
        row = tl.cast(start, tl.int64) + tl.arange(0, BLOCK)
        inside = row < rows
        if SUMMED:
            sums += tl.load(loss + row, mask=inside, other=0.0).to(tl.float64)
        if MEAN:
            chosen = tl.load(target + row, mask=inside, other=ignored)
            counts = inside & (chosen != ignored)
            if WEIGHTED:
                valid = counts & (chosen >= 0) & (chosen < cols)
                weights += tl.load(weight + chosen, mask=valid, other=0.0).to(tl.float64)
            else:
                weights += counts.to(tl.float64)
    total = tl.full((), 1.0, tl.float64)
    if SUMMED:
        total = tl.sum(sums, 0)
    if MEAN:
        weight_of_all = tl.sum(weights, 0)
        total = total / weight_of_all
        if kept is not None:
            tl.store(kept + rows, (1.0 / weight_of_all).to(kept.dtype.element_ty))
    if out.dtype.element_ty != tl.float64:
        total = total.to(tl.float32)  # from float64 to bfloat16 at once the interpreter goes wrong
    tl.store(out, total.to(out.dtype.element_ty))
