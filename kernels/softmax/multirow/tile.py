"""How many narrow rows a program of `fused_multirow` takes, and how many lanes load each."""

from __future__ import annotations

from kernels.kernel import Shape
from kernels.language import next_power_of_two

WARP = 32  # lanes
SHORT = 1024  # bytes of a row that takes half a warp
FEW_ROWS = 128  # about the SMs of a large card


def tile(shape: Shape, itemsize: int, rows: int | None, warps: int | None) -> tuple[int, int]:
    """Rows and warps of a program.

    Args:
        shape: Of the matrix.
        itemsize: Bytes of an element.
        rows: Asked for; None takes the rule's.
        warps: Asked for; None takes the rule's.
    """
    block = next_power_of_two(shape[1])
    rows = rows or rows_by_shape(shape[0], block, itemsize)
    short = shape[1] * itemsize <= SHORT
    return rows, warps or warps_by_tile(rows, block, shape[0] <= FEW_ROWS, short)


def rows_by_shape(rows: int, block: int, itemsize: int) -> int:
    """Rows a program, a power of two.

    Args:
        rows: Of the matrix.
        block: Elements of a row, padded to a power of two.
        itemsize: Bytes of an element.
    """
    # Measured on an H200 (docs/lab_book.md): 1024 elements a program, whatever the width, 2048 of
    # 16 bit from 256 columns on. More of them leave too few programs in flight, fewer too many to
    # start. Few rows get one each.
    elements = 2048 if itemsize == 2 and block >= 256 else 1024
    return 1 if rows <= FEW_ROWS else max(1, elements // block)


def warps_by_tile(rows: int, block: int, few: bool = False, short: bool = False) -> int:
    """Warps a program, a power of two: 16 elements a lane, 8 of rows of up to 128 or of few rows.

    Args:
        rows: Of the program.
        block: Elements of a row, padded to a power of two.
        few: Whether the matrix leaves SMs idle; a row is then spread over more warps.
        short: Whether two rows are to share a warp, if the program has as many.
    """
    a_warp = 256 if few or (rows > 1 and block <= 128) else 512
    most = rows // 2 if short and rows > 1 else 8
    return max(1, min(rows * block // a_warp, most, 8))


def lanes_by_tile(rows: int, warps: int, size: int) -> int:
    """Lanes that load a row: whole warps, as many as it has for itself, or half a warp.

    Half a warp reduces a short row in four steps instead of five, two rows at a time.

    Args:
        rows: Of the program.
        warps: Of the program.
        size: Bytes of a row.
    """
    if size <= SHORT and rows >= 2 * warps:
        return WARP // 2
    return WARP * max(1, warps // rows)
