"""The two ideas the harness knows: an operation, and a kernel that carries it out."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import ClassVar

import sympy
import torch

from kernels.device import Device
from kernels.traffic import Traffic

Shape = tuple[int, ...]


class Operation(ABC):
    """What is computed, whichever kernel computes it.

    Attributes:
        name: As rows spell it, e.g. ``"softmax"``.
        symbols: One name for each dimension of the input, e.g. ``("M", "N")``.
        compulsory: What any implementation must move.
        exact: Whether the answer is a copy of bits, so that no rounding is forgiven.
    """

    name: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]] = ("M", "N")
    compulsory: ClassVar[Traffic]
    exact: ClassVar[bool] = False

    @abstractmethod
    def make_input(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> torch.Tensor:
        """A contiguous input of ``shape``, the same for the same arguments on the same device."""

    @abstractmethod
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """The answer in float64 for a block of whole rows ``x`` of any dtype, shape ``(m, N)``."""

    def sizes(self, shape: Shape) -> dict[str, int]:
        """Symbol name to size, for evaluating a formula at ``shape``."""
        return dict(zip(self.symbols, shape, strict=True))


class NotCompiled(RuntimeError):
    """A variant that promises compiled code would run something else."""


class Kernel(ABC):
    """One variant of an operation. Subclasses are frozen dataclasses; fields are the tunables.

    Attributes:
        operation: What it computes.
        backend: Who generates the code: ``"eager"``, ``"torchscript"``, ``"torch"``,
            ``"inductor"``, ``"triton"`` or ``"cute"``. A row says ``"interpreter"`` in place of
            ``"triton"`` where Triton's interpreter ran it.
        dtypes: The dtypes it accepts.
        packages: Distributions that it runs beside torch and Triton, of the extra ``peers``.
            Their versions are part of what is measured.
    """

    operation: ClassVar[Operation]
    backend: ClassVar[str]
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32, torch.float16, torch.bfloat16)
    packages: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The answer for ``x``, in a tensor of its own with the shape and dtype of ``x``.

        Args:
            x: Shape ``(M, N)``; rows may be strided, any M or N may be zero or one.
        """

    @abstractmethod
    def traffic(self) -> Traffic:
        """What the algorithm asks of global memory in one call, in elements."""

    @abstractmethod
    def on_chip_elements(self) -> sympy.Expr:
        """Elements of a row kept in registers or shared memory at once, ``N`` or a constant."""

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """Why this variant cannot run there, in one sentence, or None when it can.

        It launches nothing. Variants with a limit of their own extend it.
        """
        if len(shape) != 2:
            return f"takes a matrix of rows and columns, not {len(shape)} dimensions"
        if dtype not in self.dtypes:
            return f"takes {', '.join(map(_dtype, self.dtypes))}, not {_dtype(dtype)}"
        for package in self.packages:
            if not _installed(package):
                return f"needs {package} of the extra peers, not installed here; run make peers"
        return _without_triton(device) if self.backend == "triton" else None

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """What is called when this kernel is timed on inputs like ``x``.

        It does now whatever a caller does once for a shape, compiling above all, so that the
        returned function only launches. Most variants need nothing and return themselves.
        """
        return self


def _without_triton(device: Device) -> str | None:
    if find_spec("triton") is None:
        return "needs Triton, which is not installed here"
    if device.kind == "cpu" and os.environ.get("TRITON_INTERPRET", "0") in ("", "0"):
        return "needs a CUDA device, or Triton's interpreter (TRITON_INTERPRET=1)"
    return None


def _installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
