"""The two ideas the harness knows: an operation, and a kernel that carries it out."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from types import FunctionType, NoneType, UnionType
from typing import Any, ClassVar, TypeVar, get_type_hints

import sympy
import torch
from typing_extensions import override

from .device import Device
from .language import MOST_PROGRAMS
from .traffic import M, N, Traffic, evaluate, tunable

Shape = tuple[int, ...]
Tensors = torch.Tensor | tuple[torch.Tensor, ...]  # an operation's answer: one, or several

# Kinds of rows: far above zero, far below, and all equal; also of a wide range, with one large
# element, and with −inf at every other place
SHIFTED = ("high", "low", "equal")
ANY = (*SHIFTED, "wide", "large", "masked")


@dataclass(frozen=True)
class Array:
    """One of the tensors that an operation takes or gives.

    If its first dimension is M, it has one row per row of the point; if M/N, one per N of them.
    Otherwise all rows share it.
    """

    name: str  # as formulas and counts call it, e.g. "x"
    shape: tuple[sympy.Expr, ...] = (M, N)  # in the operation's symbols
    dtype: torch.dtype | None = None  # a fixed dtype, or None for the point's
    # Whether a kernel may return the point's dtype instead, as PyTorch does with losses of 16 bit
    either: bool = False


class Operation(ABC):
    """A computation, independent of the kernel that carries it out.

    Attributes:
        name: The name in rows, e.g. ``"softmax"``.
        symbols: One name for each number of a point's shape.
        inputs: The arguments of a kernel, in this order; at least one has the point's dtype.
        outputs: The results, one tensor or a tuple; each has one row per row of the point.
        exact: Whether the answer is a copy of bits, so that the gate forgives no rounding.
        row_sums: For each output whose rows have a known sum, its name and that sum; None stands
            for the sum of the reference's row. The gate compares these sums, because a small bias
            of every element, or an answer of zeros, shows in them.
        flops: Floating-point operations of a call, in the symbols, where they may bound its time.
        exponentials: Exponentials of a call, where they may bound its time.
        logits: The inputs whose rows may be other than standard normal, each with the kinds of
            rows that a gate tries, of `ANY`. Kinds that a plain kernel may get wrong are left out.
        roof: Name of the operation that moves the same mix of reads and writes and does nothing
            else. The file of each of its kernels in conf/kernel says the same (``roof:``), which a
            sweep reads without importing this module to add the kernel of that name.
    """

    name: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]] = ("M", "N")
    inputs: ClassVar[tuple[Array, ...]] = (Array("x"),)
    outputs: ClassVar[tuple[Array, ...]] = (Array("y"),)
    exact: ClassVar[bool] = False
    row_sums: ClassVar[Mapping[str, float | None]] = {}
    flops: ClassVar[sympy.Expr | None] = None
    exponentials: ClassVar[sympy.Expr | None] = None
    logits: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    roof: ClassVar[str] = "copy"

    def __init_subclass__(cls) -> None:
        for array in cls.outputs:
            if not cls.rowwise(array):
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
        """The outputs in float64, for a block of whole rows of inputs of any dtype.

        An input that all rows share is passed whole.
        """

    def refuses(self, shape: Shape) -> str | None:
        """One sentence that says why there is no point of this shape; None if there is one."""
        return None

    def magnitude(self, *blocks: Any, **_: Any) -> Tensors | None:
        """The size of the terms that add up to each output; None where the terms cannot cancel.

        Shaped like `reference`. Where terms cancel, the rounding error has the spacing of the
        terms, not the spacing of the answer.
        """
        return None

    @property
    def compulsory(self) -> Traffic:
        """The least traffic possible: each input read once, each output written once."""
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
        """The shape and dtype of the point that these inputs belong to."""
        found = {
            str(size): length
            for array, x in zip(self.inputs, inputs, strict=True)
            for size, length in zip(array.shape, x.shape, strict=True)
        }
        (dtype, *_) = (x.dtype for a, x in zip(self.inputs, inputs, strict=True) if a.dtype is None)
        return tuple(found[symbol] for symbol in self.symbols), dtype

    @classmethod
    def rowwise(cls, array: Array) -> bool:
        """Whether an array has one row per row of the point, or per N of them."""
        return bool(array.shape) and cls.symbols[0] in map(str, array.shape[0].free_symbols)

    def sizes(self, shape: Shape) -> dict[str, int]:
        """Symbol name to size, for evaluating a formula at ``shape``."""
        return dict(zip(self.symbols, shape, strict=True))


def as_tuple(tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """The result of a kernel or a reference, one tensor or several, as a tuple."""
    return (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)


def with_gradient(
    function: Callable[..., Any], x: torch.Tensor, *others: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """What a function answers by autograd, and the gradient of the sum of it all by ``x``."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        answers = as_tuple(function(leaf, *others))
    ones = torch.ones_like(answers[0])  # as long as the others
    (gradient,) = torch.autograd.grad(answers, leaf, [ones] * len(answers))
    return *(each.detach() for each in answers), gradient


@dataclass(frozen=True)
class Allowed:
    """The values that a tunable may have, written as metadata of its annotation.

    ``block_size: Annotated[int, power_of_two(1, 1024)] = 512``. Values come from YAML or a command
    line and may have any type. None is allowed where the annotation says ``| None``.
    """

    words: str  # the allowed values, for the error message
    test: Callable[[Any], bool]


def whole_number(least: int, most: int) -> Allowed:
    """A whole number from ``least`` to ``most``."""
    words = f"a whole number from {least} to {most}"
    return Allowed(words, lambda value: _whole(value, least, most))


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
    """A variant that promises compiled code would run uncompiled code."""


