"""One call of a kernel executed and counted: the request ``count`` of a worker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from experiments.child import one_line
from experiments.worker.counting.difference import difference
from experiments.worker.counting.dispatch import Operations
from experiments.worker.counting.interpreter import interpreted
from experiments.worker.counting.numbers import numbers
from experiments.worker.counting.requests import Recorder, Request
from experiments.worker.counting.trace import accesses
from experiments.worker.describe import build_kernel, torch_dtype
from experiments.worker.source import source_hash
from kernels.device import Device
from kernels.kernel import Kernel

METHODS = {"triton": "interpreter", "eager": "dispatch", "torch": "dispatch"}
NOT_COUNTABLE = {
    "torchscript": "not countable: TorchScript's fuser decides on a GPU what reaches memory",
    "inductor": "not countable: Inductor writes other code for a GPU than for the CPU of a count",
}
NOMINAL = "nominal: one operation of the library, taken to read and write once"


def count(point: dict[str, Any], device: Device) -> dict[str, Any]:
    """A count record's fields but the kernel's label, with the ``accesses`` of a trace beside them.

    Args:
        point: ``kernel`` (its configuration), ``rows``, ``cols``, ``dtype``, ``seed``, or
            ``input`` (its rows) in place of a seeded one, and ``trace`` where the order of the
            requests is wanted, at a small shape; ``reason`` where it is known already that it
            cannot be executed.
        device: The worker's own, a CPU.

    Raises:
        BadJob: the kernel or dtype is none.
    """
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    shape = (point["rows"], point["cols"])
    sizes = kernel.operation.sizes(shape)
    reads, writes = kernel.traffic().elements(sizes)
    record: dict[str, Any] = {
        "operation": kernel.operation.name,
        "params": asdict(kernel),  # type: ignore[call-overload]
        "source": source_hash(type(kernel).__module__),
        "rows": point["rows"],
        "cols": point["cols"],
        "dtype": point["dtype"],
        "method": METHODS.get(kernel.backend, "none"),
        "reason": point.get("reason") or why_not(kernel, shape, dtype, device),
        "tensors": [],
        "model_reads": reads,
        "model_writes": writes,
        "model_formula": str(kernel.traffic()),
        "accesses": None,
    }
    tracing = bool(point.get("trace"))
    if record["reason"] is None:
        if "input" in point:
            x = torch.tensor(point["input"], dtype=dtype)
        else:
            x = kernel.operation.make_input(shape, dtype, "cpu", point["seed"])
        try:
            requests = requests_of(kernel, x, watching=tracing)
        except Exception as error:  # a kernel may raise anything
            record["reason"] = f"not countable: it fails here with {one_line(error)}"
        else:
            record["tensors"] = totals(requests)
            record["difference"] = difference(kernel, sizes, record["tensors"])
            record["reason"] = NOMINAL if kernel.backend == "torch" else None
            if tracing:
                record["input"] = [numbers(row.tolist()) for row in x]
                record["accesses"] = accesses(requests, x)
            return record
    return record | {"method": "none"}


def why_not(
    kernel: Kernel, shape: tuple[int, ...], dtype: torch.dtype, device: Device
) -> str | None:
    """Why a call cannot be counted, in one sentence, or None when it can."""
    if kernel.backend in METHODS:
        return kernel.unsupported(shape, dtype, device)
    return NOT_COUNTABLE.get(
        kernel.backend, f"not countable: nothing here executes {kernel.backend} step by step"
    )


def requests_of(kernel: Kernel, x: torch.Tensor, watching: bool = False) -> list[Request]:
    """All that one call of a kernel on ``x``, a matrix on the CPU, asks of memory, in order.

    With ``watching`` they carry the values that they moved and the variables they left behind.
    """
    call = kernel.prepare(x)
    recorder = Recorder(x, watching)
    with interpreted(recorder), Operations(recorder):
        y = call(x)
    buffer = recorder.buffer(y)
    if buffer is not None and buffer.name != "x":
        buffer.name = "y"
    return recorder.requests


def totals(requests: list[Request]) -> list[dict[str, Any]]:
    """Elements and bytes by tensor, in the order in which they were first touched."""
    found: dict[str, dict[str, Any]] = {}
    for request in requests:
        name = request.buffer.name if request.buffer else "other"
        dtype = str(request.buffer.tensor.dtype) if request.buffer else f"{request.width} bytes"
        width = request.buffer.tensor.element_size() if request.buffer else request.width
        fields = ("loads", "stores", "load_bytes", "store_bytes")
        one = found.setdefault(
            name, {"name": name, "dtype": dtype.removeprefix("torch."), **dict.fromkeys(fields, 0)}
        )
        size = request.addresses.size * request.width
        one[f"{request.kind}_bytes"] += size
        one[f"{request.kind}s"] += size // width
    return list(found.values())
