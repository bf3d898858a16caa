"""`softmax(x)`: the fastest variant for the shape, as a function like PyTorch's own.

If the softmax runs along a contiguous last dimension, `auto` computes it. Another dimension, a
temperature or another dtype of the result takes `along`; the gradient is `backward_auto`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .calls import DTYPES, RowOp, check_types, number
from .device import device_of
from .lines import MOST, Lines, along, launch_tiles, lines
from .repeat import ALIGNMENT, dense
from .softmax.auto import Auto
from .softmax_backward.variants import BackwardAuto, GradientOptions

AUTO, BACKWARD = {fixed: Auto(fixed) for fixed in (False, True)}, BackwardAuto()


def softmax(
    x: torch.Tensor,
    dim: int = -1,
    *,
    temperature: float = 1.0,
    batch_invariant: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """softmax(x / temperature) along a dimension, differentiable in ``x`` any number of times.

    NaN, +inf and rows of −inf give the result of `torch.softmax`. 16-bit input is computed in
    float32 and rounded once. The result is contiguous. A strided ``x`` is read in place if the
    dimensions before and after ``dim`` can each be merged into one; otherwise it is copied first,
    2MN more. Under autocast the result keeps the dtype of ``x``. On the CPU `torch.softmax`
    computes the result, or Triton's interpreter if ``TRITON_INTERPRET`` is set.

    Args:
        x: Any shape, also empty or without dimensions; float16, bfloat16, float32 or float64, or
            any real dtype if ``dtype`` is given.
        dim: The dimension along which the result sums to one.
        temperature: Divides ``x``: a number from 1e-30 to 1e30.
        batch_invariant: Whether the bits of a row and of its gradient must not depend on the number
            of rows, which costs time where there are few wide ones. They depend on its elements,
            their number and dtype, the card, and where in a 16-byte vector the row begins. On a CPU
            it changes nothing.
        dtype: The dtype of the result; ``x`` is cast to it first.

    Raises:
        IndexError: there is no such dimension.
        NotImplementedError: the result would have none of the four dtypes.
        TypeError: an argument has a wrong type; True is not a number.
        ValueError: the temperature is out of range.
    """
    if type(temperature) is not float:
        temperature = number("temperature", temperature)
    if type(batch_invariant) is not bool:
        check_types("softmax", bool, batch_invariant=batch_invariant)
    if type(dim) is not int:
        return by_torch(x, dim, temperature, batch_invariant, dtype)
    return SOFTMAX_OP.run((x,), (dim, temperature, batch_invariant, dtype))  # type: ignore[no-any-return]


def _checked(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, wanted: torch.dtype | None
) -> tuple[int, float, bool, torch.dtype] | None:
    """The options with the dtype of the result; None where PyTorch raises an error."""
    number("temperature", temperature)
    result = x.dtype if wanted is None else wanted
    takes = -x.dim() <= dim < x.dim() and result in DTYPES and not x.is_complex()
    return (dim, temperature, fixed, result) if takes else None


# --- by PyTorch's operations ---


def by_torch(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype | None
) -> torch.Tensor:
    """Softmax by PyTorch's operations, contiguous, with dtype ``dtype``; errors are PyTorch's.

    ``fixed`` changes nothing: no bit of PyTorch's softmax depends on the number of rows.
    """
    number("temperature", temperature)
    tensor = isinstance(x, torch.Tensor)
    if tensor and x.is_complex():  # PyTorch would drop the imaginary part
        raise NotImplementedError(f'"softmax" not implemented for {x.dtype}')
    if tensor and dtype is None:
        dtype = x.dtype  # named, it is not changed by autocast
    if temperature == 1.0 or dtype not in DTYPES or not tensor:
        return torch.softmax(x, dim, dtype)
    wide = torch.promote_types(dtype, torch.float32)
    x = x.to(dtype).to(wide)
    if torch.jit._trace.is_tracing() or x.dim() == 0 or x.shape[dim] > 0:
        # as in the kernels: subtracted before the division, a small temperature cannot overflow;
        # softmax's derivative in it is zero
        x = x - x.detach().amax(dim, keepdim=True)
    y = torch.softmax(x / temperature, dim, wide)
    return y if dtype is wide else y.to(dtype)


def gradient_by_torch(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient in ``dtype`` by PyTorch's operations, which can be differentiated again."""
    wide = torch.promote_types(y.dtype, torch.float32)
    y, dy = y.to(wide), dy.to(wide)
    dx = y * (dy - (y * dy).sum(dim, keepdim=True)) / temperature
    return dx.to(dtype).contiguous()


# --- by kernels ---


def _work(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype
) -> Callable[..., None]:
    place, found = dim % x.dim(), _lines(x, dim)
    rowwise = (
        (found is not None and found.inner == 1 and found.strides[1] == 1)
        and (temperature == 1 and dtype is x.dtype and x.numel() > 0)
        and AUTO[fixed].unsupported((found.outer, found.cols), dtype, device_of(x)) is None
    )
    prepared: dict[int, Callable[..., torch.Tensor]] = {}  # by alignment

    def launch(x: torch.Tensor, y: torch.Tensor) -> None:
        if found is None or not rowwise:
            return launch_tiles(along, (x, y), place, temperature, MOST, None, fixed)
        rows = x.as_strided((found.outer, found.cols), (found.strides[0], 1))
        offset = x.data_ptr() % ALIGNMENT
        if offset not in prepared:
            prepared[offset] = AUTO[fixed].prepare(rows)
        prepared[offset](rows, y.view(rows.shape))
        return None

    return launch


def _gradient_work(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype
) -> Callable[..., None]:
    options = GradientOptions(dim % y.dim(), temperature, fixed)
    return lambda *tensors: BACKWARD.into(tensors, options)


def _lines(x: torch.Tensor, dim: int) -> Lines | None:
    return lines(x, dim % x.dim())


def _arranged(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype | None
) -> Sequence[torch.Tensor]:
    x = x if x.dtype in DTYPES else x.to(dtype)
    return (x if _lines(x, dim) else x.contiguous(),)


def _arranged_gradient(y: torch.Tensor, dy: torch.Tensor, dim: int, *_: Any) -> Any:
    in_place = _lines(y, dim) and _lines(dy, dim)
    return (y, dy) if in_place else (y.contiguous(), dy.contiguous())


# --- the operation ---


_OPTIONS = "SymInt dim, float temperature, bool fixed, ScalarType dtype"
GRADIENT_OP = RowOp(
    schema=f"softmax_backward(Tensor y, Tensor dy, {_OPTIONS}) -> Tensor",
    checked=lambda y, dy, *options: options if y.dim() else None,
    answers=lambda y, *options: [dense(y.shape, options[-1])],
    work=_gradient_work,
    by_torch=gradient_by_torch,
    arranged=_arranged_gradient,
)
SOFTMAX_OP = RowOp(
    schema=f"softmax(Tensor x, {_OPTIONS}) -> Tensor",
    checked=_checked,
    answers=lambda x, dim, temperature, fixed, dtype: [dense(x.shape, dtype)],
    work=_work,
    by_torch=by_torch,
    arranged=_arranged,
    gradient=GRADIENT_OP,
    gradient_options=lambda x, *options: (*options[:3], x.dtype),
)
