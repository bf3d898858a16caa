"""Whether a kernel's answer is always the same, bit for bit: again, and among fewer rows."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.worker.gate import Prints, fingerprints
from experiments.worker.inputs import Inputs
from experiments.worker.timers import Subject
from kernels.device import Device
from kernels.kernel import Kernel, Tensors, as_tuple

CALLS = 5  # beside the first


def judge_determinism(
    kernel: Kernel, subject: Subject, answer: Tensors, device: Device
) -> dict[str, bool | None]:
    """The row's ``deterministic`` and ``batch_invariant``.

    The first is whether further calls on the same inputs answer as the first did. The second is
    whether a row's answer is the same whatever M it comes in: calls on some of the rows, which the
    kernel may cut or launch otherwise, are compared with those rows of the first answer. It is None
    where there are no fewer rows, or the kernel takes none of these shapes.

    Args:
        kernel: The kernel.
        subject: It, prepared for the inputs.
        answer: Of its first call on them, in memory that no further call writes to.
        device: Where they lie.
    """
    first = fingerprints(as_tuple(answer))
    again = []
    for _ in range(CALLS):
        subject.before()
        again.append(fingerprints(as_tuple(subject.call(*subject.inputs))) == first)
    subject.restore()
    fewer = list(_fewer(kernel, subject, answer, device))
    same = all(again) and all(alone == among for alone, among in fewer)
    return {"deterministic": all(again), "batch_invariant": same if fewer else None}


def _fewer(
    kernel: Kernel, subject: Subject, answer: Tensors, device: Device
) -> Iterator[tuple[Prints, Prints]]:
    """Fingerprints of the answers for some rows alone, and for the same rows among all."""
    operation, inputs = kernel.operation, subject.inputs
    for part in slices(as_tuple(answer)[0].shape[0]):
        some = tuple(
            x[part] if operation.rowwise(array) else x
            for array, x in zip(operation.inputs, inputs, strict=True)
        )
        shape, dtype = operation.point_of(some)
        if kernel.unsupported(shape, dtype, device) is None:
            alone: Inputs = tuple(x.clone() for x in some)
            among = fingerprints([y[part].clone() for y in as_tuple(answer)])
            yield fingerprints(as_tuple(kernel.prepare(*alone)(*alone))), among


def slices(rows: int) -> list[slice]:
    """Few rows, and half of them, from the beginning, the end and in between."""
    few, half = min(8, rows - 1), rows // 2
    found = [(0, 1), (rows - few, rows), (rows // 4, rows // 4 + half)]
    return [slice(*one) for one in dict.fromkeys(found) if 0 < one[1] - one[0] < rows]
