"""Kernels run on the GPU where there is one, else under Triton's interpreter on the CPU."""

from __future__ import annotations

import os

import pytest
import torch

from kernels.device import Device

H200 = Device(
    kind="cuda",
    name="NVIDIA H200",
    capability=(9, 0),
    sms=132,
    warp_size=32,
    registers_per_sm=65536,
    shared_bytes_per_sm=233472,
    shared_bytes_per_block=232448,
    warps_per_sm=64,
    clusters=(528, 248, 124, 58),
)


@pytest.fixture(scope="session")
def device() -> str:
    """Where tensors go: ``cuda``, or ``cpu`` where the interpreter runs the kernels."""
    interpreted = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
    return "cpu" if interpreted or not torch.cuda.is_available() else "cuda"


@pytest.fixture(scope="session")
def h200() -> Device:
    """An H200 by its limits, wherever the tests run."""
    return H200
