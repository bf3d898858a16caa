"""What is launched again of several launches; that it comes out right, a GPU shows."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from kernels.calls import like_rows
from kernels.launch import launch, workspace
from kernels.repeat import Repeatable
from tests.kernels.test_launch import Compiled, Flat, Grouped

SOME = torch.ones(64)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device 0 with stream 7, whose memory is the CPU's."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 7, raising=False)
    guards = torch._C._dynamo.guards
    monkeypatch.setattr(guards, "_empty_strided_cuda", guards._empty_strided_cpu)


class Kernel:
    """A kernel of (x, weight, y, n, z, BLOCK): tensors in between numbers, as Triton takes them."""

    arg_names = ("x", "weight", "n", "y", "z", "BLOCK")

    def __init__(self, launcher: Any) -> None:
        self.compiled, self.ordinary = Compiled(launcher), 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*_: Any, **__: Any) -> Compiled:
            self.ordinary += 1
            return self.compiled

        return run

    @property
    def again(self) -> list[tuple[Any, ...]]:
        """The kernel's arguments in each repeated launch."""
        calls = self.compiled.run.launch.call_args_list
        return [c.args[-1] if isinstance(c.args[-1], tuple) else c.args[-6:] for c in calls]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("launcher", [Flat, Grouped])
def test_all_launches_are_repeated_on_other_memory(launcher: Any) -> None:
    first, second = Kernel(launcher), Kernel(launcher)

    def work(x: torch.Tensor, weight: None, y: torch.Tensor) -> None:
        space = workspace((3,), torch.float32, x.device)
        base = x.as_strided((1,), (1,), x.storage_offset() - x.data_ptr() % 16 // 4)
        launch(first, (2,), (base, weight, 5, space, y), {"BLOCK": 8})
        launch(second, (3,), (space, weight, 6, x, y), {"BLOCK": 9})

    repeatable = Repeatable(work, 0)
    pools = [torch.empty(64) for _ in range(4)]
    for lead in (0, 2, 0, 2):  # by each alignment, an ordinary launch and then a repeated one
        x, y = pools.pop(), torch.empty(8)
        repeatable(x[lead:], None, y)
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
def test_what_might_come_out_wrong_is_launched_the_ordinary_way(case: str) -> None:
    kernel = Kernel(Flat)
    runs = MagicMock()

    def work(x: torch.Tensor, y: torch.Tensor) -> None:
        runs()
        if case == "nothing launched":
            return
        other = torch.ones(1) if case == "another tensor" else (x,)
        launch(kernel, (1,), (x, other, 1, y, y), {"BLOCK": 1})

    repeatable = Repeatable(work, 0)
    for _ in range(3):
        repeatable(torch.empty(8), torch.empty(8))
    assert runs.call_count == 3
    assert kernel.again == []


@pytest.mark.usefixtures("card")
def test_profilers_see_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("triton").knobs.runtime
    kernel = Kernel(Flat)
    repeatable = Repeatable(lambda x, y: launch(kernel, (1,), (x, None, 1, y, y), {"BLOCK": 1}), 0)
    repeatable(SOME, SOME)
    monkeypatch.setattr(runtime.launch_enter_hook, "calls", [print])
    repeatable(SOME, SOME)
    assert (kernel.ordinary, kernel.again) == (2, [])


def test_memory_like_rows_keeps_small_gaps_alone() -> None:
    x = torch.empty(4, 64)
    assert like_rows(x[:, :60]).stride() == (64, 1)
    assert like_rows(x[:, :10]).stride() == (10, 1)
    assert like_rows(x[:1].expand(4, 64)).stride() == (64, 1)
