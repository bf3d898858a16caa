"""How `cluster` cuts a row among the warps of its programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

LANES = 32
MOST_PROGRAMS = 16  # of a cluster
MOST_WARPS = 16  # of a program
SHARED_BYTES = 192 << 10  # a program's part of the row in shared memory, out of the SM's 227 KB

# Widest row in bytes, of 16-bit elements and of 32-bit ones, programs of its cluster, warps of a
# program. Measured on an H200 (docs/lab_book.md): small programs, four to eight warps for most
# widths, and as many of them as give each thread 48 to 160 bytes of the row while the cluster can
# grow, so that several programs share an SM and one's stores run beside another's loads.
RULE = (
    (4 << 10, 4 << 10, 1, 1),
    (8 << 10, 8 << 10, 1, 4),
    (12 << 10, 12 << 10, 1, 8),
    (32 << 10, 28 << 10, 2, 8),
    (64 << 10, 64 << 10, 4, 8),
    (160 << 10, 160 << 10, 8, 4),
    (512 << 10, 512 << 10, 16, 4),
    (2 << 20, 2 << 20, 16, 8),
    (4 << 20, 4 << 20, 16, 16),
)
BUSY_WARPS = 16  # warps an SM that keep it busy; fewer rows than give them are spread wider
LEAST_BYTES = 64  # of the row a thread, below which spreading wider gains nothing


@dataclass(frozen=True)
class Cut:
    """A row in chunks: tiles of programs × warps slices, each 32 lanes × one vector.

    Attributes:
        programs: Programs of the cluster.
        warps: Warps a program.
        chunk: Elements of a chunk.
        chunks: Chunks of the row; the last may hang over its end.
        shared: Those that wait in shared memory, the first ones; the others lie in registers.
        packed: Whether 16-bit elements stay packed in registers.
    """

    programs: int
    warps: int
    chunk: int
    chunks: int
    shared: int
    packed: bool


@lru_cache
def cut(
    shape: tuple[int, int],
    itemsize: int,
    width: int,
    sms: int,
    programs: int | None = None,
    warps: int | None = None,
) -> Cut | None:
    """The cut of each row of a matrix, or None where a row does not fit on chip.

    Args:
        shape: Rows and columns, each at least 1.
        itemsize: Bytes of an element, 2 or 4.
        width: Elements of a vector.
        sms: Multiprocessors of the card.
        programs: Of the cluster; None takes the rule's.
        warps: Of a program; None takes the rule's.
    """
    rows, cols = shape
    ruled = _ruled(rows, cols, itemsize, sms)
    programs, warps = programs or ruled[0], warps or ruled[1]
    chunk = programs * warps * LANES * width
    chunks = -(-cols // chunk)
    held = chunks * width  # elements a thread
    packed = itemsize == 2 and width > 1 and held > 32
    if held <= (128 if packed else 64):
        return Cut(programs, warps, chunk, chunks, 0, packed)
    if width * itemsize < 16:
        return None  # only copies of 16 bytes go past L1 into shared memory
    # Of 64 elements in registers some give way, so that they leave room for a third program an SM
    in_registers = 64 // width - (0 if packed else 2 if warps < MOST_WARPS else 8)
    shared = chunks - in_registers
    if shared * warps * LANES * 16 > SHARED_BYTES:
        return None
    return Cut(programs, warps, chunk, chunks, shared, packed)


def _ruled(rows: int, cols: int, itemsize: int, sms: int) -> tuple[int, int]:
    """Programs and warps for rows of ``cols`` elements."""
    size, wide = cols * itemsize, itemsize == 4
    *_, programs, warps = next((line for line in RULE if size <= line[wide]), RULE[-1])
    while (
        rows * programs * warps < BUSY_WARPS * sms
        and size > LEAST_BYTES * LANES * programs * warps
        and (programs < MOST_PROGRAMS or warps < MOST_WARPS)
    ):
        if programs < MOST_PROGRAMS and rows * programs < 2 * sms:
            programs *= 2
        elif warps < MOST_WARPS:
            warps *= 2
        else:
            break
    return programs, warps
