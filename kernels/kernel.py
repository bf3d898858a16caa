"""The two ideas the harness knows: an operation, and a kernel that carries it out."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from types import NoneType, UnionType
from typing import Any, ClassVar, get_type_hints

import sympy
import torch

from .device import Device
from .traffic import M, N, Traffic, evaluate

Shape = tuple[int, ...]
Tensors = torch.Tensor | tuple[torch.Tensor, ...]  # an operation's answer: one, or several


@dataclass(frozen=True)
class Array:
    """One of the tensors that an operation takes or gives.

    Attributes:
        name: As formulas and counts call it, e.g. ``"x"``.
        shape: The size of each dimension in the operation's symbols. Where the first is the
            operation's first, M, it has a row for each row of the point; where it is part of it,
            as M/N, one for so many of them together; else all rows share it.
        dtype: Its own, or None for the point's.
        either: Whether a kernel may give it in the point's dtype in place of its own, as PyTorch
            gives the loss of 16-bit logits.
    """

    name: str
    shape: tuple[sympy.Expr, ...] = (M, N)
    dtype: torch.dtype | None = None
    either: bool = False


class Operation(ABC):
    """What is computed, whichever kernel computes it.

    Attributes:
        name: As rows spell it, e.g. ``"softmax"``.
        symbols: One name for each number of a point's shape.
        inputs: What a kernel is given, in this order; one at least has the point's dtype.
        outputs: What it returns, a tensor or a tuple of them; all have a row for each row.
        exact: Whether the answer is a copy of bits, so that no rounding is forgiven.
        row_sums: The invariant that the rows of an output add up to something, by its name, with
            what that is; None stands for what the reference's do. A gate checks these sums too:
            a bias that each element may have, or an answer of zeros, shows in them.
        flops: Floating-point operations of a call, in its symbols, where they may bound its time.
        exponentials: How many exponentials, likewise.
        roof: Name of the operation that moves the same mix of reads and writes and does nothing
            else; a sweep without it gets the configuration of that name. A plain string, which the
            sweep reads without importing.
    """

    name: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]] = ("M", "N")
    inputs: ClassVar[tuple[Array, ...]] = (Array("x"),)
    outputs: ClassVar[tuple[Array, ...]] = (Array("y"),)
    exact: ClassVar[bool] = False
    row_sums: ClassVar[Mapping[str, float | None]] = {}
    flops: ClassVar[sympy.Expr | None] = None
    exponentials: ClassVar[sympy.Expr | None] = None
    roof: ClassVar[str] = "copy"

    def __init_subclass__(cls) -> None:
        for array in cls.outputs:
            if not _grows(array, cls.symbols[0]):
                raise TypeError(f"{cls.__name__}: output {array.name} has no row for each row")

    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """Contiguous inputs at ``shape``, the same for the same arguments on the same device.

        Standard normal values, unless an operation overrides it.
        """
        generator = torch.Generator(device).manual_seed(seed)
        return tuple(
            torch.randn(size, dtype=own, device=device, generator=generator)
            for size, own in self.layout(self.inputs, shape, dtype)
        )

    @abstractmethod
    def reference(self, *blocks: Any, **_: Any) -> Tensors:
        """The outputs in float64 for a block of whole rows of the inputs, of any dtype.

        An input that all rows share is given whole.
        """

    def magnitude(self, *blocks: Any, **_: Any) -> Tensors | None:
        """The size of the terms that add up to each output, as `reference`, where they may cancel.

        Rounding then leaves an error of their spacing and not of the answer's. None where they
        do not cancel.
        """
        return None

    @property
    def compulsory(self) -> Traffic:
        """What any implementation must move: each input read once, each output written once."""
        elements, further = [], []
        for arrays in (self.inputs, self.outputs):
            elements.append(sympy.Add(*(sympy.prod(a.shape) for a in arrays if not a.dtype)))
            own = (sympy.prod(a.shape) * a.dtype.itemsize for a in arrays if a.dtype)
            further.append(sympy.Add(*own))
        return Traffic(*elements, *further)

    def layout(
        self, arrays: Sequence[Array], shape: Shape, dtype: torch.dtype
    ) -> list[tuple[Shape, torch.dtype]]:
        """The shape and dtype of each array at a point."""
        sizes = self.sizes(shape)
        return [(tuple(evaluate(n, sizes) for n in a.shape), a.dtype or dtype) for a in arrays]

    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        """The shape and dtype of the point whose inputs these are."""
        found = {
            str(size): length
            for array, x in zip(self.inputs, inputs, strict=True)
            for size, length in zip(array.shape, x.shape, strict=True)
        }
        (dtype, *_) = (x.dtype for a, x in zip(self.inputs, inputs, strict=True) if a.dtype is None)
        return tuple(found[symbol] for symbol in self.symbols), dtype

    def rowwise(self, array: Array) -> bool:
        """Whether an array has a row for each row of the point, or for so many of them."""
        return _grows(array, self.symbols[0])

    def sizes(self, shape: Shape) -> dict[str, int]:
        """Symbol name to size, for evaluating a formula at ``shape``."""
        return dict(zip(self.symbols, shape, strict=True))


def _grows(array: Array, symbol: str) -> bool:
    """Whether an array's first dimension does with a symbol."""
    return bool(array.shape) and symbol in map(str, array.shape[0].free_symbols)


