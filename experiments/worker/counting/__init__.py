"""Counted traffic: one call of a kernel executed with every request to memory written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

import sympy
import torch

from experiments.child import one_line
from experiments.worker.counting.interpreter import interpreted
from experiments.worker.counting.requests import Operations, Recorder, Request
from experiments.worker.describe import build_kernel, source_hash, torch_dtype
from kernels.device import Device
from kernels.kernel import Kernel, as_tuple
from kernels.traffic import evaluate, formula

METHODS = {"triton": "interpreter", "eager": "dispatch", "torch": "dispatch"}
NOT_COUNTABLE = {
    "torchscript": "TorchScript's fuser decides on a GPU what reaches memory",
    "inductor": "Inductor writes other code for a GPU than for the CPU of a count",
}
NOMINAL = "nominal: one operation of the library, taken to read and write once"


def count(point: dict[str, Any], device: Device) -> dict[str, Any]:
    """A count record's fields but the kernel's label.

    Args:
        point: ``kernel`` (its configuration), ``rows``, ``cols``, ``dtype``, ``seed``, and
            ``reason`` where it is known already that it cannot be executed.
        device: The worker's own, a CPU.

    Raises:
        BadJob: there is no such kernel or dtype.
    """
    kernel, dtype = build_kernel(point["kernel"]), torch_dtype(point["dtype"])
    shape = (point["rows"], point["cols"])
    sizes = kernel.operation.sizes(shape)
    traffic = kernel.traffic()
    reads, writes = traffic.elements(sizes)
    record: dict[str, Any] = {
        "operation": kernel.operation.name,
        "params": asdict(kernel),  # type: ignore[call-overload]
        "source": source_hash(type(kernel).__module__),
        "rows": point["rows"],
        "cols": point["cols"],
        "dtype": point["dtype"],
        "method": METHODS.get(kernel.backend, "none"),
        "reason": point.get("reason"),
        "tensors": [],
        "model_reads": reads,
        "model_writes": writes,
        "model_read_bytes": reads * dtype.itemsize + evaluate(traffic.read_bytes, sizes),
        "model_write_bytes": writes * dtype.itemsize + evaluate(traffic.write_bytes, sizes),
    }
    if kernel.backend not in METHODS:
        why = f"nothing here executes {kernel.backend} step by step"
        record["reason"] = f"not countable: {NOT_COUNTABLE.get(kernel.backend, why)}"
    if record["reason"] is None:
        record["reason"] = kernel.unsupported(shape, dtype, device)
    if record["reason"] is not None:
        return record | {"method": "none"}
    inputs = kernel.operation.make_inputs(shape, dtype, "cpu", point["seed"])
    try:
        requests = requests_of(kernel, *inputs)
    except Exception as error:  # a kernel may raise anything
        reason = f"not countable: it fails here with {one_line(error)}"
        return record | {"method": "none", "reason": reason}
    tensors = totals(requests)
    return record | {
        "tensors": tensors,
        "difference": difference(kernel, sizes, tensors),
        "reason": NOMINAL if kernel.backend == "torch" else None,
    }


def requests_of(kernel: Kernel, *inputs: torch.Tensor) -> list[Request]:
    """All that one call of a kernel on its inputs, on the CPU, asks of memory, in order."""
    call, operation = kernel.prepare(*inputs), kernel.operation
    given = {array.name: x for array, x in zip(operation.inputs, inputs, strict=True)}
    recorder = Recorder(given)
    with interpreted(recorder), Operations(recorder):
        answer = call(*inputs)
    for array, y in zip(operation.outputs, as_tuple(answer), strict=True):
        buffer = recorder.buffer(y)
        if buffer is not None and buffer.name not in given:
            buffer.name = array.name
    return recorder.requests


def totals(requests: list[Request]) -> list[dict[str, Any]]:
    """Elements and bytes by tensor, in the order in which they were first touched."""
    found: dict[str, dict[str, Any]] = {}
    for request in requests:
        name, dtype, width = "other", f"{request.width} bytes", request.width
        if request.buffer is not None:
            tensor = request.buffer.tensor
            name, width = request.buffer.name, tensor.element_size()
            dtype = str(tensor.dtype).removeprefix("torch.")
        fields = ("loads", "stores", "load_bytes", "store_bytes")
        one = found.setdefault(name, {"name": name, "dtype": dtype, **dict.fromkeys(fields, 0)})
        size = request.addresses.size * request.width
        one[f"{request.kind}_bytes"] += size
        one[f"{request.kind}s"] += size // width
    return list(found.values())


def difference(kernel: Kernel, sizes: Mapping[str, int], tensors: Sequence[Any]) -> str | None:
    """One sentence, e.g. ``reads 2MN where the model says MN``, or None where all is equal.

    Args:
        kernel: It declares the model.
        sizes: Symbol name to size.
        tensors: The counts of its tensors, each with ``name dtype loads stores``.
    """
    parts = []
    operation, traffic = kernel.operation, kernel.traffic()
    arrays, triton = (*operation.inputs, *operation.outputs), kernel.backend == "triton"
    # a loss that PyTorch's operations make, or a peer, has the point's dtype
    either = triton and not kernel.packages
    own = {a.name for a in arrays if a.dtype is not None and (either or not a.either)}
    if triton and traffic.further:  # it may keep more beside the arrays, as float32
        own |= {t["name"] for t in tensors} - {a.name for a in arrays}
    for verb, model, further, field in (
        ("reads", traffic.reads, traffic.read_bytes, "loads"),
        ("writes", traffic.writes, traffic.write_bytes, "stores"),
    ):
        counted = sum(t[f"{field[:-1]}_bytes"] for t in tensors if t["name"] in own)
        if counted != evaluate(further, sizes):
            parts.append(f"{verb} {counted} bytes where the model says {formula(further)}")
        counted = sum(tensor[field] for tensor in tensors if tensor["name"] not in own)
        excess = counted - evaluate(model, sizes)
        if excess:
            text = f"{verb} {_compared(model, excess, operation.symbols, sizes)}"
            # eager operations may write an index beside a value, which no formula counts
            indices = [t for t in tensors if t[field] and "int" in t["dtype"]]
            if indices and sum(t[field] for t in indices) == excess:
                text += ": " + " and ".join(f"{t['name']} ({t['dtype']})" for t in indices)
            parts.append(text)
    return "; ".join(parts) or None


def _compared(
    model: sympy.Expr, excess: int, symbols: Sequence[str], sizes: Mapping[str, int]
) -> str:
    """The count beside the model: in formulas, if the excess is whole matrices and columns."""
    modelled = evaluate(model, sizes)
    for value, condition in model.args if isinstance(model, sympy.Piecewise) else ():
        if condition.subs({s: sizes[str(s)] for s in condition.free_symbols}) == sympy.true:
            model = value
            break
    matrix, column = prod(sizes[s] for s in symbols), max(sizes[symbols[0]], 1)
    # a matrix of one column counts as columns, which is what indices and statistics are
    whole, rest = divmod(abs(excess), matrix) if matrix > column else (0, abs(excess))
    columns, left = divmod(rest, column)
    if left:
        counted = modelled + excess
        return f"{counted} elements where the model says {modelled}, {formula(model)}"
    named = [sympy.Symbol(s, integer=True, nonnegative=True) for s in symbols]
    more = (1 if excess > 0 else -1) * (whole * sympy.prod(named) + columns * named[0])
    return f"{formula(sympy.expand(model + more))} where the model says {formula(model)}"