@dataclass(frozen=True)
class Kernel(ABC):
    """One variant of an operation. A subclass with tunables is a frozen dataclass: its fields.

    The annotation of a tunable holds its allowed values (`Allowed`); the constructor checks them.
    The variant's file in conf/kernel says what it means.

    Attributes:
        operation: The operation that the variant computes.
        backend: The code generator: ``"eager"``, ``"torchscript"``, ``"torch"``, ``"inductor"``,
            ``"triton"``, ``"tilelang"`` or ``"cute"``. A row says ``"interpreter"`` instead of
            ``"triton"`` where Triton's interpreter ran the kernel.
        dtypes: The dtypes that the variant accepts.
        packages: Distributions of the extra ``peers`` that the variant needs beside torch and
            Triton. Their versions are part of a row's key.
        row_a_program: Whether a launch has one program per row: more rows than a grid are refused.
        overwrites: Name of the input whose memory receives an output; None where all inputs stay
            unchanged.
        moves: The traffic. It may name tunables (`traffic.tunable`); a variant whose tunables
            change it otherwise overrides `traffic` instead.
        on_chip: The elements kept on chip; likewise, or `on_chip_elements`.
    """

    operation: ClassVar[Operation]
    backend: ClassVar[str]
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32, torch.float16, torch.bfloat16)
    packages: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[str] = " of the extra peers, not installed here; run make peers"
    row_a_program: ClassVar[bool] = False
    overwrites: ClassVar[str | None] = None
    moves: ClassVar[Traffic]
    on_chip: ClassVar[sympy.Expr]

    def __post_init__(self) -> None:
        for name, optional, allowed in _tunables(type(self)):
            value = getattr(self, name)
            if not (optional and value is None) and not allowed.test(value):
                raise ValueError(f"{name} must be {allowed.words}, not {value!r}")

    def __call__(self, *inputs: Any, **_: Any) -> Any:
        """The operation's outputs, one tensor or a tuple, in newly allocated memory.

        Args:
            inputs: The operation's inputs, one argument each. Rows may be strided; M and N may be
                zero or one.
        """
        return self.prepare(*inputs)(*inputs)

    def traffic(self) -> Traffic:
        """The traffic with global memory that the algorithm asks for in one call."""
        return self.moves.each(self._with_tunables)

    def on_chip_elements(self) -> sympy.Expr:
        """Elements of a row held in registers or shared memory at once: ``N`` or a constant."""
        return self._with_tunables(self.on_chip)

    def _with_tunables(self, formula: sympy.Expr) -> sympy.Expr:
        numbers = {tunable(name): n for name, n in vars(self).items() if type(n) is int}
        return sympy.sympify(formula).subs(numbers)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """One sentence that says why this variant cannot run on ``device``; None if it can.

        Launches nothing. A variant with limits of its own overrides `limits`.
        """
        if len(shape) != 2:
            return f"takes a matrix of rows and columns, not {len(shape)} dimensions"
        if dtype not in self.dtypes:
            return f"takes {', '.join(map(_dtype, self.dtypes))}, not {_dtype(dtype)}"
        for package in self.packages:
            try:
                distribution(package)
            except PackageNotFoundError:
                return f"needs {package}{self.missing}"
        reason = _without_triton(device) if self.backend == "triton" else None
        if reason is None and self.row_a_program:
            reason = too_many(shape[0])
        return reason or self.operation.refuses(shape) or self.limits(shape, dtype, device)

    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """As `unsupported`, of a matrix, a dtype and a device that nothing else speaks against."""
        return None

    def prepare(self, *inputs: Any, **_: Any) -> Callable[..., Any]:
        """The function that the harness times on inputs like these.

        Does the work that a caller does once per shape, such as compiling, so that the returned
        function only launches. Most variants return themselves; others have no other call.
        """
        return self


Kind = TypeVar("Kind", bound=Kernel)


def variant(kind: type[Kind], operation: Operation, **declared: Any) -> type[Kind]:
    """A variant that differs from others of its ``kind`` only in the attributes ``declared``.

    It belongs to the module that calls, and its name is ``Kind[operation]``. A function declared
    takes no kernel: it is called with its own arguments alone.
    """
    own = {"operation": operation, "__module__": sys._getframe(1).f_globals["__name__"]}
    for name, value in declared.items():
        own[name] = staticmethod(value) if isinstance(value, FunctionType | partial) else value
    return type(f"{kind.__name__}[{operation.name}]", (kind,), own)


class TorchFunction(Kernel):
    """A function of PyTorch as it is, one answer laid out contiguously. It has no tunables."""

    backend = "torch"
    function: ClassVar[Callable[..., Tensors]]  # of the operation's inputs

    @override
    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        made = type(self).function(*inputs)
        return made.contiguous() if isinstance(made, torch.Tensor) else made


@lru_cache
def _tunables(kind: type[Any]) -> list[tuple[str, bool, Allowed]]:
    """The checked tunables of a kernel: name, whether None is allowed, and the allowed values.

    A bool needs no metadata.

    Raises:
        TypeError: the kernel declares no call, no traffic, or no elements on chip.
    """
    if kind.__call__ is Kernel.__call__ and kind.prepare is Kernel.prepare:
        raise TypeError(f"{kind.__name__} declares neither __call__() nor prepare()")
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


def too_many(programs: int) -> str | None:
    """One sentence that says why so many programs cannot be launched; None if they can."""
    if programs > MOST_PROGRAMS:
        return f"a launch takes {MOST_PROGRAMS} programs, not {programs}"
    return None


def _without_triton(device: Device) -> str | None:
    if find_spec("triton") is None:
        return "needs Triton, which is not installed here"
    if device.kind == "cpu" and os.environ.get("TRITON_INTERPRET", "0") in ("", "0"):
        return "needs a CUDA device, or Triton's interpreter (TRITON_INTERPRET=1)"
    return None


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
