"""Fixtures of kernels' tests: they run on the GPU if there is one, else under the interpreter."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch

from experiments.data.jobs import CONF, read_yaml
from kernels.device import Device, cuda_device

collect_ignore_glob = [] if find_spec("triton") else ["*test_ptx.py"]

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
HERE = Device("cpu", "cpu") if INTERPRETED or not torch.cuda.is_available() else cuda_device(0)
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LAYOUTS = (
    *("contiguous", "padded rows", "transposed", "every other column", "one row repeated"),
    "off a vector",
)


def described(name: str, capability: tuple[int, int]) -> Device:
    """The `Device` of a card in conf/gpu. A block has 1 KiB less shared memory than an SM."""
    facts = {key: one["value"] for key, one in read_yaml(CONF / "gpu")[name]["facts"].items()}
    return Device(
        kind="cuda",
        name=name,
        capability=capability,
        sms=facts["sms"],
        warp_size=32,
        registers_per_sm=65536,
        shared_bytes_per_sm=facts["shared_kib_per_sm"] << 10,
        shared_bytes_per_block=facts["shared_kib_per_sm"] - 1 << 10,
        warps_per_sm=48 if capability in ((8, 9), (12, 0)) else 64,
        l2_bytes=facts["l2_mib"] << 20,
    )


# how many clusters its driver reports
H200 = replace(described("h200", (9, 0)), clusters=(528, 248, 124, 58))


@pytest.fixture(scope="session")
def device() -> str:
    """The device of tensors: ``cuda``, or ``cpu`` if the interpreter runs the kernels."""
    return HERE.kind


@pytest.fixture
def room() -> None:
    """Skips a test of large matrices if fewer than 40 GiB of device memory are free."""
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free device memory")


def on_card(patch: pytest.MonkeyPatch, device_of: Callable[..., Device]) -> None:
    """Gives all imported modules of ``kernels`` the card of ``device_of``, and a fake stream."""
    stream = SimpleNamespace(cuda_stream=0)
    patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    patch.setattr(torch.cuda, "current_stream", lambda _=None: stream)
    patch.setattr(torch.cuda, "stream", nullcontext)
    for module in [m for name, m in sys.modules.items() if name.startswith("kernels.")]:
        if callable(getattr(module, "device_of", None)):
            patch.setattr(module, "device_of", device_of)


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of ``x``, of shape (…, M, N), with the strides of a layout in `LAYOUTS`."""
    *others, rows, cols = x.shape
    if layout in ("padded rows", "every other column"):
        every = 2 if layout == "every other column" else 1
        wide = torch.full((*others, rows, 2 * cols + 3), torch.nan, dtype=x.dtype, device=x.device)
        return wide[..., : every * cols : every].copy_(x)
    if layout == "transposed":
        return x.mT.contiguous().mT
    if layout == "one row repeated":
        return x[..., :1, :].expand(x.shape)
    if layout == "off a vector":
        storage = torch.full((x.numel() + 1,), torch.nan, dtype=x.dtype, device=x.device)
        return storage[1:].view(x.shape).copy_(x)
    return x


def extremes() -> torch.Tensor:
    """Ten rows of 40 with NaN and infinities at the edges of tiles of 16."""
    x = torch.randn(10, 40, generator=torch.Generator().manual_seed(0))
    x[0, :35] = -torch.inf  # the first two tiles have no finite value
    x[1, 3:] = -torch.inf
    x[2] = -torch.inf
    x[3, 20] = torch.nan
    x[4] = -torch.nan
    x[5] = -torch.inf
    x[5, 39] = torch.nan
    x[6, 30] = torch.inf
    x[7, 0] = torch.inf
    x[7, 39] = torch.inf
    x[8, :16] = -torch.inf
    x[8, 20] = torch.nan
    x[9] = 0.0
    return x


@pytest.fixture(scope="session", autouse=True)
def _language_replaced_once() -> Iterator[None]:
    """Makes Triton's interpreter patch `triton.language` once for each function.

    By default it does so at each call, and undoes it after each launch: half of a kernel's time.
    """
    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED and find_spec("triton"):
            from triton.runtime import interpreter

            if hasattr(interpreter, "_LangPatchScope"):  # of Triton 3.6 and 3.7
                patch.setattr(interpreter, "_patch_lang", cache(interpreter._patch_lang))
                patch.setattr(interpreter._LangPatchScope, "restore", lambda _: None)
        yield
