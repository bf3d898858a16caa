"""The command ``python -m experiments.count``, and what is a difference."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.count import run
from experiments.data.files import read_models
from experiments.data.records import Count
from experiments.worker.counting import count
from kernels.cross_entropy.variants import CeOnline
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.softmax.hybrid import FusedRow
from kernels.traffic import M
from tests.kernels.conftest import INTERPRETED

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="Triton compiles here for a GPU")


def test_a_record_says_how_each_variant_differs_from_what_it_declares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("naive", "hybrid", "copy", "compiled", "quack")
    monkeypatch.setattr("experiments.count.SHAPES", [(26, 14), (1, 4200)])
    monkeypatch.setattr("experiments.count.COUNTED_DTYPES", ["float16"])
    run(tmp_path, names)
    counts = list(read_models(tmp_path / "counts.jsonl", Count))
    assert {c.kernel for c in counts} == {*names}
    differing = {c.kernel: c.difference for c in counts if c.difference}
    assert differing == {"naive": "writes 12603 elements where the model says 3MN + 2M, 12602"}
    assert "naive        writes 1170 elements" in capsys.readouterr().out
    for record in counts:
        if record.method == "none":
            assert str(record.reason).startswith(("not countable: ", "needs ", "takes "))
            assert record.tensors == []
    ratios = {c.model_reads // (c.rows * c.cols) for c in counts if c.kernel == "hybrid"}
    assert ratios == {1, 3}, "both sides of hybrid's block are among the shapes"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counts.jsonl"]


def test_what_the_model_does_not_know_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(kernel: Kernel) -> Count:
        return count("it", kernel, (3, 8), torch.float32, Device("cpu", "cpu"))

    run = FusedRow.__call__  # a stray `contiguous()` would copy so
    monkeypatch.setattr(FusedRow, "__call__", lambda self, x: run(self, x.clone()))
    found = counted(FusedRow())
    more = "48 elements where the model says MN, 24"
    assert found.difference == f"reads {more}; writes {more}"
    assert [(t.name, t.loads, t.stores) for t in found.tensors] == [
        ("x", 24, 0), ("clone", 24, 24), ("y", 0, 24),
    ]  # fmt: skip
    moves = replace(CeOnline().traffic(), read_bytes=4 * M)  # of a target, which takes eight
    monkeypatch.setattr(CeOnline, "traffic", lambda self: moves)
    found = counted(CeOnline())
    assert found.difference == "reads 24 bytes where the model says 4M, 12"
