"""One call of one point inside a profiler range, after one warm call outside of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from experiments.child import one_line
from experiments.worker.describe import build_kernel, torch_dtype
from experiments.worker.faults import context_is_lost, status_of


@contextmanager
def profiler_range(name: str) -> Iterator[None]:
    """An NVTX range of this name, with a profiler that waits for ``cudaProfilerStart`` on inside.

    Nothing launched before it is still running when it begins, nor anything of it when it ends.
    """
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(name)
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        torch.cuda.nvtx.range_pop()


def profile(
    point: dict[str, Any],
    device: str,
    within: Callable[[str], AbstractContextManager[None]] = profiler_range,
) -> dict[str, Any]:
    """Calls a point's kernel twice, the second time inside a range; errors become a status.

    Args:
        point: ``kernel`` (configuration), ``rows``, ``cols``, ``dtype``, ``seed``, ``range``.
        device: As torch names it.
        within: What to make of the range's name.

    Returns:
        ``status`` and ``reason`` as a row's, and ``sticky`` where the CUDA context is lost.
    """
    outcome: dict[str, Any] = {"status": "ok", "reason": None}
    try:
        _two_calls(point, device, within)
    except Exception as error:
        outcome = {"status": status_of(error), "reason": one_line(error)}
        outcome["sticky"] = device != "cpu" and context_is_lost()
    if device != "cpu" and not outcome.get("sticky"):
        gc.collect(0)
        torch.cuda.empty_cache()  # the less is allocated, the less a replaying profiler saves
    return outcome


def _two_calls(
    point: dict[str, Any], device: str, within: Callable[[str], AbstractContextManager[None]]
) -> None:
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    shape = (point["rows"], point["cols"])
    x = kernel.operation.make_input(shape, dtype, device, point["seed"])
    call = kernel.prepare(x)
    call(x)
    with within(point["range"]):
        call(x)
