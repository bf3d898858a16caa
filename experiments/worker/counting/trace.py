"""The requests of one call as accesses to rows and columns, in the order they were made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import torch

from experiments.worker.counting.requests import Addresses, Request, Values

# The last bits of an exponential differ from machine to machine.
FIGURES = 7


def accesses(requests: list[Request], name: str, x: torch.Tensor) -> list[dict[str, Any]]:
    """The fields of `Access` records; a request that spans rows becomes one access for each.

    ``sweep`` counts the passes over a row: it rises when a program starts again to load a row's
    columns, and with each further launch. An operation of PyTorch's is a launch of one program.

    ``values`` are those that were moved, and ``state`` the program's own floating-point variables
    after it; both are None where the requests were not watched.

    ``maximum`` and ``total`` are what the kernel's own statistics are compared with: recomputed
    here in float64 from the columns of ``x`` that a Triton program has loaded so far, the maximum
    and the sum of exp(x − maximum), whether or not the kernel keeps them. They are None for
    operations of PyTorch's, whose statistics are tensors of their own.

    Args:
        requests: Of one call on ``x``; memory that no tensor of the call owns is passed over.
        name: Of the input.
        x: The contiguous input, shape (M, N).
    """
    result: list[dict[str, Any]] = []
    seen: dict[tuple[int, int], set[int]] = {}
    base = 0
    for _, launch in groupby(requests, key=lambda request: request.launch):
        sweeps: dict[tuple[int, int], int] = {}
        loaded: dict[tuple[int, int], set[tuple[str, int]]] = {}  # within the pass
        for request in launch:
            for row, columns, values in _rows(request):
                assert request.buffer is not None
                tensor, first = request.buffer.name, int(columns.min())
                place = (request.program or 0, row)
                sweep = sweeps.setdefault(place, base)
                if request.kind == "load":
                    # the same place again, in whatever order, begins another pass
                    if (tensor, first) in loaded.setdefault(place, set()):
                        sweeps[place] = sweep = sweep + 1
                        loaded[place] = set()
                    loaded[place].add((tensor, first))
                    if tensor == name and request.program is not None:
                        seen.setdefault(place, set()).update(columns.tolist())
                maximum, total = _statistics(x, row, seen.get(place, set()))
                result.append(
                    {
                        "program": place[0],
                        "sweep": sweep,
                        "kind": request.kind,
                        "tensor": tensor,
                        "row": row,
                        "first": first,
                        "last": int(columns.max()),
                        "maximum": maximum,
                        "total": total,
                        "values": None if values is None else numbers(values),
                        "state": {n: _plain(v) for n, v in request.state.items()} or None,
                        "operation": request.operation,
                    }
                )
        base = max((sweep + 1 for sweep in sweeps.values()), default=base)
    return result


def _rows(request: Request) -> Iterator[tuple[int, Addresses, Values | None]]:
    """The rows that a request touches and, of each, the columns in ascending order, and values."""
    if request.buffer is None:
        return
    tensor = request.buffer.tensor
    elements = (request.addresses - tensor.data_ptr()) // tensor.element_size()
    width = tensor.shape[-1] if tensor.dim() > 1 else 1
    for row in dict.fromkeys((elements // width).tolist()):
        (chosen,) = np.nonzero(elements // width == row)
        chosen = chosen[np.argsort(elements[chosen], kind="stable")]
        values = None if request.values is None else request.values[chosen]
        yield row, elements[chosen] % width, values


def _statistics(
    x: torch.Tensor, row: int, columns: set[int]
) -> tuple[float | str, float | str] | tuple[None, None]:
    if not columns:
        return None, None
    values = x[row, sorted(columns)].double()
    maximum = values.max()
    return number(maximum.item()), number(torch.exp(values - maximum).sum().item())


def number(value: float) -> float | str:
    """A number to seven significant figures; what JSON has none for goes by its name: ``-inf``."""
    return float(f"{value:.{FIGURES}g}") if math.isfinite(value) else str(float(value))


def numbers(values: Iterable[float]) -> list[float | str]:
    """Each number of a row or block."""
    return [number(float(value)) for value in values]


def _plain(variable: Any) -> Any:
    """A scalar as a number, a block as a list of them."""
    return numbers(variable.ravel()) if isinstance(variable, np.ndarray) else number(variable)
