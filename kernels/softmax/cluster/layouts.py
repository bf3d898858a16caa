"""Where the elements of a chunk lie: in which program, and there in which thread or address.

A chunk is a tile [warps of the cluster, 32 lanes × one vector]: see `cut`.
"""

from __future__ import annotations

from kernels.gluon import constexpr_function, gl


@constexpr_function
def _of_cluster(programs: int) -> list[list[int]]:
    """Programs follow each other along a tile's rows; counted in tiles of one program."""
    return [[1 << bit, 0] for bit in range(programs.bit_length() - 1)]


@constexpr_function
def in_registers(width: int, warps: int, programs: int) -> object:
    """A row of the tile a warp, so that a reduction along it stays among the warp's lanes."""
    return gl.BlockedLayout([1, width], [1, 32], [warps, 1], [1, 0], _of_cluster(programs))


@constexpr_function
def in_shared_memory(width: int, programs: int) -> object:
    """A chunk as the asynchronous copies lay it down, a whole vector at a time."""
    return gl.SwizzledSharedLayout(width, 1, 1, [1, 0], _of_cluster(programs))
