"""Which points ``compare`` holds against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.compared import lines, refused, rounds, run, told
from tests.analysis.plausible import ENVIRONMENT, row, unsupported
from tests.analysis.rounded import rounded_rows

pytestmark = pytest.mark.usefixtures("inside", "small_pictures")


def test_points_are_matched_by_identity_whatever_code_versions_and_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = ENVIRONMENT | {"torch": "2.14.0", "commit": "f" * 40}
    other = rounds(2, key="another", sweep="another", environment=newer)
    other.reverse()
    assert run(tmp_path, rounds(1), [r.model_copy(update={"key": f"{r.key}-{r.kernel}{r.cols}"})
                                     for r in other]) == 0  # fmt: skip
    assert len(lines(tmp_path)) == 6
    out = told(capsys)
    assert "torch 2.13.0 → 2.14.0" in out
    assert "commit 0123456789ab → ffffffffffff" in out
    assert "triton" not in out


def test_other_parameters_dtype_card_or_protocol_is_another_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: list[dict[str, Any]] = [
        {"params": {"num_warps": 4}}, {"dtype": "float16"}, {"card": 1}, {"timer": "graph"},
        {"cache": "warm"}, {"rows": 8},
    ]  # fmt: skip
    base = [row("fused", 1024), row("torch", 1024)]
    for change in changes:
        head = [row("fused", 1024, **change), row("torch", 1024)]
        assert run(tmp_path, base, head) == 0
        assert [line["kernel"] for line in lines(tmp_path)] == ["torch"]
        out = told(capsys)
        assert "Only in BASE: 1 point," in out
        assert "Only in HEAD: 1 point," in out


def test_a_point_that_fails_now_is_a_regression_though_it_has_no_protocol(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = row("fused", 1024, time_us=None, status="crashed", reason="lost its worker")
    gone = gone.model_copy(update={"timer": None, "cache": None})
    assert run(tmp_path, [row("fused", 1024), row("copy", 1024)], [gone, row("copy", 1024)]) == 1
    out = told(capsys)
    assert "ok → crashed (lost its worker)" in out
    assert "Regression: 1 point ok no more." in out
    assert run(tmp_path, [gone, row("copy", 1024)], [row("fused", 1024), row("copy", 1024)]) == 0
    assert "fixed" in told(capsys)


def test_what_never_ran_is_no_regression(tmp_path: Path) -> None:
    rows = [unsupported("fused", 1024), *rounded_rows("copy", 1024, [50.0] * 8)]
    assert run(tmp_path, rows, rows) == 0
    assert {line["kernel"]: line["verdict"] for line in lines(tmp_path)} == {
        "copy": "same", "fused": "no time"
    }  # fmt: skip


def test_times_of_an_interpreter_are_not_compared(tmp_path: Path) -> None:
    sides = [rounded_rows("online", 8, [t] * 8, backend="interpreter") for t in (50.0, 99.0)]
    assert run(tmp_path, *sides) == 0
    assert [line["verdict"] for line in lines(tmp_path)] == ["no time"]


def test_another_gpu_model_is_refused_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rounds(2, gpu="NVIDIA H100 80GB HBM3")
    error = refused(run(tmp_path, rounds(1), other), capsys)
    assert "NVIDIA H200" in error
    assert "--across-gpus" in error
    assert run(tmp_path, rounds(1), other, "--across-gpus") == 0
    assert len(lines(tmp_path)) == 6
    assert {line["GPU"] for line in lines(tmp_path)} == {"NVIDIA H200 → NVIDIA H100 80GB HBM3"}
    assert (tmp_path / "out/compare-nvidia-h200-nvidia-h100-80gb-hbm3-events-cold.svg").exists()
    both = other + rounds(3)
    assert "one GPU model with one" in refused(
        run(tmp_path, rounds(1), both, "--across-gpus"), capsys
    )
