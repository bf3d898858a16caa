from __future__ import annotations

import pytest
import torch

from kernels.device import Device
from kernels.softmax.auto import choice
from kernels.softmax.tiles import whole_vectors


@pytest.mark.parametrize(
    ("rows", "cols", "dtype", "name"),
    [
        (4096, 1024, torch.float32, "FusedMultirow"),  # 4 KB
        (4096, 1025, torch.float32, "Cluster"),
        (4096, 1 << 19, torch.float32, "Cluster"),  # 2 MB
        (16, (1 << 18) + 4, torch.float32, "Cooperative"),  # few and wide
        (17, (1 << 18) + 4, torch.float32, "Cluster"),
        (4096, 1 << 20, torch.float32, "Cooperative"),
        (4096, 1 << 23, torch.float32, "Online"),
        (4096, 8192, torch.float64, "FusedRow"),
        (4096, 8200, torch.float64, "Online"),
    ],
)
def test_the_rule_of_an_h200(
    h200: Device, rows: int, cols: int, dtype: torch.dtype, name: str
) -> None:
    pytest.importorskip("triton")
    chosen = choice((rows, cols), dtype, h200, whole_vectors(cols, dtype))
    assert type(chosen).__name__ == name