def as_tuple(tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """What a kernel or a reference returned, a tensor or several, as a tuple."""
    return (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)


@dataclass(frozen=True)
class Allowed:
    """The values that a tunable may have, as the metadata of its annotation.

    ``block_size: Annotated[int, power_of_two(1, 1024)] = 512``. Values come from YAML or a command
    line, so any type can turn up. None is allowed where the annotation says ``| None``.

    Attributes:
        words: What a value must be.
        test: Whether a value is that.
    """

    words: str
    test: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Refuses a value that is not allowed.

        Raises:
            ValueError: in one line, what it is and what it must be.
        """
        if not self.test(value):
            raise ValueError(f"{name} must be {self.words}, not {value!r}")


def whole_number(least: int, most: int, *others: str) -> Allowed:
    """A whole number from ``least`` to ``most``, or one of the other words."""
    return Allowed(
        f"a whole number from {least} to {most}",
        lambda value: value in others if isinstance(value, str) else _whole(value, least, most),
    )


def power_of_two(least: int, most: int) -> Allowed:
    """A power of two from ``least`` to ``most``."""
    return Allowed(
        f"a power of two from {least} to {most}",
        lambda value: _whole(value, least, most) and value & (value - 1) == 0,
    )


def one_of(*choices: str) -> Allowed:
    """One of some words."""
    return Allowed(" or ".join(choices), lambda value: value in choices)


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


class NotCompiled(RuntimeError):
    """A variant that promises compiled code would run something else."""


class Kernel(ABC):
    """One variant of an operation. Subclasses are frozen dataclasses; fields are the tunables.

    What a tunable may be is part of its annotation, see `Allowed`; making a kernel checks it.

    Attributes:
        operation: What it computes.
        backend: Who generates the code: ``"eager"``, ``"torchscript"``, ``"torch"``,
            ``"inductor"``, ``"triton"`` or ``"cute"``. A row says ``"interpreter"`` in place of
            ``"triton"`` where Triton's interpreter ran it.
        dtypes: The dtypes it accepts.
        packages: Distributions that it runs beside torch and Triton, of the extra ``peers``.
            Their versions are part of what is measured.
        overwrites: Name of the input in whose memory it leaves an output, None where it leaves all
            inputs as they are.
        moves: Its traffic; a variant whose tunables change it overrides `traffic` instead.
        on_chip: Likewise for `on_chip_elements`.
    """

    operation: ClassVar[Operation]
    backend: ClassVar[str]
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32, torch.float16, torch.bfloat16)
    packages: ClassVar[tuple[str, ...]] = ()
    overwrites: ClassVar[str | None] = None
    moves: ClassVar[Traffic]
    on_chip: ClassVar[sympy.Expr]

    def __post_init__(self) -> None:
        for name, optional, allowed in _tunables(type(self)):
            value = getattr(self, name)
            if not (optional and value is None):
                allowed.check(name, value)

    @abstractmethod
    def __call__(self, *inputs: Any, **_: Any) -> Any:
        """The operation's outputs, a tensor or a tuple, in memory of their own.

        Args:
            inputs: The operation's, each an argument of its own; rows may be strided, any M or N
                may be zero or one.
        """

    def traffic(self) -> Traffic:
        """What the algorithm asks of global memory in one call."""
        return self.moves

    def on_chip_elements(self) -> sympy.Expr:
        """Elements of a row kept in registers or shared memory at once, ``N`` or a constant."""
        return self.on_chip

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

    def prepare(self, *inputs: Any, **_: Any) -> Callable[..., Any]:
        """What is called when this kernel is timed on inputs like these.

        It does now whatever a caller does once for a shape, compiling above all, so that the
        returned function only launches. Most variants need nothing and return themselves.
        """
        return self


@lru_cache
def _tunables(kind: type[Any]) -> list[tuple[str, bool, Allowed]]:
    """The tunables of a kernel that are checked: name, whether None is allowed, and what else is.

    A bool needs no metadata.

    Raises:
        TypeError: the kernel does not declare what it moves, or what it keeps on chip.
    """
    for method, attribute in (("traffic", "moves"), ("on_chip_elements", "on_chip")):
        if getattr(kind, method) is getattr(Kernel, method) and not hasattr(kind, attribute):
            raise TypeError(f"{kind.__name__} declares neither {attribute} nor {method}()")
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for name in (field.name for field in fields(kind)):
        hint, metadata = hints[name], getattr(hints[name], "__metadata__", ())
        plain = hint.__origin__ if metadata else hint
        kinds = plain.__args__ if isinstance(plain, UnionType) else (plain,)
        if bool in kinds:
            words = "true, false or null" if NoneType in kinds else "true or false"
            metadata = (Allowed(words, lambda value: isinstance(value, bool)),)
        found += [(name, NoneType in kinds, one) for one in metadata if isinstance(one, Allowed)]
    return found


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
