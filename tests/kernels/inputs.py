"""Matrices of every size, dtype, magnitude and layout, as hypothesis draws them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from tests.kernels.variants import DTYPES

LAYOUTS = ("contiguous", "padded rows", "transposed", "every other column", "one row repeated")


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of ``x``, shape (M, N), with other strides."""
    rows, cols = x.shape
    if layout == "padded rows":
        wide = torch.full((rows, cols + 3), torch.nan, dtype=x.dtype, device=x.device)
        wide[:, :cols] = x
        return wide[:, :cols]
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "every other column":
        wide = torch.full((rows, 2 * cols), torch.nan, dtype=x.dtype, device=x.device)
        wide[:, ::2] = x
        return wide[:, ::2]
    if layout == "one row repeated":
        return x[:1].expand(rows, cols)
    return x


def extremes() -> torch.Tensor:
    """Rows of 40, which tiles of 16 cut at 16 and 32."""
    x = torch.randn(10, 40, generator=torch.Generator().manual_seed(0))
    x[0, :35] = -torch.inf  # two tiles of nothing before the first value
    x[1, 3:] = -torch.inf
    x[2] = -torch.inf
    x[3, 20] = torch.nan
    x[4] = torch.nan
    x[5] = -torch.inf
    x[5, 39] = torch.nan
    x[6, 30] = torch.inf
    x[7, 0] = torch.inf
    x[7, 39] = torch.inf
    x[8, :16] = -torch.inf
    x[8, 20] = torch.nan
    x[9] = 0.0
    return x


@st.composite
def matrices(draw: st.DrawFn, widest: int = 70) -> torch.Tensor:
    """A matrix on the CPU; a test moves it to its device, which may make it contiguous."""
    rows, cols = draw(st.integers(0, 12)), draw(st.integers(0, widest))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from((1.0, 1e-3, 30.0, 1e4)))
    values = torch.randn(rows, cols, generator=generator, dtype=torch.float64) * scale
    return values.to(draw(st.sampled_from(DTYPES)))
