"""How a row is cut into slices, one for each of the programs that share it."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.device import Device
from kernels.language import next_power_of_two
from kernels.occupancy import resident_programs

LEAST_SLICE, LARGEST_SLICE = 1024, 32768
SLICE = 8192  # 64 elements a thread of 4 warps: half of an SM's registers hold slices
RAGGED_SLICE = 16384  # where an address and a mask an element leave room for two programs an SM
LEAST_WARPS = 4  # so that an SM's warps run out before its places for programs
OTHERS = 32  # registers a thread that hold no element
SCRATCH_BYTES = 256  # shared memory of the reductions, generously
MOST_REGISTERS = 255
LEAST_AN_SM = 2  # programs: one loads while another waits


@dataclass(frozen=True)
class Slices:
    """A row's cut.

    Attributes:
        number: Programs a row.
        block: Elements of a slice, a power of two.
        warps: Warps a program.
    """

    number: int
    block: int
    warps: int

    @property
    def slots(self) -> int:
        """Lanes that await a row's words, a power of two."""
        return next_power_of_two(self.number)

    def registers(self, ahead: bool, whole: bool, device: Device) -> int:
        """Registers a thread may have: what its elements need, so that most programs fit.

        Without whole vectors it may have more, as long as the row's programs fit, two an SM.
        """
        if whole:
            return self._needed(ahead)
        an_sm = max(LEAST_AN_SM, -(-self.number // (device.sms or 1)))
        room = (device.registers_per_sm or 0) // (32 * self.warps * an_sm) // 8 * 8
        return max(self._needed(ahead), min(room, MOST_REGISTERS))

    def most_at_once(self, ahead: bool, device: Device) -> int:
        """Programs that the device holds with the registers they need."""
        if self._needed(ahead) > MOST_REGISTERS:
            return 0
        return resident_programs(self._needed(ahead), self.warps, SCRATCH_BYTES, device)

    def _needed(self, ahead: bool) -> int:
        elements = -(-self.block // (32 * self.warps)) * (2 if ahead else 1)
        return -(-(elements + elements // 2 + OTHERS) // 8) * 8  # some are held twice on their way


def slices_of(
    rows: int,
    cols: int,
    device: Device,
    whole: bool,
    ahead: bool,
    block: int | None = None,
    warps: int | None = None,
) -> Slices:
    """The cut of a row of ``cols``.

    Few rows are cut finely, so that their slices cover all SMs; many, or wide ones, coarsely, so
    that few words are exchanged for what is loaded.

    Args:
        rows: Of the matrix, at least one.
        cols: At least one.
        device: A CUDA device.
        whole: Whether rows can be loaded in whole vectors.
        ahead: Whether a program keeps two slices, of this row and of its next.
        block: Elements of a slice; None derives it.
        warps: Warps a program; None derives them.
    """
    sms = device.sms or 1
    if block is None:
        most = SLICE if whole or cols <= SLICE * LEAST_AN_SM * sms else RAGGED_SLICE
        share = next_power_of_two(-(-rows * cols // sms))
        block = min(max(share, LEAST_SLICE), most, next_power_of_two(cols))
    number = -(-cols // block)
    if warps is None:  # a program alone on its SM takes more
        doubled = block >= SLICE and (ahead or not whole or rows * number <= sms)
        warps = 2 * LEAST_WARPS if doubled else LEAST_WARPS
    return Slices(number, block, warps)
