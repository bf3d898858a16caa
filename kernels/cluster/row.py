"""The device code that kernels of a row on a cluster share, in Gluon.

A kernel opens the slots of the row's messages, loads its `Row` chunk by chunk, takes the statistics
of each slice, exchanges them, and stores. Lengths are in vectors, so that the compiler knows that
they are multiples; with ENDS, for unaligned rows, they are in elements.
"""

from __future__ import annotations

from ..language import aggregate, async_copy, barrier, constexpr_function, gl, gluon_jit
from .ptx import normalizer, open_slots, row_of, totals


@constexpr_function
def _of_cluster(programs: int) -> list[list[int]]:
    """The layout of programs along the rows of a tile, in tiles of one program."""
    return [[1 << bit, 0] for bit in range(programs.bit_length() - 1)]


@constexpr_function
def in_registers(width: int, warps: int, programs: int, lanes: int = 32) -> object:
    """The register layout with a row in so many lanes of a warp: its reduction stays there."""
    of_warp = [32 // lanes, lanes]
    return gl.BlockedLayout([1, width], of_warp, [warps, 1], [1, 0], _of_cluster(programs))


@constexpr_function
def in_shared_memory(width: int, programs: int) -> object:
    """The shared layout of a chunk for asynchronous copies of whole vectors."""
    return gl.SwizzledSharedLayout(width, 1, 1, [1, 0], _of_cluster(programs))


@aggregate
class Row:
    """The places of a row's elements: chunks of tiles [slices, lanes × vector]."""

    columns: gl.tensor  # of the first chunk, int64
    vectors: gl.tensor  # of the row, or of each slice's row
    CHUNKS: gl.constexpr  # of the row
    CHUNK: gl.constexpr  # elements of a chunk
    VECTOR: gl.constexpr  # elements of a vector
    FULL: gl.constexpr  # first chunks of which the row has all vectors; the others may lack some

    @constexpr_function
    def __init__(self, columns, vectors, CHUNKS, CHUNK, VECTOR, FULL):  # type: ignore[no-untyped-def]
        self.columns, self.vectors = columns, vectors
        self.CHUNKS, self.CHUNK = gl.constexpr(CHUNKS), gl.constexpr(CHUNK)
        self.VECTOR, self.FULL = gl.constexpr(VECTOR), gl.constexpr(FULL)

    @gluon_jit
    def inside(self, i: gl.constexpr):  # type: ignore[no-untyped-def]
        """Which elements of chunk ``i`` are in the row's vectors."""
        return (self.columns + i * self.CHUNK) // self.VECTOR < self.vectors

    @gluon_jit
    def load(  # type: ignore[no-untyped-def]
        self, source, stride, FIRST: gl.constexpr, OTHER: gl.constexpr, LOADS: gl.constexpr
    ):
        """The chunks from FIRST on of the row at ``source``; OTHER beyond its last vector."""
        CACHE: gl.constexpr = ".cg" if LOADS == "" else ""  # PTX takes one or the other
        values = ()  # type: tuple[gl.tensor, ...]
        for i in gl.static_range(FIRST, self.CHUNKS):
            place = source + (self.columns + i * self.CHUNK) * stride
            mask = self.inside(i) if i >= self.FULL else None
            other = None if mask is None else OTHER
            values += (gl.load(place, mask, other, cache_modifier=CACHE, eviction_policy=LOADS),)
        return values

    @gluon_jit
    def wait(self, source, stride, WAITING: gl.constexpr):  # type: ignore[no-untyped-def]
        """The first chunks of the row at ``source``, on their way to shared memory."""
        shape: gl.constexpr = [WAITING, self.columns.shape[0], self.columns.shape[1]]
        held: gl.constexpr = in_shared_memory(self.VECTOR, gl.num_ctas())
        waiting = gl.allocate_shared_memory(source.dtype.element_ty, shape, held)
        for i in gl.static_range(WAITING):
            place = source + (self.columns + i * self.CHUNK) * stride
            async_copy.async_copy_global_to_shared(waiting.index(i), place, cache_modifier=".cg")
        return waiting

    @gluon_jit
    def store(self, target, stride, i: gl.constexpr, value, STORES: gl.constexpr):  # type: ignore[no-untyped-def]
        """Writes chunk ``i`` of the row at ``target``, rounded to its dtype."""
        place = target + (self.columns + i * self.CHUNK) * stride
        value = value.to(target.dtype.element_ty)
        mask = self.inside(i) if i >= self.FULL else None
        gl.store(place, value, mask, eviction_policy=STORES)


@gluon_jit
def whole_row(vectors, CHUNKS: gl.constexpr, VECTOR: gl.constexpr, EVEN: gl.constexpr):  # type: ignore[no-untyped-def]
    """The places of a row of so many whole vectors, cut into a slice for each warp."""
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    WIDTH: gl.constexpr = 32 * VECTOR
    layout: gl.constexpr = in_registers(VECTOR, gl.num_warps(), gl.num_ctas())
    slice_ = gl.arange(0, SLICES, gl.SliceLayout(1, layout))
    within = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
    columns = (slice_[:, None] * WIDTH + within[None, :]).to(gl.int64)
    FULL: gl.constexpr = CHUNKS if EVEN else CHUNKS - 1
    return Row(columns, gl.cast(vectors, gl.int32), CHUNKS, SLICES * WIDTH, VECTOR, FULL)


@gluon_jit
def slots_of(MESSAGES: gl.constexpr):  # type: ignore[no-untyped-def]
    """The address of this row's slots, for so many messages of each warp."""
    PTX: gl.constexpr = open_slots(gl.num_ctas(), gl.num_warps(), MESSAGES)
    return gl.inline_asm_elementwise(PTX, "=r", [], gl.int32, is_pure=False, pack=1)


@gluon_jit
def row_number():  # type: ignore[no-untyped-def]
    """The row of this program's cluster, int32."""
    PTX: gl.constexpr = row_of(gl.num_ctas())
    return gl.inline_asm_elementwise(PTX, "=r", [], gl.int32, is_pure=True, pack=1)


@constexpr_function
def _operands(count: int) -> str:
    return "=f," * count + "f," * count + "r"


@gluon_jit
def _exchanged(PTX: gl.constexpr, values, slots):  # type: ignore[no-untyped-def]
    """As many numbers of the row as each slice has, by PTX of these and the slots' address."""
    COUNT: gl.constexpr = len(values)
    return gl.inline_asm_elementwise(
        PTX,
        _operands(COUNT),
        values + (slots,),  # noqa: RUF005, Triton unpacks no tuple
        (gl.float32,) * COUNT,
        is_pure=False,
        pack=1,
    )


@gluon_jit
def row_of_slices(values, slots, FURTHER: gl.constexpr, LATE: gl.constexpr = True):  # type: ignore[no-untyped-def]
    """The row's statistics, or two rows', from each slice's ``values``: see `ptx.normalizer`."""
    COUNT: gl.constexpr = len(values)
    PTX: gl.constexpr = normalizer(gl.num_ctas(), gl.num_warps(), COUNT, FURTHER, LATE)
    return _exchanged(PTX, values, slots)


@gluon_jit
def totals_of(sums, slots):  # type: ignore[no-untyped-def]
    """The row's sums from each slice's, one or two, in one message."""
    COUNT: gl.constexpr = len(sums)
    PTX: gl.constexpr = totals(gl.num_ctas(), gl.num_warps(), COUNT)
    return _exchanged(PTX, sums, slots)


@gluon_jit
def distinct(value, PACKED: gl.constexpr):  # type: ignore[no-untyped-def]
    """The same values, but the compiler must unpack packed ones again.

    Kept unpacked between two passes they would take twice the registers.
    """
    if PACKED:
        value = gl.inline_asm_elementwise(
            "mov.b32 $0, $1;", "=r,r", [value], value.dtype, is_pure=False, pack=2
        )
    return value


@gluon_jit
def unpacked(value, PACKED: gl.constexpr):  # type: ignore[no-untyped-def]
    """The same in float32; of packed bfloat16 by one instruction each, not three for two."""
    if PACKED and value.dtype == gl.bfloat16:
        PTX: gl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        return gl.inline_asm_elementwise(PTX, "=r,=r,r", [value], gl.float32, is_pure=False, pack=2)
    return distinct(value, PACKED).to(gl.float32)


@gluon_jit
def by_lane(value, single: gl.constexpr):  # type: ignore[no-untyped-def]
    """A slice's value for each of its lanes."""
    return gl.convert_layout(value, gl.SliceLayout(1, single))[:, None]


@gluon_jit
def row_at(pointer, row, stride, VECTOR: gl.constexpr, ENDS: gl.constexpr):  # type: ignore[no-untyped-def]
    """Pointers to the first element of a row, and to the first vector within it."""
    if ENDS:
        begin = row * gl.cast(stride, gl.int64)
        first = pointer + begin
        within = pointer + (begin + VECTOR - 1) // VECTOR * VECTOR
    else:  # a length of 1 is made a constant, which has no dtype to change
        first = pointer + row * (gl.cast(stride, gl.int64) * VECTOR)
        within = first
    return first, within


@gluon_jit
def ends_of(row, stride, cols, VECTOR: gl.constexpr, single: gl.constexpr):  # type: ignore[no-untyped-def]
    """The elements before and after the whole vectors of a row, and the number of vectors.

    Returns:
        Each lane's column, whether the lane has one, the number of vectors, and the number of
        elements ahead of them. In the first slice's warp, lanes 0 to 15 take the elements ahead,
        lanes 16 to 31 the elements behind.
    """
    SLICES: gl.constexpr = gl.num_ctas() * gl.num_warps()
    begin = row * gl.cast(stride, gl.int64)
    ahead = ((begin + VECTOR - 1) // VECTOR * VECTOR - begin).to(gl.int32)
    behind = (cols - ahead) % VECTOR
    lane = gl.arange(0, 32, gl.SliceLayout(0, single))
    end = gl.where(lane < 16, lane, cols - behind - 16 + lane)
    at_end = gl.where(lane < 16, lane < ahead, lane < 16 + behind)
    at_end = (gl.arange(0, SLICES, gl.SliceLayout(1, single)) == 0)[:, None] & at_end[None, :]
    end = end[None, :] + gl.zeros([SLICES, 32], gl.int32, single)
    return end, at_end, (cols - ahead) // VECTOR, ahead


@gluon_jit
def highest_of(held, waiting, SHARED: gl.constexpr, TOGETHER: gl.constexpr, WAIT: gl.constexpr):  # type: ignore[no-untyped-def]
    """Each place's greatest element of the chunks in registers and of those in shared memory.

    TOGETHER of these are read at once; with WAIT they are waited for between the two.
    """
    highest = held[0].to(gl.float32)
    for i in gl.static_range(1, len(held)):
        highest = gl.maximum(highest, held[i].to(gl.float32))
    if SHARED > 0:
        if WAIT:
            async_copy.wait_group(0)
            barrier()
        for i in range(0, SHARED, TOGETHER):
            for j in gl.static_range(TOGETHER):
                value = waiting.index(i + j).load(highest.type.layout)
                highest = gl.maximum(highest, value.to(gl.float32))
    return highest


@gluon_jit
def of_slices(values, at_end, VECTOR: gl.constexpr, reduce: gl.constexpr):  # type: ignore[no-untyped-def]
    """The maximum or sum of each slice: of its tile, and of its lanes' elements at a row's ends.

    ``reduce`` is `gl.max` or `gl.sum`.
    """
    if at_end is None:
        result = reduce(values, axis=1)
    else:
        single: gl.constexpr = at_end.type.layout
        tile: gl.constexpr = values.type.layout
        lanes = of_lanes(values, VECTOR, single, reduce)
        lanes = gl.maximum(lanes, at_end) if reduce == gl.max else lanes + at_end
        result = of_lanes_joined(lanes, tile, reduce)
    return result


@gluon_jit
def of_lanes(values, VECTOR: gl.constexpr, single: gl.constexpr, reduce: gl.constexpr):  # type: ignore[no-untyped-def]
    """The maximum or sum of each lane's elements of a tile, fewer registers than the tile's."""
    lanes = reduce(gl.reshape(values, [values.shape[0], 32, VECTOR]), axis=2)
    return gl.convert_layout(lanes, single, assert_trivial=True)


@gluon_jit
def of_lanes_joined(lanes, tile: gl.constexpr, reduce: gl.constexpr):  # type: ignore[no-untyped-def]
    """The maximum or sum of each slice from its lanes', for tiles of the layout ``tile``."""
    return gl.convert_layout(reduce(lanes, axis=1), gl.SliceLayout(1, tile))
