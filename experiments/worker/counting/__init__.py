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
from experiments.worker.counting.trace import accesses, numbers
from experiments.worker.describe import build_kernel, source_hash, torch_dtype
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.traffic import evaluate, formula

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
        BadJob: there is no such kernel or dtype.
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


def difference(kernel: Kernel, sizes: Mapping[str, int], tensors: Sequence[Any]) -> str | None:
    """One sentence, e.g. ``reads 2MN where the model says MN``, or None where all is equal.

    Args:
        kernel: It declares the model.
        sizes: Symbol name to size.
        tensors: The counts of its tensors, each with ``name dtype loads stores``.
    """
    model = kernel.traffic()
    symbols = kernel.operation.symbols
    parts = [
        _one("reads", model.reads, symbols, sizes, tensors, "loads"),
        _one("writes", model.writes, symbols, sizes, tensors, "stores"),
    ]
    return "; ".join(filter(None, parts)) or None


def _one(
    verb: str,
    model: sympy.Expr,
    symbols: Sequence[str],
    sizes: Mapping[str, int],
    tensors: Sequence[Any],
    field: str,
) -> str | None:
    modelled = evaluate(model, sizes)
    counted = sum(tensor[field] for tensor in tensors)
    if counted == modelled:
        return None
    model = _branch(model, sizes)
    excess = _in_units(counted - modelled, symbols, sizes)
    if excess is None:
        text = f"{verb} {counted} elements where the model says {modelled}, {formula(model)}"
    else:
        text = (
            f"{verb} {formula(sympy.expand(model + excess))} where the model says {formula(model)}"
        )
    # eager operations may write an index beside a value, which no formula of the papers counts
    indices = [t for t in tensors if t[field] and "int" in t["dtype"]]
    if indices and sum(t[field] for t in indices) == counted - modelled:
        text += ": " + " and ".join(f"{t['name']} ({t['dtype']})" for t in indices)
    return text


def _branch(model: sympy.Expr, sizes: Mapping[str, int]) -> sympy.Expr:
    """What a formula with cases says at these sizes."""
    if isinstance(model, sympy.Piecewise):
        for value, condition in model.args:
            if condition.subs({s: sizes[str(s)] for s in condition.free_symbols}) == sympy.true:
                return value
    return model


def _in_units(elements: int, symbols: Sequence[str], sizes: Mapping[str, int]) -> sympy.Expr | None:
    """A number of elements as whole matrices and whole columns, None where it is no such sum."""
    matrix, column = prod(sizes[s] for s in symbols), sizes[symbols[0]]
    if not matrix:
        return None
    sign = 1 if elements > 0 else -1
    # a matrix of one column counts as columns, which is what indices and statistics are
    whole, rest = divmod(abs(elements), matrix) if matrix > column else (0, abs(elements))
    columns, left = divmod(rest, column)
    if left:
        return None
    named = [sympy.Symbol(s, integer=True, nonnegative=True) for s in symbols]
    return sign * (whole * sympy.prod(named) + columns * named[0])
