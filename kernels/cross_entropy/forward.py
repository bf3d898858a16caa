"""Device code: reads logits, and keeps a running maximum and sum of exponentials of each row.

Shapes: [rows] for a value per row, [lanes, rows] per lane, [lanes, rows, elements of a vector]
per element of a piece of a tile. With this order Triton gives each warp its own rows where a
program has several.
"""

from __future__ import annotations

from collections import namedtuple

from ..language import LOG2E, constant, exp, jit, tl
from ..vectors import end_columns, first_element, first_vector, offsets_of, vectors_of

LEAST = constant(-1e30)  # in place of −inf in a product with 0

# The whole numbers of a launch; `cols` is in vectors, or in elements of unaligned rows
Sizes = namedtuple(
    "Sizes",
    "rows cols chunks ignored dloss_stride row_stride col_stride lead y_row_stride y_col_stride "
    "y_lead",
)
# The rows of a program. First pointers and options, named as in `Call`: of these `y` is the matrix
# to write, `dloss` may be the gradient of the log-probability or of lse, `inverse` is
# 1 / temperature, and `sums` has each row's shift and Σ exp(z − shift) if they are `kept`, then the
# `Statistics` of chunks. Last of each row its number (int64), whether it exists, its elements, and
# those ahead of its first whole vector; `how` is `rows.How`.
Rows = namedtuple(
    "Rows",
    "x target weight weight_sum dentropy of_target entropy lse sums y dloss x_at y_at sizes "
    "inverse softcap smoothing z_loss number exists length ahead how",
)
# A tile: z of each piece, the tile's number in its row, and the number of vectors of each row
Tile = namedtuple("Tile", "pieces number many")
# Elements of rows: their z, their columns, and whether they are elements of the row
Elements = namedtuple("Elements", "z columns inside")

# The targets of rows: whether the row exists and is not ignored, the target's column, its weight
# and its z. Out of range the column is −1, weight and z NaN. Without targets weights are 1.
Target = namedtuple("Target", "counts column weight z")

# Of a part of a row: m = max z, s = Σ exp(z − m), and a further sum: for the entropy
# Σ exp(z − m)·(z − m), for label smoothing Σ w·z
Statistics = namedtuple("Statistics", "m s further")


@jit
def shift_of(m: tl.tensor) -> tl.tensor:
    """The number that exponentials subtract from z: the maximum, or 0 where it is infinite."""
    return tl.where(tl.abs(m) == float("inf"), 0.0, m)


@jit
def product(s: tl.tensor, difference: tl.tensor) -> tl.tensor:
    """s·difference, 0 where s is 0 because the difference is −inf."""
    return s * tl.maximum(difference, LEAST)


@jit
def _tanh(u: tl.tensor) -> tl.tensor:
    # the quotient is ±1 where exp overflows or is 0, and loses the digits of a small u: the series
    SMALL: tl.constexpr = 0.01 if u.dtype == tl.float64 else 0.2
    square = u * u
    series = u * (1 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315))))
    return tl.where(tl.abs(u) < SMALL, series, 1 - 2 / (exp(2 * u) + 1))


@jit
def _z_of(rows: Rows, logits: tl.tensor) -> tl.tensor:
    z = logits.to(rows.how.statistics)
    if rows.how.capped:
        z = rows.softcap * _tanh(z / rows.softcap)
    if rows.how.scaled:
        z *= rows.inverse
    return z


@jit
def load_tile(rows: Rows, tile: tl.tensor, many: tl.tensor, MASKED: tl.constexpr = True) -> Tile:
    """A tile of rows of ``many`` vectors; beyond them z is −∞."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    LOADS: tl.constexpr = rows.how.loads
    source = first_vector(rows.x, rows.x_at, rows.number, rows.how)[None, :, None]
    pieces: tl.tuple = ()
    for piece in tl.static_range(PIECES):
        vector = vectors_of(tile * PIECES + piece, rows.how.cut.lanes)
        places = source + offsets_of(vector, rows.x_at.col_stride, rows.how.vector)
        inside = vector < many
        mask, other = (inside, float("-inf")) if MASKED else (None, None)
        z = _z_of(rows, tl.load(places, mask, other, eviction_policy=LOADS))
        if MASKED and rows.how.capped:
            z = tl.where(inside, z, float("-inf"))
        pieces = pieces + (z,)  # noqa: RUF005, Triton unpacks no tuple
    return Tile(pieces, tile, many)


@jit
def elements_of(rows: Rows, tile: Tile, PIECE: tl.constexpr) -> Elements:
    """The elements of one piece of a tile."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    vector = vectors_of(tile.number * PIECES + PIECE, rows.how.cut.lanes)
    columns = rows.ahead[None, :, None] + offsets_of(vector, 1, rows.how.vector)
    return Elements(tile.pieces[PIECE], columns, vector < tile.many)


