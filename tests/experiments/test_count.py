"""The command ``python -m experiments.count``, and what counts as a request."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.count import main
from experiments.data.records import Count, read_records
from experiments.worker.counting import count as counted
from experiments.worker.requests import Recorder
from kernels.device import Device
from kernels.language import jit, tl
from tests.conf import KERNELS
from tests.conftest import DOUBLES

interpreter = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET", "0") in ("", "0"),
    reason="Triton compiles for the GPU in this process; the command has a worker interpret",
)


def count(out: Path, *arguments: str) -> tuple[Path, list[Count], str]:
    """Runs the command: where it wrote, the counts, and what it printed."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["--out", str(out), *arguments]) == 0
    return out, list(read_records(out / "counts.jsonl", Count)), printed.getvalue()


def test_every_variant_moves_what_it_declares_and_a_crash_stops_no_other(tmp_path: Path) -> None:
    _, counts, printed = count(tmp_path, "--config-dir", str(DOUBLES), "--dtypes", "float16",
        "--kernel", ",".join([*KERNELS, "segfault", "raise", "reread"]),
        "--shapes", "26x14,3x4200")  # fmt: skip
    assert {c.kernel for c in counts} == {*KERNELS, "segfault", "raise", "reread"}
    for record in counts:
        place = f"{record.kernel} at {record.rows}×{record.cols} {record.dtype}"
        if record.method == "none":
            assert str(record.reason).startswith(("not countable: ", "needs ", "takes ")), place
            assert record.tensors == [], place
        elif record.kernel == "naive":
            assert str(record.difference).endswith("3MN + 2M: max.indices (int64)"), place
        elif record.kernel == "reread":
            assert record.difference == "reads 3MN where the model says 2MN"
            assert record.difference in printed
        else:
            assert record.difference is None, f"{place}: {record.difference}"
    ratios = {c.model_reads // (c.rows * c.cols) for c in counts if c.kernel == "hybrid"}
    assert ratios == {1, 3}, "both sides of hybrid's block are among the shapes"
    reasons = {c.kernel: str(c.reason) for c in counts}
    died = "not countable: the worker died while counting: SIGSEGV"
    assert reasons["segfault"] == died
    assert reasons["raise"].startswith("not countable: it fails here with RuntimeError: first")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counts.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kernel", "fast"], "kernel 'fast' is unknown; there are add, "),
        (["--shapes", "4x"], "--shapes 4x; write rows x columns, as in 198x99"),
        (["--dtypes", "int8"], "--dtypes 'int8' is unknown; use one of "),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {expected}")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def moved(x: torch.Tensor, call: Callable[[torch.Tensor], object]) -> dict[str, tuple[int, int]]:
    """Loads and stores by tensor."""
    recorder = Recorder({"x": x})
    with recorder.recording():
        call(x)
    return {t["name"]: (t["loads"], t["stores"]) for t in recorder.totals()}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x.t()[1:].unsqueeze(0).expand(4, 7, 3).detach(), {}),
        (lambda x: torch.empty_like(x), {}),
        (lambda x: x.zero_(), {"x": (0, 24)}),
        (lambda x: torch.exp(x, out=torch.empty_like(x)), {"x": (24, 0), "empty_like": (0, 24)}),
        (lambda x: torch.empty_like(x).copy_(x), {"x": (24, 0), "empty_like": (0, 24)}),
        (lambda x: x + x[0].expand(3, 8), {"x": (32, 0), "add": (0, 24)}),
        (lambda x: x.exp().exp(), {"x": (24, 0), "exp": (24, 24), "exp#2": (0, 24)}),
        (lambda x: x.max(dim=1), {"x": (24, 0), "max.values": (0, 3), "max.indices": (0, 3)}),
        (lambda x: x[0, 0].item(), {"x": (1, 0)}),
    ],
)
def test_an_operation_reads_its_inputs_and_writes_its_outputs_once(
    call: Callable[[torch.Tensor], object], expected: dict[str, tuple[int, int]]
) -> None:
    assert moved(torch.ones(3, 8), call) == expected


