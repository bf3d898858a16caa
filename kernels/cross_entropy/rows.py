"""Cross-entropy of rows of logits, forward, backward, and both in one call: streaming kernels.

A lane keeps a running maximum m of its elements and a sum of exp(z − m), which it rescales once per
tile. So an element costs one exponential, and no thread waits for another within a chunk of tiles.
Lanes are combined at the end of a chunk, and chunks are added in order. The cut of a row follows
from N, the dtype and the row's alignment. Only the number of chunks per program depends on M, and
it changes no bit. A gradient or log-softmax of a row of more than `HELD` elements is written by a
second launch, elementwise. (One launch that reads a row again while L2 may hold it was slower from
32000 to 262144 columns on an H200.) Rows may be unaligned (`kernels.vectors`).
Passes and elements on chip: see `variants`. The target's logit of each row is read twice.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867; the gradient from a kept logsumexp as in
flash-attention's and QuACK's cross-entropy.

This file has the calls, the cut of rows, the launches, and the kernels, which read rows by
`forward` and write a matrix by `gradient`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from typing_extensions import override

from ..device import device_of
from ..kernel import Kernel, Tensors
from ..language import jit, next_power_of_two, tl
from ..launch import launch, load_hint, store_hint, workspace
from ..vectors import At, Layout, ahead_of, first_vector, layout, whole_vectors
from . import forward, gradient
from .forward import Rows, Sizes, Statistics

NARROW = 2048  # columns up to which one warp, or a part of one, reads a row
PER_LANE = 32  # elements of a tile that a lane takes; of narrow rows twice as many
AT_ONCE = 2  # vectors that a lane should have under way: of narrow rows, from several rows
SHORT_VECTOR, MOST_PIECES = 4, 8  # of vectors of fewer elements a lane takes at most so many
CHUNK, MOST_CHUNKS = 8192, 16  # elements of a chunk at least, chunks of a row about at most
HELD = 16384  # columns up to which a program holds a row from its reading to its gradient
HELD_SINGLY = 32 * MOST_PIECES  # the same where a vector is one element
ELEMENTS = 2048  # elements of a tile of the step "elements": 16 a thread, as in copies
ONE_WARP = 192  # vectors up to which there one warp takes a row, if it is narrower than a tile
SKIPPED = 8192  # columns from which on a loss alone waits for the target, to skip ignored rows
PROGRAMS_PER_SM = 8  # wanted; where there are fewer rows, several programs share one
UNFUSED = {"enable_fp_fusion": False}  # or two kernels would round the same sum unlike each other


@dataclass(frozen=True)
class Options:
    """The options of the loss logsumexp(z) − z[target], where z = cap(x) / temperature."""

    ignore_index: int = -100  # rows with this target have loss and gradient 0
    label_smoothing: float = 0.0  # the weight of the mean over all columns in the loss
    softcap: float = 0.0  # c of cap(x) = c·tanh(x / c); 0 for none
    temperature: float = 1.0  # divides the logits
    z_loss: float = 0.0  # factor of lse², which is added to the loss


class Call(NamedTuple):
    """Rows of logits, what else their results follow from, and memory for each wanted result.

    Numbers of rows are (M,) and contiguous, results among them float32 (float64 for float64
    logits); None is not written. A target out of range makes loss, `logprob` and gradient NaN.
    """

    x: torch.Tensor  # (M, N), float16, bfloat16, float32 or float64; any row and column stride
    target: torch.Tensor | None = None  # int64; for a loss or log-probability, or their gradients
    options: Options = Options()  # of the loss; the temperature applies to every result
    weight: torch.Tensor | None = None  # (N,), one weight per class
    # the gradient of the loss, of any floating dtype and stride, or one number; None for ones
    dloss: torch.Tensor | None = None
    mean: bool = False  # whether losses are averaged, see `reduce_losses`
    loss: torch.Tensor | None = None
    logprob: torch.Tensor | None = None  # log p[target]; with `entropy`
    entropy: torch.Tensor | None = None  # −Σ p·log p; not with `loss`
    lse: torch.Tensor | None = None  # logsumexp(z); with a loss 0 for an ignored row
    dlogits: torch.Tensor | None = None  # the gradient, like the logits, or the logits themselves
    y: torch.Tensor | None = None  # log-softmax, like the logits; not with `dlogits`
    # of any stride: the gradient of `logprob`, or without a target of `lse`
    dlogprob: torch.Tensor | None = None
    dentropy: torch.Tensor | None = None  # the gradient of `entropy`
    block_size: int | None = None  # elements of a tile of wide rows; None decides by the width
    num_warps: int | None = None  # warps per program; None decides by the width
    weight_sum: torch.Tensor | None = None  # `run` fills it in, for smoothing

    @property
    def kind(self) -> str:
        """``"loss"``, ``"numbers"`` (log-probability, entropy), or ``"lse"`` (also log-softmax)."""
        if any(each is not None for each in (self.entropy, self.dlogprob, self.dentropy)):
            return "numbers"
        return "lse" if self.loss is None and self.dlogits is None else "loss"

    @property
    def further(self) -> str:
        """How parts of the further sum of `Statistics` join: added, weighted by exp, or not."""
        if self.kind == "loss" and self.options.label_smoothing:
            return "added"
        return "weighted" if self.kind == "numbers" else ""

    @property
    def known(self) -> bool:
        """Whether ``lse``, and with ``dentropy`` ``entropy``, are known: a gradient by itself."""
        return self.dlogits is not None and self.loss is None

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

    Where rows of a gradient by itself are aligned differently from the rows of the logits, both
    move by shorter vectors.
    """
    if call.weight is not None and call.options.label_smoothing:
        call = call._replace(weight_sum=call.weight.sum(dtype=torch.float64))
    x, y, (rows, cols) = call.x, call.matrix, call.x.shape
    if call.known:
        return _elementwise(call, None) if x.numel() > 0 else None
    if x.numel() == 0:  # no columns: the result of PyTorch
        nothing = (call.lse, float("-inf")), (call.of_target, float("nan")), (call.entropy, 0.0)
        for result, value in nothing:
            if result is not None:
                result.fill_(value)
        return None
    plan = layout(x) if y is None else layout(x, y)
    held = y is not None and cols <= (HELD if plan.vector > 1 else HELD_SINGLY)
    kept, read = y is not None and not held, call
    if kept:  # the matrix is written by a second launch
        plan, read = layout(x), call._replace(dloss=None, dlogits=None, y=None)
    parts = cut(cols, plan.vector, held, call.block_size, call.num_warps)
    split = 1
    if not held:  # programs that share a row, a power of two
        wanted = next_power_of_two(PROGRAMS_PER_SM * (device_of(x).sms or 0) // rows)
        split = min(wanted, next_power_of_two(parts.chunks + 1) // 2)
    sums, numbers = None, 2 * kept + (split > 1) * parts.chunks * (2 + bool(call.further))
    if numbers:
        sums = workspace((numbers, rows), torch.promote_types(x.dtype, torch.float32), x.device)
    whole = held or cols // plan.vector <= parts.lanes * parts.pieces
    skip = call.kind == "loss" and cols >= SKIPPED and not held
    how = How("rows", split=split, skip=skip, whole=whole, kept=kept)
    _launch(how, read, plan, parts, sums)
    if split > 1:
        of_a_warp = replace(parts, rows=32, warps=1)
        _launch(How("join", kept=kept), read, plan, of_a_warp, sums)
    if kept:
        _elementwise(call._replace(loss=None, lse=None), sums)
    return None


def reduce_losses(call: Call, out: torch.Tensor) -> None:
    """Writes the sum of all losses into ``out``, one number; always adds in the same order.

    For the mean it divides by Σ weight[target] over the rows that are not ignored (NaN if there is
    none) and writes the inverse of that sum into ``lse[M]``, if there is ``lse``: the known
    gradient is multiplied by it. Without a loss the sum is 1.
    """
    target, weight = call.target, call.weight
    cols = 0 if weight is None else weight.numel()
    launch(
        _reduce,
        (1,),
        (call.loss, target, weight, out, call.lse, len(call.x), cols, call.options.ignore_index),
        {"MEAN": call.mean, "BLOCK": 4096},
        num_warps=16,
    )


# --- launching ---


@dataclass(frozen=True)
class Cut:
    """The cut of rows: a row into chunks, a chunk into tiles, a tile into vectors of lanes."""

    rows: int  # of a program
    lanes: int  # of a row
    pieces: int  # of a tile: one vector of each lane
    tiles: int  # of a chunk
    chunks: int  # of a row
    warps: int  # of a program


def cut(cols: int, vector: int, held: bool, block_size: int | None, num_warps: int | None) -> Cut:
    """The cut of rows of ``cols`` elements, read by vectors of ``vector``; for any M.

    If a row is to be ``held``, a tile is a whole row. ``block_size`` is the requested elements of a
    tile, ``num_warps`` the requested warps of a program; None lets the width decide.
    """
    vectors = max(cols // vector, 1)
    if cols <= NARROW:
        warps, per_lane = num_warps or 4, 2 * PER_LANE
        lanes = min(32, next_power_of_two(vectors))
    else:
        warps = num_warps or (next_power_of_two(cols) // (32 * PER_LANE) if held else 4)
        lanes = 32 * warps
        per_lane = block_size // lanes if block_size else PER_LANE
    needed, most = -(-vectors // lanes), max(1, per_lane // vector)  # vectors of a lane
    if vector < SHORT_VECTOR:
        most = min(most, MOST_PIECES)
    pieces = needed if held else min(most, needed)
    a_tile = lanes * pieces  # vectors
    a_chunk = max(CHUNK, next_power_of_two(cols) // MOST_CHUNKS) // vector
    tiles = max(1, a_chunk // a_tile)
    chunks = -(-vectors // (a_tile * tiles))
    rows = 32 * warps // lanes
    if a_tile >= vectors and not held and cols <= NARROW:
        rows *= max(1, AT_ONCE // pieces)
    return Cut(rows, lanes, pieces, tiles, chunks, warps)


def _elementwise(call: Call, sums: torch.Tensor | None) -> None:
    """Writes a call's matrix, a tile a program, from each row's sums, or else its ``lse``."""
    x, y, block = call.x, call.matrix, call.block_size or ELEMENTS
    assert y is not None
    plan, warps, cols = layout(x, y), call.num_warps or 4, x.shape[1]
    vectors, chunks = max(cols // plan.vector, 1), -(-cols // block)
    a_warp = cols < block and vectors <= ONE_WARP
    lanes = min(32 if a_warp else 32 * warps, next_power_of_two(vectors))
    pieces = max(1, min(block // (lanes * plan.vector), -(-vectors // lanes)))
    parts = Cut(32 * warps // lanes, lanes, pieces, 1, chunks, warps)
    kept = sums is not None
    how = How("elements", split=chunks, mean=call.mean and not kept, kept=kept)
    _launch(how, call, plan, parts, sums)


class How(NamedTuple):
    """The constants of a kernel; `_launch` fills in all behind ``mean``."""

    step: str  # "rows", "join" of rows that programs shared, or "elements"
    split: int = 1  # programs that share a row
    skip: bool = False  # whether rows that do not count are not read
    whole: bool = False  # whether a tile holds a whole row
    kept: bool = False  # whether `sums` has each row's shift and Σ, for the step "elements"
    mean: bool = False  # whether lse[M] multiplies the gradient
    kind: str = ""  # see `Call`
    further: str = ""
    statistics: Any = None  # a dtype
    vector: int = 1  # see `kernels.vectors.Layout`
    ends: bool = False
    cut: Any = None  # `Cut`
    capped: bool = False  # whether there is a softcap
    scaled: bool = False  # a temperature
    squared: bool = False  # a z-loss
    loads: str = ""  # eviction hints
    stores: str = ""


def _launch(how: How, call: Call, plan: Layout, parts: Cut, sums: torch.Tensor | None) -> None:
    x, options = call.x, call.options
    bases, (x_at, y_at, *_) = (*plan.bases, None), (*plan.places, At(0, 1, 0))
    d = call.dloss if call.dlogprob is None else call.dlogprob
    either = call.weight_sum if call.kind == "loss" else call.dentropy
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
    sizes = Sizes(len(x), plan.cols, parts.chunks, options.ignore_index, d_stride, *x_at, *y_at)
    launch(
        _streaming_rows,
        (-(-len(x) // parts.rows) * how.split,),
        (
            *(bases[0], call.target, call.weight, either, call.of_target, call.entropy),
            *(call.lse, sums, bases[1], d, sizes),
            *(1 / options.temperature, options.softcap, options.label_smoothing, options.z_loss),
        ),
        {"HOW": how},
        num_warps=parts.warps,
        **UNFUSED,
    )


# --- the kernels ---


@jit
def _streaming_rows(
    x: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    either: tl.tensor,  # of a loss weight_sum, else dentropy
    of_target: tl.tensor,
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
    block = tl.program_id(0) // (sizes.chunks if HOW.step == "elements" else HOW.split)
    row = block.to(tl.int64) * HOW.cut.rows + tl.arange(0, HOW.cut.rows)
    x_at = At(sizes.row_stride, sizes.col_stride, sizes.lead)
    weight_sum, dentropy = (either, None) if HOW.kind == "loss" else (None, either)
    # not assigned to a name, which would make a tensor of HOW
    (_elements if HOW.step == "elements" else _rows)(
        Rows(
            *(x, target, weight, weight_sum, dentropy),
            *(of_target, entropy, lse, sums, y, dloss, x_at),
            *(At(sizes.y_row_stride, sizes.y_col_stride, sizes.y_lead), sizes),
            tl.full((), inverse, tl.float64).to(HOW.statistics),
            tl.full((), softcap, tl.float64).to(HOW.statistics),
            tl.full((), smoothing, tl.float64).to(HOW.statistics),
            tl.full((), z_loss, tl.float64).to(HOW.statistics),
            *(row, row < sizes.rows, sizes.cols * (1 if HOW.ends else HOW.vector)),
            *(ahead_of(x_at, row, HOW), HOW),
        )
    )


@jit
def _rows(rows: Rows) -> None:
    """Reads rows, and writes what follows from their statistics unless programs share them."""
    counted = rows.exists
    if rows.how.skip:
        target = forward.load_targets(rows)
        counted = target.counts
    vectors = tl.where(counted, whole_vectors(rows.sizes.cols, rows.ahead, rows.how), 0)
    if rows.how.ends and rows.how.split == 1 and rows.how.step == "rows":
        ends = forward.load_ends(rows, counted)
    many = vectors[None, :, None]
    if rows.how.whole:  # all of the row is on its way before a target is waited for
        tile = forward.load_tile(rows, 0, many)
    if not rows.how.skip:
        target = forward.load_targets(rows)
    if rows.how.whole:
        lanes = forward.add_tile(rows, forward.empty(rows.how, True), tile)
        of_row = forward.join_lanes(lanes, rows.how)
    elif rows.how.step == "join":
        of_row = forward.join_chunks(rows)
    else:
        of_row = forward.stream(rows, vectors)
    if rows.how.split == 1:
        if rows.how.ends:
            if rows.how.step == "join":
                ends = forward.load_ends(rows, rows.exists)
            of_row = forward.join_ends(rows, of_row, ends)
        if rows.how.kind == "loss" or rows.how.kept or rows.y is not None:
            # +inf − inf, as in PyTorch
            summed = tl.where(of_row.m == float("inf"), float("nan"), of_row.s)
            of_row = Statistics(of_row.m, summed, of_row.further)
        forward.store_results(rows, of_row, target)
        if rows.y is not None:
            factors = gradient.factors_of(rows, target, forward.shift_of(of_row.m), of_row.s)
            # another warp may not have read the target's logit yet, which is now overwritten
            tl.debug_barrier()
            aim = first_vector(rows.y, rows.y_at, rows.number, rows.how)[None, :, None]
            gradient.store_tile(rows, aim, factors, tile)
            if rows.how.ends:
                gradient.store_ends(rows, factors, ends)


@jit
def _elements(rows: Rows) -> None:
    """Writes a tile of the gradient, or of log-softmax, from what is known of its rows."""
    number, sizes, exists = tl.program_id(0) % rows.sizes.chunks, rows.sizes, rows.exists
    many = tl.where(exists, whole_vectors(sizes.cols, rows.ahead, rows.how), 0)[None, :, None]
    tile = forward.load_tile(rows, number, many)
    summed = None
    if rows.how.kept:
        shift = tl.load(rows.sums + rows.number, mask=exists, other=0.0)
        summed = tl.load(rows.sums + sizes.rows + rows.number, mask=exists, other=1.0)
    else:
        shift = tl.load(rows.lse + rows.number, mask=exists, other=0.0)
    target = forward.load_targets(rows)
    factors = gradient.factors_of(rows, target, shift, summed)
    common = 1
    if rows.target is not None:
        # most tiles have no target, and rows that count: their elements take a third less
        A_TILE: tl.constexpr = rows.how.cut.lanes * rows.how.cut.pieces * rows.how.vector
        place = target.column - rows.ahead - number * A_TILE
        apart = ((place >= 0) & (place < A_TILE)) | (exists & (target.counts == 0))
        common = 1 - tl.max(apart.to(tl.int32), 0)
    aim = first_vector(rows.y, rows.y_at, rows.number, rows.how)[None, :, None]
    if common == 1:
        gradient.store_tile(rows, aim, factors, tile, True)
    else:
        gradient.store_tile(rows, aim, factors, tile)
    if rows.how.ends and number == 0:  # a branch, so that other tiles skip the masked accesses
        gradient.store_ends(rows, factors, forward.load_ends(rows, exists))


@jit
def _reduce(
    loss: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    lse: tl.tensor,
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
        if lse is not None:
            tl.store(lse + rows, (1.0 / weight_of_all).to(lse.dtype.element_ty))
    if out.dtype.element_ty != tl.float64:
        total = total.to(tl.float32)  # from float64 to bfloat16 at once the interpreter goes wrong
    tl.store(out, total.to(out.dtype.element_ty))
