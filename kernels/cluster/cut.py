"""How a row is shared out among the programs and warps of a cluster, and what a card can launch.

A row is a sequence of chunks, tiles [warps of the cluster, 32 lanes × one vector]. So any N works,
and only the last chunk is masked. Rows that are not a whole number of vectors are unaligned: the
chunks then cover the whole vectors within the row, and one warp takes the remaining elements at
both ends, one per lane.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log2
from typing import Annotated, Any, ClassVar, Self

import torch
from typing_extensions import override

from ..device import (
    CLUSTER_PROGRAMS_PER_SM,
    Device,
    device_of,
    known,
    largest_cluster,
    resident_clusters,
    resident_programs,
)
from ..kernel import Kernel, Shape, power_of_two, too_many
from ..language import gl
from ..launch import launch, load_hint, store_hint
from ..vectors import LONGEST
from ..vectors import reading as reading
from .ptx import LANES, SLOT

MANY = 4096  # rows that a cut assumes where no bit may depend on their number
MOST_WARPS = 16  # of a program
SHARED_BYTES = 192 << 10  # a program's part of the row in shared memory, out of the SM's 227 KB

# Penalties of a cut, as fractions of the best cut's time, fitted to all cuts of 50 widths on an
# H200 (docs/lab_book.md).
TOO_FEW_BYTES = 0.055  # no row on chip; in proportion less, up to `ENOUGH_BYTES` for each SM
TOO_FEW_WARPS = 0.033  # no warp; in proportion less, up to the warps that SMs hold
WAITING = 0.027  # all chunks wait in shared memory
OTHER_WARPS = 0.016  # each doubling or halving of `BEST_WARPS`
LAST_WAVE = 0.006  # a last wave of programs that adds a whole wave's time
SPREAD = 0.1  # each halving of `ENOUGH_BYTES_A_THREAD`
ALONE = 0.07  # programs have their SM for themselves: nothing loads while they wait; 1M columns
CROWDED = 0.03  # clusters of 16, a GPC each: some share SMs while others idle; 8×262144
ENOUGH_BYTES = 92 << 10  # of rows, for each SM
ENOUGH_BYTES_A_THREAD = 27
BEST_WARPS = 5


@dataclass(frozen=True)
class OnCluster(Kernel):
    """A variant whose rows are each held by a cluster."""

    backend = "triton"
    place: ClassVar[str] = "registers"  # where a row is held, for messages
    matrices: ClassVar[int] = 1  # whose rows are held
    in_vectors: ClassVar[bool] = False  # whether rows have to be whole vectors

    programs: Annotated[int | None, power_of_two(1, 16)] = None
    num_warps: Annotated[int | None, power_of_two(1, 16)] = None

    def plan(self, shape: Shape, dtype: torch.dtype, width: int, device: Device) -> Cut | None:
        """The cut of a row read by vectors of ``width``; None if it does not fit."""
        asked = self.programs, self.num_warps, self.matrices
        return cut((shape[0], shape[1]), dtype.itemsize, width, device, *asked)

    def for_any_rows(self, cols: int, dtype: torch.dtype, device: Device) -> Self:
        """This variant with the cut of `MANY` rows, whose bits it gives to any number of them."""
        plan = self.plan((MANY, cols), dtype, LONGEST // dtype.itemsize, device)
        return self if plan is None else replace(self, programs=plan.programs, num_warps=plan.warps)

    def launch_rows(
        self,
        function: Any,
        inputs: Sequence[torch.Tensor],
        written: torch.Tensor,
        *more: Any,
        **constants: Any,
    ) -> None:
        """Launches a kernel of the inputs, the matrix written, lengths, more arguments, constants.

        HOW is one of the constants.

        The lengths are those of a row, and of each input its row stride and column stride. They are
        in vectors, or in elements of unaligned rows, but for column strides.

        Raises:
            ValueError: a row does not fit on chip; strided columns fit less.
        """
        x, matrices = inputs[0], (*inputs, written)
        (rows, cols), (width, ends) = x.shape, reading(*matrices)
        plan = self.plan((rows, cols), x.dtype, width, device_of(x))
        if plan is None:
            name = self.operation.name
            raise ValueError(f"{name}: {cols} elements read by {width} do not fit in a cluster")
        unit = 1 if ends else width
        strides = [(each.stride(0) // unit, each.stride(1)) for each in inputs]
        arguments = (*matrices, cols // unit, *strides, *more)
        how = {"HOW": plan.how(x, width, ends)}
        launch(function, (rows,), arguments, how | constants, **plan.options)

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also devices without clusters, and rows that do not fit on chip."""
        most = largest_cluster(device)
        if gl is None or most == 0:
            return "needs thread-block clusters: a CUDA device of sm_90 or newer, and Gluon"
        if 0 in shape:
            return None
        (rows, cols), size = shape, shape[1] * dtype.itemsize
        if self.in_vectors and size % LONGEST != 0:
            return f"takes rows of whole vectors of {LONGEST} bytes, not {size}"
        plan = self.plan(shape, dtype, LONGEST // dtype.itemsize, device)
        if self.programs is not None and self.programs > most:
            asked = f"clusters of {self.programs} programs are asked for"
            return f"{asked}; {device.name} has up to {most}"
        if plan is None:
            held = f"keeps a row in the {self.place} of a cluster"
            return f"{held}; rows of {cols} do not fit on {device.name}"
        return too_many(rows * plan.programs)


# The constants of a launch: see `Cut`, `reading`, `kernels.launch`; even if the last chunk is full
How = namedtuple("How", "chunks shared vector even ends packed loads stores")


@dataclass(frozen=True)
class Cut:
    """A row in chunks: tiles of programs × warps slices, each 32 lanes × one vector."""

    programs: int  # of the cluster
    warps: int  # of a program
    chunk: int  # elements of a chunk
    chunks: int  # the last may extend beyond the row's end
    shared: int  # first chunks that are kept in shared memory; registers hold the others
    packed: bool  # whether 16-bit elements stay packed in registers

    def how(self, x: torch.Tensor, width: int, ends: bool = False) -> How:
        """The constants of a launch on rows like those of ``x``, read by vectors of ``width``."""
        even, hints = x.shape[1] == self.chunks * self.chunk, (load_hint(x), store_hint(x))
        return How(self.chunks, self.shared, width, even, ends, self.packed, *hints)

    @property
    def options(self) -> dict[str, int]:
        """Triton's options for a launch of such clusters."""
        return {"num_warps": self.warps, "num_ctas": self.programs}

    def resident(self, width: int, device: Device, registers: int | None = None) -> int:
        """Programs that the device holds at once, limited by registers and shared memory."""
        if registers is None:  # as Triton compiles
            held = (self.chunks - self.shared) * width
            registers = int(32 + 0.55 * held if self.packed else 17 + 1.1 * held)
            registers = min(registers, known(device.registers_per_sm) // (self.warps * LANES))
        return resident_programs(registers, self.warps, self.shared_bytes, device)

    @property
    def shared_bytes(self) -> int:
        """Shared memory per program: the chunks that wait there and the cluster's slots."""
        slots = SLOT * (self.programs * self.warps + 1)
        return self.shared * self.warps * LANES * LONGEST + slots


@lru_cache(maxsize=4096)
def cut(
    shape: tuple[int, int],
    itemsize: int,
    width: int,
    device: Device,
    programs: int | None = None,
    warps: int | None = None,
    matrices: int = 1,
    waiting: bool = True,
) -> Cut | None:
    """The cheapest cut of the rows of a matrix; None if a row does not fit on chip.

    A cut never has a larger cluster, or more shared memory per program, than the device.

    Args:
        shape: Rows and columns, each at least 1.
        itemsize: Bytes of an element, 2 or 4.
        width: Elements of a vector.
        programs, warps: Of the cluster, and of each program; None takes the cheapest.
        matrices: The number of matrices whose row is held on chip.
        waiting: Whether chunks of one matrix may wait in shared memory.
    """
    waiting = waiting and matrices == 1
    most, room = largest_cluster(device), device.shared_bytes_per_block or SHARED_BYTES
    cuts = [
        fitting
        for some in ([programs] if programs else (1, 2, 4, 8, 16))
        for many in ([warps] if warps else (1, 2, 4, 8, 16))
        if some <= most
        and (fitting := _fitting(shape[1], itemsize, width, some, many, matrices, waiting))
        is not None
        and fitting.shared_bytes <= room
    ]
    if not cuts:
        return None
    size = itemsize * matrices
    return min(cuts, key=lambda one: _cost(one, shape, size, width * matrices, device))


def _fitting(
    cols: int, itemsize: int, width: int, programs: int, warps: int, matrices: int, waiting: bool
) -> Cut | None:
    """The cut of ``cols`` elements for so many programs and warps; None if they do not fit."""
    chunk = programs * warps * LANES * width
    chunks = max(1, -(-(cols // width * width) // chunk))  # of whole vectors
    held = chunks * width * matrices  # elements per thread
    packed = itemsize == 2 and width > 1 and held > 32
    if held <= (128 if packed else 64):
        return Cut(programs, warps, chunk, chunks, 0, packed)
    if width * itemsize < LONGEST or not waiting:
        return None  # only copies of 16 bytes go past L1 into shared memory
    # Of 64 elements in registers some give way, so that they leave room for a third program an SM
    in_registers = 64 // width - (0 if packed else 2 if warps < MOST_WARPS else 8)
    shared = chunks - in_registers
    # Triton asks the driver for more than 48 KB by its own allocation, without the slots
    if 0 <= (48 << 10) - shared * warps * LANES * LONGEST < SLOT * (programs * warps + 1):
        shared += 1
    if shared * warps * LANES * LONGEST > SHARED_BYTES:
        return None
    return Cut(programs, warps, chunk, chunks, shared, packed)


def _cost(one: Cut, shape: tuple[int, int], itemsize: int, width: int, device: Device) -> float:
    """The estimated extra time of a cut, as a fraction of a perfect cut's time."""
    rows, cols = shape
    sms, resident = known(device.sms), one.resident(width, device)
    alone, crowded = resident <= sms, False
    if one.programs > 1:  # an SM holds eight of an empty kernel's programs in clusters
        an_sm = min(resident // sms, CLUSTER_PROGRAMS_PER_SM)
        clusters = resident_clusters(one.programs, device)
        resident = clusters * an_sm // CLUSTER_PROGRAMS_PER_SM
        two_on_an_sm = clusters // CLUSTER_PROGRAMS_PER_SM < rows <= resident
        busy_with_one = cols * itemsize / one.programs > ENOUGH_BYTES / 2
        crowded = one.programs == 16 and two_on_an_sm and busy_with_one
    at_once = min(max(resident, 1), rows)
    on_chip = at_once * cols * itemsize / sms
    busy = at_once * one.programs * one.warps / (sms * known(device.warps_per_sm))
    a_thread = cols * itemsize / (one.programs * one.warps * LANES)
    waves = rows / at_once
    return (
        TOO_FEW_BYTES * max(0.0, 1 - on_chip / ENOUGH_BYTES)
        + TOO_FEW_WARPS * (1 - busy)
        + WAITING * one.shared / one.chunks
        + OTHER_WARPS * abs(log2(one.warps / BEST_WARPS))
        + LAST_WAVE * (ceil(waves) / waves - 1)
        + SPREAD * max(0.0, log2(ENOUGH_BYTES_A_THREAD / a_thread))
        + ALONE * (alone and waves > 1)
        + CROWDED * crowded
    )
