"""Launches repeated without Triton, by doubles of its launcher; a card shows the rest."""

import inspect
from copy import copy
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from kernels.launch import launch, workspace
from kernels.repeat import _KNOWN, dense, repeatable


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


@pytest.fixture(params=[False, True], ids=["as of 3.6", "as of 3.7"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """A launcher of a Triton that is known, on device 0 with stream 7 and the CPU's memory."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(each, kind) for each in _KNOWN[request.param]]
    signature = inspect.Signature(names)
    monkeypatch.setattr(Launcher.__call__, "__signature__", signature, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 7, raising=False)
    guards = torch._C._dynamo.guards
    monkeypatch.setattr(guards, "_empty_strided_cuda", guards._empty_strided_cpu)
    return Launcher(request.param)


def test_the_launcher_of_the_installed_triton_is_one_that_is_known() -> None:
    driver = pytest.importorskip("triton.backends.nvidia.driver")
    assert list(inspect.signature(driver.CudaLauncher.__call__).parameters) in _KNOWN


def test_all_launches_are_repeated_on_other_memory(launcher: Launcher) -> None:
    first, second = Launchable(launcher), Launchable(launcher)

    def work(x: torch.Tensor, weight: None, y: torch.Tensor) -> None:
        space = workspace((3,), torch.float32, x.device)
        base = x.as_strided((1,), (1,), x.storage_offset() - x.data_ptr() % 16 // 4)
        launch(first, (2,), (base, weight, 5, space, y), {"BLOCK": 8})
        launch(second, (3,), (space, weight, 6, x, y), {"BLOCK": 9})

    again = repeatable(work, 0, dense((8,), torch.float32))
    pools = [torch.empty(64) for _ in range(4)]
    for lead in (0, 2, 0, 2):  # by each alignment, an ordinary launch and then a repeated one
        x = pools.pop()
        (y,) = again(x[lead:], None)
        pools.insert(0, x)
    assert (first.ordinary, second.ordinary) == (2, 2)
    assert (len(first.again), len(second.again)) == (2, 2)
    base, weight, n, space, z, block = first.again[-1]
    assert (base, weight, n, z, block) == (x.data_ptr(), None, 5, y.data_ptr(), 8)
    assert second.again[-1] == (space, None, 6, x[lead:].data_ptr(), y.data_ptr(), 9)


@pytest.mark.parametrize(
    "case", ["another tensor", "a tensor in a tuple", "nothing launched", "a profiler"]
)
def test_what_might_come_out_wrong_or_unseen_is_launched_the_ordinary_way(
    launcher: Launcher, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = pytest.importorskip("triton").knobs.runtime
    kernel, runs = Launchable(launcher), MagicMock()

    def work(x: torch.Tensor, y: torch.Tensor) -> None:
        runs()
        other = {"another tensor": torch.ones(1), "a tensor in a tuple": (x,)}.get(case)
        if case != "nothing launched":
            launch(kernel, (1,), (x, other, 1, y, y), {"BLOCK": 1})

    again = repeatable(work, 0)
    for turn in range(3):
        again(torch.empty(8), torch.empty(8))
        if case == "a profiler" and turn == 0:
            monkeypatch.setattr(runtime.launch_enter_hook, "calls", [print])
    assert runs.call_count == 3
    assert kernel.again == []


def test_two_places_that_held_one_tensor_are_told_apart_later(launcher: Launcher) -> None:
    kernel = Launchable(launcher)
    again = repeatable(lambda x, y: launch(kernel, (1,), (x, None, 1, y, y), {"BLOCK": 1}), 0)
    first, second, other = torch.ones(64), torch.ones(64), torch.ones(64)
    for pair in ((first, first), (first, second), (second, other)):
        again(*pair)
    (last,) = kernel.again
    assert last[0] == second.data_ptr()
    assert last[3] == last[4] == other.data_ptr()
