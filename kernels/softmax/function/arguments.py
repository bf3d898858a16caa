"""What `softmax(x)` refuses, in the words of PyTorch where PyTorch refuses it too."""

from __future__ import annotations

from numbers import Real

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LEAST, MOST = 1e-30, 1e30  # temperatures that leave float32 neither zero nor infinity


def result_dtype(
    given: torch.dtype, wanted: torch.dtype | None, dims: int, dim: int, temperature: float
) -> torch.dtype:
    """The dtype of softmax's result, where all arguments are right.

    Args:
        given: The input's dtype.
        wanted: What it is cast to, if anything.
        dims: The input's dimensions.
        dim: That of the softmax.
        temperature: Divides the input.

    Raises:
        IndexError: there is no such dimension.
        NotImplementedError: the result would not be one of `DTYPES`, or the input is complex.
        ValueError: the temperature is not a number in reach.
    """
    most = max(dims, 1)  # a tensor without dimensions may be given 0 or -1, as PyTorch has it
    if not -most <= dim < most:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], "
            f"but got {dim})"
        )
    if not (isinstance(temperature, Real) and LEAST <= temperature <= MOST):
        raise ValueError(f"temperature must be a number from 1e-30 to 1e30, not {temperature!r}")
    result = given if wanted is None else wanted
    if result not in DTYPES or given.is_complex:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        refused = given if given.is_complex else result
        raise NotImplementedError(
            f'"softmax" not implemented for {str(refused).removeprefix("torch.")}: '
            f"the result is one of {names}; dtype= casts"
        )
    return result