@jit
def load_ends(rows: Rows, counts: tl.tensor) -> Elements:
    """The elements before and after the whole vectors of rows that count; column −1 for none."""
    columns = end_columns(rows.length, rows.ahead, rows.how.vector)
    columns = tl.where(counts[None, :], columns, -1)
    begin = first_element(rows.x, rows.x_at, rows.number, rows.how)
    inside = columns >= 0
    value = tl.load(begin[None, :] + columns, mask=inside, other=float("-inf"))
    return Elements(tl.where(inside, _z_of(rows, value), float("-inf")), columns, inside)


@jit
def load_targets(rows: Rows) -> Target:
    """The targets of rows; the step "elements" needs no z."""
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
            z = _z_of(rows, tl.load(place, mask=valid, other=float("nan")))
        column = tl.where(valid, chosen, -1)
    return Target(counts, column, w, z)


# --- statistics ---


@jit
def empty(HOW: tl.constexpr, BY_LANE: tl.constexpr = False) -> Statistics:
    """The statistics of no elements, of each row or of each lane."""
    ROWS: tl.constexpr = HOW.cut.rows
    LANES: tl.constexpr = HOW.cut.lanes
    zeros = tl.zeros((LANES, ROWS) if BY_LANE else (ROWS,), HOW.statistics)
    return Statistics(zeros + float("-inf"), zeros, zeros)


@jit
def add_tile(rows: Rows, lanes: Statistics, tile: Tile) -> Statistics:
    """The statistics of lanes after one tile more."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    highest = tile.pieces[0]
    for piece in tl.static_range(1, PIECES):
        highest = tl.maximum(highest, tile.pieces[piece])
    # Triton's maximum passes over NaN; it comes back through the sum
    m = tl.maximum(lanes.m, tl.max(highest, 2))
    shift = shift_of(m)
    change = lanes.m - shift
    scale = exp(change)
    if rows.how.further == "weighted" and rows.how.statistics == tl.float32:
        s, further = _sums_by_powers_of_two(tile, shift, rows.how)
    else:
        s, further = _sums(rows, tile, shift)
    further = _shifted(lanes, change, scale, rows.how) + further
    return Statistics(m, lanes.s * scale + s, further)


@jit
def _sums(rows: Rows, tile: Tile, shift: tl.tensor) -> tl.tuple:
    """Each lane's Σ exp(z − shift), and further sum, of a tile."""
    PIECES: tl.constexpr = rows.how.cut.pieces
    sums = tl.zeros_like(tile.pieces[0])
    further = sums
    for piece in tl.static_range(PIECES):
        difference = tile.pieces[piece] - shift[:, :, None]
        exponential = exp(difference)
        if rows.how.further == "weighted":
            further += product(exponential, difference)
        sums += exponential
        if rows.how.further == "added":
            further += _weighted(rows, elements_of(rows, tile, piece))
    return tl.sum(sums, 2), tl.sum(further, 2)


@jit
def _sums_by_powers_of_two(tile: Tile, shift: tl.tensor, HOW: tl.constexpr) -> tl.tuple:
    """`_sums` for the entropy in float32: an element takes a fourth less.

    With the float32 number t ≈ shift·log₂e and its error r = shift·log₂e − t, and with the power
    p = z·log₂e − t of each element, rounded once:

        z − shift = (p − r) / log₂e,    exp(z − shift) = 2ᵖ·2⁻ʳ
    """
    PIECES: tl.constexpr = HOW.cut.pieces
    sums = tl.zeros_like(tile.pieces[0])
    further = sums
    t = shift * LOG2E
    for piece in tl.static_range(PIECES):
        power = tl.fma(tile.pieces[piece], LOG2E, -t[:, :, None])
        exponential = tl.exp2(power)
        further = tl.fma(exponential, tl.maximum(power, LEAST), further)
        sums += exponential
    s, further = tl.sum(sums, 2), tl.sum(further, 2)
    r = tl.fma(shift, LOG2E, -t)
    scale = tl.exp2(-r)
    further = (further - r * s) * (scale / LOG2E)
    return s * scale, further


@jit
def _weighted(rows: Rows, of: Elements) -> tl.tensor:
    """w·z of label smoothing."""
    z = tl.where(of.inside, of.z, 0.0)
    if rows.weight is not None:
        z *= tl.load(rows.weight + of.columns, mask=of.inside, other=0.0)
    return z


@jit
def sum_of_weights(rows: Rows) -> tl.tensor:
    """The sum of the weights of all classes."""
    total = rows.length if rows.weight is None else tl.load(rows.weight_sum)
    return tl.cast(total, rows.how.statistics)


@jit
def _shifted(part: Statistics, change: tl.tensor, scale: tl.tensor, HOW: tl.constexpr) -> tl.tensor:
    """The further sum of a part when ``change`` is added to all z − m; ``scale`` is its exp.

    For the entropy Σ exp(z − m + change)·(z − m + change) = (further + change·s)·scale.
    """
    further = part.further
    if HOW.further == "weighted":
        further = (further + product(part.s, change)) * scale
    return further


