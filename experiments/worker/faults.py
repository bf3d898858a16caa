"""What went wrong, as a row tells it: a status and one line."""

from __future__ import annotations

import torch

from experiments.worker.timers.sampling import CannotTime
from kernels.kernel import NotCompiled

COMPILERS = (
    *("triton.compiler", "triton.runtime.errors"),
    *("torch._dynamo", "torch._inductor", "cutlass"),
)


def status_of(error: Exception) -> str:
    """The row status that an error amounts to."""
    if isinstance(error, CannotTime):
        return "unsupported"
    text = str(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text:
        return "out_of_memory"
    from_compiler = type(error).__module__.startswith(COMPILERS)
    return "compile_error" if from_compiler or isinstance(error, NotCompiled) else "launch_error"


def context_is_lost() -> bool:
    """Whether the CUDA context is lost, as after an illegal access: every later call would fail."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False
