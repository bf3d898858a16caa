"""The roofs by PyTorch and the libraries behind it: copy, sum and matrix product.

Passes: one; the copy reads MN and writes MN: 2MN; the sum reads 2MN and writes MN: 3MN; the matrix
product nominally reads each operand once and writes the product: (2N + E)·E elements.
On chip: one element of each matrix.
No kernel that reads and writes every element can be much faster than the copy. For a contiguous
input `Tensor.copy_` is the driver's own device-to-device copy. Captured in a CUDA graph it becomes
a memory-copy node instead, which an H200 runs at two thirds of the speed for a matrix of half a
gigabyte and more: under `timing=graph` the roof is then `copy_triton`.
Source: `Tensor.copy_`, `torch.add`; `torch.matmul`, on an NVIDIA card cuBLAS.
"""

from __future__ import annotations

import sympy
import torch

from ..kernel import Kernel, TorchFunction, variant
from ..softmax.tiles import empty_result
from ..traffic import M, N, Traffic
from .operation import ADD, COPY, EDGE, MATMUL

Copy = variant(
    TorchFunction,
    COPY,
    function=lambda x: empty_result(x).copy_(x),
    dtypes=(*Kernel.dtypes, torch.float64),
    moves=Traffic(reads=M * N, writes=M * N),
    on_chip=sympy.Integer(1),
)
Add = variant(
    Copy,
    ADD,
    function=torch.add,
    moves=Traffic(reads=2 * M * N, writes=M * N),
    on_chip=sympy.Integer(2),
)
Matmul = variant(
    TorchFunction,
    MATMUL,
    function=torch.matmul,
    moves=Traffic(reads=2 * N * EDGE, writes=EDGE * EDGE),
    on_chip=sympy.Integer(1),
)
