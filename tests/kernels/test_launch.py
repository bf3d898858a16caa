"""What may be launched again and what may not; that it comes out right, a GPU shows."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from kernels.launch import _KNOWN, Launched, launch, launches, replay


class Function:
    """Stands for what ``@triton.jit`` makes, without a GPU."""

    arg_names = ("x", "y", "cols", "BLOCK")

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((grid, arguments, options))
            return Compiled()

        return call


class Compiled:
    """Stands for a compiled kernel of a Triton whose launcher is not known."""

    run = None

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *arguments, stream: self.ran.append((grid, stream, arguments))


def test_a_launch_is_the_ordinary_one_and_is_told_to_who_listens() -> None:
    function, x, y = Function(), torch.ones(3), torch.ones(3)
    with launches() as seen:
        launch(function, (5,), (x, y, 3), {"BLOCK": 4}, num_warps=8)
    launch(function, (6,), (x, y, 3), {"BLOCK": 4})
    assert [call[0] for call in function.calls] == [(5,), (6,)]
    assert function.calls[0][1:] == ((x, y, 3), {"BLOCK": 4, "num_warps": 8})
    (one,) = seen
    assert one.grid == (5, 1, 1)
    assert one.arguments[2:] == (3, 4)


def test_again_takes_other_memory_and_the_same_rest() -> None:
    compiled, x, y = Compiled(), torch.ones(3), torch.ones(3)
    again = replay(Launched(compiled, (5, 1, 1), (x, y, 3, 4)), (x, y))
    assert again is not None
    again(7, 160, 320)
    assert compiled.ran == [((5, 1, 1), 7, (160, 320, 3, 4))]


@pytest.mark.parametrize("case", ["third tensor", "other input", "other dtype", "interpreter"])
def test_what_might_come_out_wrong_is_not_launched_again(case: str) -> None:
    x, y = torch.ones(3), torch.ones(3)
    compiled: Any = None if case == "interpreter" else Compiled()
    rest = (torch.ones(1),) if case == "third tensor" else (3,)
    given = {"other input": (y, x), "other dtype": (x.view(torch.int32), y)}.get(case, (x, y))
    assert replay(Launched(compiled, (5, 1, 1), (x, y, *rest)), given) is None


def test_the_launcher_of_the_installed_triton_is_one_that_is_known() -> None:
    driver = pytest.importorskip("triton.backends.nvidia.driver")
    assert list(inspect.signature(driver.CudaLauncher.__call__).parameters) in _KNOWN
