"""Tiles: BLOCK elements of each of WIDTH neighbouring lines, which a program holds at a time.

So memory is read in whole sectors whether a line's own elements are neighbours (inner = 1) or its
neighbours' are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels.language import next_power_of_two
from kernels.launch import launch
from kernels.lines.lines import lines

SECTORS = 128  # bytes of neighbouring lines that a tile takes together: a line of the cache


@dataclass(frozen=True)
class Tile:
    """Elements of a line, neighbouring lines, and warps of a program."""

    block: int
    width: int
    warps: int

    @classmethod
    def for_lines(cls, count: int, cols: int, neighbours: bool, itemsize: int, most: int) -> Tile:
        """A tile that is as much of a line as ``most`` allows.

        Args:
            count: Lines in all.
            cols: Elements of a line.
            neighbours: Whether the elements of a line lie side by side, and not those of different
                lines.
            itemsize: Bytes of an element.
            most: Elements of a tile.
        """
        block = next_power_of_two(cols)
        least = 1 if neighbours else SECTORS // itemsize
        width = max(least, min(2048, most) // block)  # narrow lines: several a program
        width = min(width, next_power_of_two(count))
        block = max(min(block, most // width), 1)
        return cls(block, width, min(max(block * width // 512, 4), 32))


def launch_tiles(
    function: Any,
    tensors: Sequence[torch.Tensor],
    dim: int,
    temperature: float,
    statistics: Any,
    most: int,
    num_warps: int | None = None,
) -> None:
    """Launches a kernel on all lines of its tensors, a program for each tile's width of them.

    Args:
        function: A kernel of the tensors, the count of lines, ``cols``, ``inner``, the three
            strides of each tensor, the inverse of the temperature, and the constants BLOCK, WIDTH,
            WHOLE (a tile holds whole lines) and STATISTICS.
        tensors: What it reads, then what it writes. All have the same shape, at least one dimension
            and one element, and lines along ``dim``.
        dim: The dimension along which lines run, not negative.
        temperature: Positive.
        statistics: Triton's name for the dtype it computes in.
        most: Elements of a tile.
        num_warps: Warps a program; None takes the tile's.
    """
    found = [lines(tensor.shape, tensor.stride(), dim) for tensor in tensors]
    each = [one for one in found if one is not None]
    assert len(each) == len(tensors)
    first = each[0]
    itemsize = max(tensors[0].element_size(), tensors[-1].element_size())
    tile = Tile.for_lines(first.count, first.cols, first.strides[1] == 1, itemsize, most)
    strides = [stride for one in each for stride in one.strides]
    launch(
        function,
        (-(-first.count // tile.width),),
        (*tensors, first.count, first.cols, first.inner, *strides, 1 / temperature),
        {
            "BLOCK": tile.block,
            "WIDTH": tile.width,
            "WHOLE": tile.block >= first.cols,
            "STATISTICS": statistics,
        },
        num_warps=num_warps or tile.warps,
    )