@jit
def _tally(x: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr) -> None:
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < 5, other=0.0)
    tl.atomic_add(count, tl.sum(values))
    tl.store(count + 1, tl.load(count))


@interpreter
def test_atomics_read_and_write_scalars_are_one_element_and_memory_of_nobody_is_other() -> None:
    def call(x: torch.Tensor) -> None:
        _tally[(3,)](x, x.new_zeros(2), BLOCK=8)

    # zeros: 2 made; then each program: an atomic, a scalar load, a scalar store
    assert moved(torch.ones(5), call) == {"new_zeros": (6, 2 + 6), "x": (15, 0)}
    elsewhere = torch.zeros(2)
    found = moved(torch.ones(5), lambda x: _tally[(1,)](x, elsewhere, BLOCK=8))
    assert found == {"x": (5, 0), "other": (2, 2)}


SOFTMAX = "kernels.softmax"


def record(target: str, shape: tuple[int, int], dtype: str = "float32", **tunables: Any) -> Count:
    kernel = {"_target_": target, **tunables}
    point = {"kernel": kernel, "rows": shape[0], "cols": shape[1], "dtype": dtype, "seed": 0}
    return Count(kernel="variant", **counted(point, Device("cpu", "cpu")))


@interpreter
@pytest.mark.parametrize(
    ("target", "tunables", "shape", "dtype"),
    [
        ("hybrid.Hybrid", {"block_size": 32}, (3, 32), "float64"),
        ("hybrid.Hybrid", {"block_size": 32}, (3, 33), "float32"),
        ("online.Online", {"block_size": 128}, (2, 1), "bfloat16"),
        ("online.Online", {"block_size": 8, "reverse": True}, (7, 20),
         "float32"),
        ("online.Online", {"block_size": 16, "evict": "last_first"}, (4, 70),
         "float16"),
        ("fused_multirow.FusedMultirow", {"rows_per_program": 4}, (7, 13), "float16"),
        ("three_pass.ThreePass", {"block_size": 64}, (1, 5), "float32"),  # masked lanes: no request
        ("fused_row.FusedRow", {}, (0, 5), "float32"),
    ],
)  # fmt: skip
def test_counted_equals_modelled_exactly(
    target: str, tunables: dict[str, Any], shape: tuple[int, int], dtype: str
) -> None:
    found = record(f"{SOFTMAX}.{target}", shape, dtype, **tunables)
    assert found.method != "none", found.reason
    assert sum(t.load_bytes for t in found.tensors) == found.model_read_bytes
    assert sum(t.store_bytes for t in found.tensors) == found.model_write_bytes
    assert sum(t.loads for t in found.tensors) == found.model_reads
    assert found.difference is None
    assert {t.name for t in found.tensors} == ({"x", "y"} if shape[0] else set())


@interpreter
def test_a_difference_from_the_model_is_said_in_the_models_words() -> None:
    m, n = 5, 37
    naive = record(f"{SOFTMAX}.naive.Naive", (m, n), "float16")
    assert sum(t.loads for t in naive.tensors) == naive.model_reads == 5 * m * n + 2 * m
    (indices,) = [tensor for tensor in naive.tensors if tensor.dtype == "int64"]
    assert (indices.name, indices.stores, indices.store_bytes) == ("max.indices", m, 8 * m)
    words = "writes 3MN + 3M where the model says 3MN + 2M: max.indices (int64)"
    assert naive.difference == words
    copied = record("tests.doubles.traffic.HiddenCopy", (3, 8))
    words = "reads 2MN where the model says MN; writes 2MN where the model says MN"
    assert copied.difference == words
    assert [(t.name, t.loads, t.stores) for t in copied.tensors] == [
        ("x", 24, 0), ("clone", 24, 24), ("y", 0, 24),
    ]  # fmt: skip
