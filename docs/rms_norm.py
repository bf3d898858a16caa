"""RMS norm and its gradient, each row held by a cluster: a new operation on `kernels/cluster`.

``python -m experiments.bench docs/rms_norm.py::RmsNorm`` measures all variants of the norm here
beside a copy, and ``…::RmsNormBackward`` those of the gradient. `OnCluster` decides how a row is
cut and what a card refuses, `Row` loads and stores it, and `total_of` adds what the warps of a row
have summed. Rows are whole vectors of 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernels.cluster.cut import OnCluster
from kernels.cluster.row import (
    both_totals_of,
    distinct,
    row_number,
    slots_of,
    total_of,
    whole_row,
)
from kernels.device import device_of
from kernels.kernel import Array, Kernel, Operation
from kernels.language import gl, gluon_jit
from kernels.launch import launch, load_hint, store_hint
from kernels.traffic import M, N, Traffic

EPSILON = 1e-6


def scales(x: torch.Tensor) -> torch.Tensor:
    """1 / sqrt(mean(x²) + ε) of each row."""
    return (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()


class RmsNorm(Operation):
    """y = w∘x / sqrt(mean(x²) + ε), row by row."""

    name = "rms_norm"
    inputs = (Array("x"), Array("w", (N,)))

    def reference(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """In float64."""
        return w.double() * x.double() * scales(x.double())


class RmsNormBackward(Operation):
    """The gradient of x: dx = r·(g − x·r²·mean(g∘x)), g = w∘dy, and r is the norm's scale."""

    name = "rms_norm_backward"
    inputs = (Array("x"), Array("dy"), Array("w", (N,)))
    outputs = (Array("dx"),)
    roof = "add"

    def reference(self, x: torch.Tensor, dy: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """In float64."""
        x, g = x.double(), w.double() * dy.double()
        r = scales(x)
        return r * (g - x * r.square() * (g * x).mean(-1, keepdim=True))

    def magnitude(self, x: torch.Tensor, dy: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """See `Operation`: the same sum of absolute values."""
        x, g = x.double().abs(), (w.double() * dy.double()).abs()
        r = scales(x)
        return r * (g + x * r.square() * (g * x).mean(-1, keepdim=True))


@dataclass(frozen=True)
class RmsNormTorch(Kernel):
    """`torch.rms_norm`."""

    operation = RmsNorm()
    backend = "torch"
    moves = Traffic(reads=M * N + N, writes=M * N)
    on_chip = N

    def __call__(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """The norm of each row of ``x``, (M, N)."""
        return torch.rms_norm(x, (x.shape[1],), w, EPSILON)


@dataclass(frozen=True)
class RmsNormCluster(OnCluster):
    """A cluster a row."""

    operation = RmsNorm()
    moves = Traffic(reads=M * N + N, writes=M * N)
    on_chip = N
    in_vectors = True

    def __call__(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """The norm of each row of ``x``, (M, N), whole vectors."""
        y = torch.empty_like(x)
        start(self, _norm, (x, w, y))
        return y


@dataclass(frozen=True)
class RmsNormBackwardCluster(OnCluster):
    """A cluster a row, which holds x and dy."""

    operation = RmsNormBackward()
    moves = Traffic(reads=2 * M * N + N, writes=M * N)
    on_chip = 2 * N
    matrices, in_vectors = 2, True

    def __call__(self, x: torch.Tensor, dy: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """The gradient of ``x``, (M, N), whole vectors."""
        dx = torch.empty_like(x)
        start(self, _backward, (x, dy, w, dx))
        return dx


def start(variant: OnCluster, kernel: Any, tensors: tuple[torch.Tensor, ...]) -> None:
    """Launches a variant's kernel on tensors of which the first has the rows."""
    (rows, cols), x = tensors[0].shape, tensors[0]
    width = 16 // x.element_size()
    plan = variant.plan((rows, cols), x.dtype, width, device_of(x))
    assert plan is not None  # else it is unsupported
    constants = {
        "CHUNKS": plan.chunks,
        "VECTOR": width,
        "EVEN": cols == plan.chunks * plan.chunk,
        "PACKED": plan.packed,
        "LOADS": load_hint(x),
        "STORES": store_hint(x),
    }
    arguments = (*tensors, cols // width, 1 / cols, EPSILON)
    launch(kernel, (rows,), arguments, constants, num_warps=plan.warps, num_ctas=plan.programs)


@gluon_jit
def _norm(  # type: ignore[no-untyped-def]
    x,
    w,
    y,
    vectors,
    share,
    epsilon,
    CHUNKS: gl.constexpr,
    VECTOR: gl.constexpr,
    EVEN: gl.constexpr,
    PACKED: gl.constexpr,
    LOADS: gl.constexpr,
    STORES: gl.constexpr,
):
    slots = slots_of(1)
    row = whole_row(vectors, CHUNKS, VECTOR, EVEN)
    begin = row_number().to(gl.int64) * (gl.cast(vectors, gl.int64) * VECTOR)
    values = row.load(x + begin, 1, 0, 0.0, LOADS)
    squares = gl.full(row.columns.shape, 0.0, gl.float32, row.columns.type.layout)
    for i in gl.static_range(CHUNKS):
        value = distinct(values[i], PACKED).to(gl.float32)
        squares += value * value
    r = gl.rsqrt(total_of(gl.sum(squares, axis=1), slots) * share + epsilon)
    weights = row.load(w, 1, 0, 0.0, "")
    for i in gl.static_range(CHUNKS):
        value = distinct(values[i], PACKED).to(gl.float32) * r[:, None]
        row.store(y + begin, 1, i, value * weights[i].to(gl.float32), STORES)


@gluon_jit
def _backward(  # type: ignore[no-untyped-def]
    x,
    dy,
    w,
    dx,
    vectors,
    share,
    epsilon,
    CHUNKS: gl.constexpr,
    VECTOR: gl.constexpr,
    EVEN: gl.constexpr,
    PACKED: gl.constexpr,
    LOADS: gl.constexpr,
    STORES: gl.constexpr,
):
    slots = slots_of(1)
    row = whole_row(vectors, CHUNKS, VECTOR, EVEN)
    begin = row_number().to(gl.int64) * (gl.cast(vectors, gl.int64) * VECTOR)
    values, gradients = (
        row.load(x + begin, 1, 0, 0.0, LOADS),
        row.load(dy + begin, 1, 0, 0.0, LOADS),
    )
    weights = row.load(w, 1, 0, 0.0, "")
    squares = gl.full(row.columns.shape, 0.0, gl.float32, row.columns.type.layout)
    products = squares
    for i in gl.static_range(CHUNKS):
        value = distinct(values[i], PACKED).to(gl.float32)
        g = distinct(gradients[i], PACKED).to(gl.float32) * weights[i].to(gl.float32)
        squares += value * value
        products += value * g
    square, product = both_totals_of(gl.sum(squares, axis=1), gl.sum(products, axis=1), slots)
    r = gl.rsqrt(square * share + epsilon)
    back = product * share * r * r
    for i in gl.static_range(CHUNKS):
        g = distinct(gradients[i], PACKED).to(gl.float32) * weights[i].to(gl.float32)
        value = g - distinct(values[i], PACKED).to(gl.float32) * back[:, None]
        row.store(dx + begin, 1, i, value * r[:, None], STORES)
