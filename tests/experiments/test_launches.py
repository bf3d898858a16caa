"""What a row says of launches is seen whoever launches, and nothing watches a timed call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.worker.launches import recorded


def test_a_compiled_kernel_that_a_library_kept_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_by = pytest.importorskip("triton.compiler").CompiledKernel
    launched: list[tuple[Any, ...]] = []

    def runner(self: Any, grid: Any) -> Any:
        return lambda *arguments: launched.append((grid, *arguments))

    monkeypatch.setattr(kept_by, "__getitem__", runner)
    kernel = object.__new__(kept_by)
    vars(kernel).update(metadata=SimpleNamespace(num_warps=8, shared=64), n_regs=32, n_spills=0)
    with recorded() as launches:
        kernel[5, 2, 1]("x")
        kernel[3, 1, 1]("y")
    kernel[9, 9, 9]("z")
    assert launched == [((5, 2, 1), "x"), ((3, 1, 1), "y"), ((9, 9, 9), "z")]
    assert launches.fields() == {
        "programs": 10, "warps": 8, "registers": 32, "shared_bytes": 64, "spills": 0,
    }  # fmt: skip
    assert kept_by.__getitem__ is runner
