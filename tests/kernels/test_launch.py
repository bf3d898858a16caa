"""What may be launched again, when hints are asked for; that it comes out right, a GPU shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock, call

import pytest
import torch
from torch import func
from torch.utils.flop_counter import FlopCounterMode

from kernels import launch as launching
from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device
from kernels.launch import launch, launches, load_hint, store_hint
from kernels.repeat import _KNOWN, alike

L2 = 4096  # bytes
Call = Callable[[torch.Tensor], torch.Tensor]


class Flat:
    """Triton's launcher as of 3.6: the kernel's arguments follow its own."""

    global_scratch_size = profile_scratch_size = 0

    def __init__(self) -> None:
        self.launch = MagicMock()

    def __call__(
        self, gridX: int, gridY: int, gridZ: int, stream: int, function: int, *args: Any
    ) -> None:
        self.launch(gridX, gridY, gridZ, stream, function, False, *args)


class Grouped(Flat):
    """As of 3.7: they are one of its own, a tuple."""

    def __call__(
        self,
        gridX: int,
        gridY: int,
        gridZ: int,
        stream: int,
        function: int,
        kernel_metadata: Any,
        launch_metadata: Any,
        launch_enter_hook: Any,
        launch_exit_hook: Any,
        *args: Any,
    ) -> None:
        hooks = launch_enter_hook, launch_exit_hook
        self.launch(gridX, gridY, gridZ, stream, function, kernel_metadata, *hooks, args)


class Unknown(Flat):
    def __call__(self, *args: Any) -> None:
        self.launch(*args)


class Needing(Flat):
    """A launcher of a kernel that needs memory of its own at each launch."""

    global_scratch_size = 8


class Compiled:
    """Stands for a compiled kernel."""

    function, packed_metadata = 77, (4, 1, 0)

    def __init__(self, launcher: Callable[[], Any] = Flat) -> None:
        self.run = launcher()


def test_a_launch_is_the_ordinary_one_and_is_told_to_who_listens() -> None:
    x, y = torch.ones(3), torch.ones(3)
    function = MagicMock(arg_names=("x", "y", "cols", "BLOCK"))
    with launches() as seen:
        launch(function, (5,), (x, y, 3), {"BLOCK": 4}, num_warps=8)
    launch(function, (6,), (x, y, 3), {"BLOCK": 4})
    assert function.__getitem__.call_args_list == [call((5,)), call((6,))]
    assert function[5].call_args_list == [
        call(x, y, 3, BLOCK=4, num_warps=8),
        call(x, y, 3, BLOCK=4),
    ]
    (one,) = seen
    assert (one.grid, one.arguments[2:]) == ((5, 1, 1), (3, 4))


def negated(x: torch.Tensor) -> torch.Tensor:
    return torch._neg_view(x)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x[:2],
        lambda x: x.t().contiguous().t(),
        lambda x: x.double(),
        lambda x: x.clone().requires_grad_(),
        lambda x: x.to("meta"),
        negated,
        torch.nn.Parameter,
    ],
)
def test_tensors_are_alike_if_a_launch_could_not_tell_them_apart(other: Call) -> None:
    x = torch.randn(3, 3)
    same = alike(x)
    assert same(torch.ones(3, 3))
    assert not same(other(x))
    pair = alike(x, x.t())
    assert pair(torch.ones(3, 3), torch.ones(3, 3).t())
    assert not pair(torch.ones(3, 3), torch.ones(3, 3))


def test_no_tensors_are_alike_while_something_watches() -> None:
    x, said = torch.randn(3), []
    same = alike(x)

    def asked(other: torch.Tensor) -> torch.Tensor:
        said.extend((same(x), same(other)))
        return other * 2

    with FlopCounterMode(display=False):
        asked(x)
    func.vmap(asked)(torch.ones(2, 3))
    func.functionalize(asked)(x)
    func.jvp(asked, (x,), (x,))
    torch.jit.trace(asked, (x,), check_trace=False)  # type: ignore[no-untyped-call]
    assert len(said) == 10
    assert not any(said)
    assert same(x)


def test_the_launcher_of_the_installed_triton_is_one_that_is_known() -> None:
    driver = pytest.importorskip("triton.backends.nvidia.driver")
    assert list(inspect.signature(driver.CudaLauncher.__call__).parameters) in _KNOWN


@pytest.mark.parametrize(
    ("size", "loads", "stores"),
    [
        (L2 - 1, "", ""),
        (L2, "evict_last", "evict_last"),
        (8 * L2 - 1, "evict_last", "evict_last"),
        (8 * L2, "evict_last", ""),
    ],
)
def test_hints_go_by_bytes_unless_they_are_asked_for(
    size: int, loads: str, stores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.empty(size, dtype=torch.int8)
    assert load_hint(x, None) == store_hint(x, None) == "", "a CPU reports no L2"
    card = Device("cuda", "a card", l2_bytes=L2)
    monkeypatch.setattr(launching, "device_of", lambda _: card)
    assert (load_hint(x, None), store_hint(x, None)) == (loads, stores)
    assert load_hint(x, True) == store_hint(x, True) == "evict_last"
    assert load_hint(x, False) == store_hint(x, False) == ""


@pytest.mark.parametrize("tunable", ["keep", "keep_output"])
def test_a_hint_changes_no_bit(tunable: str, device: str) -> None:
    x = torch.randn(9, 300, device=device)
    asks, asks_not = (CopyTriton(**{tunable: wanted}) for wanted in (True, False))
    assert torch.equal(asks(x), asks_not(x))
