"""Programmatic dependent launch: programs take their places while the kernel before still ends.

Of two kernels in one stream the second is by default not started before the first has ended and
its writes are seen: about a microsecond in which the memory rests. Launched as a dependent, the
second's programs take the places that the first's leave free, and wait there, `await_previous`,
until all before is done. They touch no memory before, so that nothing but the start is earlier; a
kernel that was no dependent loses nothing by the wait. Within a CUDA graph it is the same.
Source: PTX ISA, ``griddepcontrol`` (sm_90 and up); CUDA C++ Programming Guide, "Programmatic
Dependent Launch and Synchronization".
"""

from __future__ import annotations

from kernels.device import Device
from kernels.language import constant, jit, tl

DEPENDENT_FROM = (9, 0)  # compute capability
# The wait comes first: whoever depends on this kernel may then take for done what was before it
WAIT = constant("griddepcontrol.wait; griddepcontrol.launch_dependents; // $0")


def dependent(device: Device, wanted: bool | None) -> bool:
    """Whether a kernel is launched as a dependent of the one before it.

    Args:
        device: Where it runs.
        wanted: The tunable; None asks for it where the device can.
    """
    can = device.capability is not None and device.capability >= DEPENDENT_FROM
    return can and wanted is not False


def launch_option(depends: bool) -> dict[str, bool]:
    """Triton's option for it; none where it is not asked for: the interpreter knows none."""
    return {"launch_pdl": True} if depends else {}


@jit
def await_previous(DEPENDENT: tl.constexpr) -> None:
    """Waits for all kernels before this one, then lets the next be placed."""
    if DEPENDENT:
        tl.inline_asm_elementwise(WAIT, "=r", [], tl.int32, is_pure=False, pack=1)
