"""What is launched again, and when hints are asked for; that it comes out right, a GPU shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import pytest
import torch
from torch import func
from torch.utils.flop_counter import FlopCounterMode

from kernels import launch as launching
from kernels.calls import like_rows
from kernels.device import Device
from kernels.launch import launch, load_hint, recording, store_hint, workspace
from kernels.repeat import _KNOWN, Repeatable, alike, dense
from kernels.roofs.mover import CopyTriton

L2 = 4096  # bytes
Call = Callable[[torch.Tensor], torch.Tensor]


class Launcher:
    """Triton's launcher: the kernel's arguments follow its own, or are one of its own, a tuple."""

    global_scratch_size = profile_scratch_size = 0

    def __init__(self, grouped: bool) -> None:
        self.launch, self.grouped = MagicMock(), grouped

    def __call__(self, *given: Any) -> None:
        if self.grouped:
            self.launch(*given[:6], *given[7:9], given[9:])
        else:
            self.launch(*given[:5], False, *given[5:])


@pytest.fixture(params=[False, True], ids=["as of 3.6", "as of 3.7"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """A launcher whose parameters are those of a Triton that is known."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(each, kind) for each in _KNOWN[request.param]]
    signature = inspect.Signature(names)
    monkeypatch.setattr(Launcher.__call__, "__signature__", signature, raising=False)
    return Launcher(request.param)


def test_a_launch_is_the_ordinary_one_and_is_told_to_who_listens() -> None:
    x, y = torch.ones(3), torch.ones(3)
    function = MagicMock(arg_names=("x", "y", "cols", "BLOCK"))
    with recording() as seen:
        launch(function, (5,), (x, y, 3), {"BLOCK": 4}, num_warps=8)
    launch(function, (6,), (x, y, 3), {"BLOCK": 4})
    assert function.__getitem__.call_args_list == [call((5,)), call((6,))]
    assert function[5].call_args_list == [
        call(x, y, 3, BLOCK=4, num_warps=8),
        call(x, y, 3, BLOCK=4),
    ]
    (one,) = seen.launches
    assert (one.grid, one.arguments[2:]) == ((5, 1, 1), (3, 4))


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x[:2],
        lambda x: x.t().contiguous().t(),
        lambda x: x.double(),
        lambda x: x.clone().requires_grad_(),
        lambda x: x.to("meta"),
        torch._neg_view,
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


SOME, OTHER = torch.ones(64), torch.ones(64)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device 0 with stream 7, whose memory is the CPU's."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 7, raising=False)
    guards = torch._C._dynamo.guards
    monkeypatch.setattr(guards, "_empty_strided_cuda", guards._empty_strided_cpu)


class Launchable:
    """A kernel of (x, weight, y, n, z, BLOCK): tensors in between numbers, as Triton takes them."""

    arg_names = ("x", "weight", "n", "y", "z", "BLOCK")

    def __init__(self, launcher: Launcher) -> None:
        self.compiled = SimpleNamespace(
            run=copy(launcher), function=77, packed_metadata=(4, 1, 0)
        )  # as Triton compiles it
        self.compiled.run.launch = MagicMock()
        self.ordinary = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*_: Any, **__: Any) -> SimpleNamespace:
            self.ordinary += 1
            return self.compiled

        return run

    @property
    def again(self) -> list[tuple[Any, ...]]:
        """The kernel's arguments in each repeated launch."""
        calls = self.compiled.run.launch.call_args_list
        return [c.args[-1] if isinstance(c.args[-1], tuple) else c.args[-6:] for c in calls]


@pytest.mark.usefixtures("card")
def test_all_launches_are_repeated_on_other_memory(launcher: Launcher) -> None:
    first, second = Launchable(launcher), Launchable(launcher)

    def work(x: torch.Tensor, weight: None, y: torch.Tensor) -> None:
        space = workspace((3,), torch.float32, x.device)
        base = x.as_strided((1,), (1,), x.storage_offset() - x.data_ptr() % 16 // 4)
        launch(first, (2,), (base, weight, 5, space, y), {"BLOCK": 8})
        launch(second, (3,), (space, weight, 6, x, y), {"BLOCK": 9})

    repeatable = Repeatable(work, 0, dense((8,), torch.float32))
    pools = [torch.empty(64) for _ in range(4)]
    for lead in (0, 2, 0, 2):  # by each alignment, an ordinary launch and then a repeated one
        x = pools.pop()
        (y,) = repeatable(x[lead:], None)
        pools.insert(0, x)
        last = x, y, lead
    assert (first.ordinary, second.ordinary) == (2, 2)
    assert (len(first.again), len(second.again)) == (2, 2)
    x, y, lead = last
    base, weight, n, space, z, block = first.again[-1]
    assert (base, weight, n, z, block) == (x.data_ptr(), None, 5, y.data_ptr(), 8)
    assert second.again[-1] == (space, None, 6, x[lead:].data_ptr(), y.data_ptr(), 9)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("case", ["another tensor", "a tensor in a tuple", "nothing launched"])
def test_what_might_come_out_wrong_is_launched_the_ordinary_way(
    launcher: Launcher, case: str
) -> None:
    kernel, runs = Launchable(launcher), MagicMock()

    def work(x: torch.Tensor, y: torch.Tensor) -> None:
        runs()
        if case != "nothing launched":
            other = torch.ones(1) if case == "another tensor" else (x,)
            launch(kernel, (1,), (x, other, 1, y, y), {"BLOCK": 1})

    repeatable = Repeatable(work, 0)
    for _ in range(3):
        repeatable(torch.empty(8), torch.empty(8))
    assert runs.call_count == 3
    assert kernel.again == []


@pytest.mark.usefixtures("card")
def test_two_places_that_held_one_tensor_are_told_apart_later(launcher: Launcher) -> None:
    kernel = Launchable(launcher)
    repeatable = Repeatable(lambda x, y: launch(kernel, (1,), (x, None, 1, y, y), {"BLOCK": 1}), 0)
    first, second, other = torch.ones(64), torch.ones(64), torch.ones(64)
    for pair in ((first, first), (first, second), (second, other)):
        repeatable(*pair)
    (last,) = kernel.again
    assert last[0] == second.data_ptr()
    assert last[3] == last[4] == other.data_ptr()


@pytest.mark.usefixtures("card")
def test_profilers_see_every_launch(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("triton").knobs.runtime
    kernel = Launchable(launcher)
    repeatable = Repeatable(lambda x, y: launch(kernel, (1,), (x, None, 1, y, y), {"BLOCK": 1}), 0)
    repeatable(SOME, OTHER)
    monkeypatch.setattr(runtime.launch_enter_hook, "calls", [print])
    repeatable(SOME, OTHER)
    assert (kernel.ordinary, kernel.again) == (2, [])


def test_memory_like_rows_keeps_small_gaps_alone() -> None:
    x = torch.empty(4, 64)
    assert like_rows(x[:, :60]).stride() == (64, 1)
    assert like_rows(x[:, :10]).stride() == (10, 1)
    assert like_rows(x[:1].expand(4, 64)).stride() == (64, 1)
