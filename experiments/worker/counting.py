"""Counted traffic: one call of a kernel, executed with every request to memory added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

import sympy
import torch

from experiments.child import one_line
from experiments.worker.describe import build_kernel, source_hash
from experiments.worker.requests import requested
from kernels.device import Device
from kernels.kernel import Kernel
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
        BadJob: there is no such kernel.
    """
    kernel: Kernel = build_kernel(point["kernel"])
    dtype: torch.dtype = getattr(torch, point["dtype"])
    shape = (point["rows"], point["cols"])
    sizes, traffic = kernel.operation.sizes(shape), kernel.traffic()
    reads, writes = traffic.elements(sizes)
    method, reason = METHODS.get(kernel.backend), point.get("reason")
    if method is None:
        why = f"nothing here executes {kernel.backend} step by step"
        reason = f"not countable: {NOT_COUNTABLE.get(kernel.backend, why)}"
    reason = reason or kernel.unsupported(shape, dtype, device)
    tensors: list[dict[str, Any]] = []
    if reason is None:
        inputs = kernel.operation.make_inputs(shape, dtype, "cpu", point["seed"])
        try:
            tensors = requested(kernel, *inputs)
        except Exception as error:  # a kernel may raise anything
            reason = f"not countable: it fails here with {one_line(error)}"
    counted = reason is None
    return {
        "operation": kernel.operation.name,
        "params": asdict(kernel),  # type: ignore[call-overload]
        "source": source_hash(type(kernel).__module__),
        **{name: point[name] for name in ("rows", "cols", "dtype")},
        "method": method if counted else "none",
        "reason": NOMINAL if counted and kernel.backend == "torch" else reason,
        "tensors": tensors,
        "model_reads": reads,
        "model_writes": writes,
        "model_read_bytes": reads * dtype.itemsize + evaluate(traffic.read_bytes, sizes),
        "model_write_bytes": writes * dtype.itemsize + evaluate(traffic.write_bytes, sizes),
        "difference": difference(kernel, sizes, tensors) if counted else None,
    }


def difference(kernel: Kernel, sizes: Mapping[str, int], tensors: Sequence[Any]) -> str | None:
    """One sentence, e.g. ``reads 2MN where the model says MN``, or None where all is equal.

    Args:
        kernel: It declares the model.
        sizes: Symbol name to size.
        tensors: The counts of its tensors, as `requested` gives them.
    """
    operation, traffic = kernel.operation, kernel.traffic()
    arrays, triton = (*operation.inputs, *operation.outputs), kernel.backend == "triton"
    # a loss that PyTorch's operations make, or a peer, has the point's dtype
    either = triton and not kernel.packages
    in_bytes = {a.name for a in arrays if a.dtype is not None and (either or not a.either)}
    if triton and traffic.further:  # it may keep more beside the arrays, as float32
        in_bytes |= {t["name"] for t in tensors} - {a.name for a in arrays}
    parts = []
    for verb, kind, model, further in (
        ("reads", "load", traffic.reads, traffic.read_bytes),
        ("writes", "store", traffic.writes, traffic.write_bytes),
    ):
        size = sum(t[f"{kind}_bytes"] for t in tensors if t["name"] in in_bytes)
        if size != evaluate(further, sizes):
            parts.append(f"{verb} {size} bytes where the model says {formula(further)}")
        excess = sum(t[f"{kind}s"] for t in tensors if t["name"] not in in_bytes)
        excess -= evaluate(model, sizes)
        if excess:
            text = f"{verb} {_compared(model, excess, operation.symbols, sizes)}"
            # eager operations may write an index beside a value, which no formula counts
            indices = [t for t in tensors if t[f"{kind}s"] and "int" in t["dtype"]]
            if indices and sum(t[f"{kind}s"] for t in indices) == excess:
                text += ": " + " and ".join(f"{t['name']} ({t['dtype']})" for t in indices)
            parts.append(text)
    return "; ".join(parts) or None


def _compared(
    model: sympy.Expr, excess: int, symbols: Sequence[str], sizes: Mapping[str, int]
) -> str:
    """The count beside the model: in formulas, if the excess is whole matrices and columns."""
    modelled = evaluate(model, sizes)
    if isinstance(model, sympy.Piecewise):
        given = {symbol: sizes[str(symbol)] for symbol in model.free_symbols}
        model = next(one for one, where in model.args if where.subs(given) == sympy.true)
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