@jit
def join_lanes(lanes: Statistics, HOW: tl.constexpr) -> Statistics:
    """The statistics of rows from the statistics of their lanes."""
    m = tl.max(lanes.m, 0)
    change = lanes.m - shift_of(m)[None, :]
    scale = exp(change)
    s = tl.sum(lanes.s * scale, 0)
    further = tl.zeros_like(s)
    if HOW.further != "":
        further = tl.sum(_shifted(lanes, change, scale, HOW), 0)
    return Statistics(m, s, further)


@jit
def join_parts(one: Statistics, two: Statistics, HOW: tl.constexpr) -> Statistics:
    """The statistics of two parts of each row together."""
    m = tl.maximum(one.m, two.m)
    shift = shift_of(m)
    change, change2 = one.m - shift, two.m - shift
    scale, scale2 = exp(change), exp(change2)
    further = _shifted(one, change, scale, HOW) + _shifted(two, change2, scale2, HOW)
    return Statistics(m, one.s * scale + two.s * scale2, further)


@jit
def join_ends(rows: Rows, of_row: Statistics, ends: Elements) -> tl.tuple:
    """The statistics of rows with their ends, one element per lane."""
    z, further = ends.z, tl.zeros_like(ends.z)
    if rows.how.further == "added":
        further = _weighted(rows, ends)
    lanes = Statistics(z, exp(z - shift_of(z)), further)
    return join_parts(of_row, join_lanes(lanes, rows.how), rows.how)


@jit
def stream(rows: Rows, vectors: tl.tensor) -> tl.tuple:
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
    of_row = empty(rows.how)
    each = tl.cdiv(rows.sizes.chunks, rows.how.split)
    first = tl.program_id(0) % rows.how.split * each
    last = tl.minimum(first + each, rows.sizes.chunks)
    for chunk in tl.range(first, last, num_stages=1):
        lanes = empty(rows.how, True)
        start = tl.minimum(chunk * rows.how.cut.tiles, tiles)
        end = tl.minimum(start + rows.how.cut.tiles, tiles)
        middle = tl.minimum(tl.maximum(full, start), end)
        if rows.how.cut.rows == 1:
            for tile in tl.range(start, middle, num_stages=1):
                lanes = add_tile(rows, lanes, load_tile(rows, tile, many, False))
        for tile in tl.range(middle, end, num_stages=1):
            lanes = add_tile(rows, lanes, load_tile(rows, tile, many))
        found = join_lanes(lanes, rows.how)
        if rows.how.split > 1:
            places, step = _place_of(rows, chunk)
            for i in tl.static_range(2 + (rows.how.further != "")):
                tl.store(places + i * step, found[i], mask=rows.exists)
        else:
            of_row = join_parts(of_row, found, rows.how)
    return of_row


@jit
def _place_of(rows: Rows, chunk: tl.tensor) -> tl.tuple:
    """Where the first statistic of a chunk of each row is kept, and how far apart they are."""
    line = tl.cast(chunk, tl.int64) + (2 if rows.how.kept else 0)
    places = rows.sums + (line * rows.sizes.rows + rows.number)
    return places, tl.cast(rows.sizes.chunks, tl.int64) * rows.sizes.rows


@jit
def join_chunks(rows: Rows) -> tl.tuple:
    """The statistics of rows from the chunks that several programs kept."""
    of_row = empty(rows.how)
    for chunk in tl.range(rows.sizes.chunks, num_stages=1):
        places, step = _place_of(rows, chunk)
        m = tl.load(places, mask=rows.exists, other=float("-inf"))
        s = tl.load(places + step, mask=rows.exists, other=0.0)
        further = tl.zeros_like(s)
        if rows.how.further != "":
            further = tl.load(places + 2 * step, mask=rows.exists, other=0.0)
        of_row = join_parts(of_row, Statistics(m, s, further), rows.how)
    return of_row


@jit
def store_results(rows: Rows, of_row: Statistics, target: Target) -> None:
    """Writes the results of one number per row."""
    logarithm, row, exists = tl.log(of_row.s), rows.number, rows.exists
    shift = shift_of(of_row.m)
    lse = shift + logarithm
    if rows.how.kind == "numbers":
        tl.store(rows.of_target + row, (target.z - shift) - logarithm, mask=exists)
        tl.store(rows.entropy + row, logarithm - of_row.further / of_row.s, mask=exists)
    if rows.how.kind == "loss":
        # not lse − z, in which a large shift would swallow the logarithm
        loss = target.weight * ((shift - target.z) + logarithm)
        if rows.how.further == "added":
            share, total = rows.smoothing / rows.length, sum_of_weights(rows)
            loss = (1 - rows.smoothing) * loss + share * (total * lse - of_row.further)
        if rows.how.squared:
            loss += rows.z_loss * (lse * lse)
        lse = tl.where(target.counts, lse, 0.0)
        tl.store(rows.of_target + row, tl.where(target.counts, loss, 0.0), mask=exists)
    if rows.how.kept:
        tl.store(rows.sums + row, shift, mask=exists)
        tl.store(rows.sums + rows.sizes.rows + row, of_row.s, mask=exists)
    if rows.lse is not None:
        tl.store(rows.lse + row, lse, mask=exists)
