"""``python -m analysis claims``: tables with the keys of rows, counts, and no traceback."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.claims import judge_own
from tests.analysis.claims.bench import H200, WIDTHS, inputs
from tests.analysis.plausible import paper, row, write


def claims(folder: Path, *words: str) -> int:
    return main(["claims", "--rows", str(folder), "--out", str(folder / "out"), *words])


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_command_writes_its_tables_and_counts_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, paper())
    assert claims(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "The sources' claims, NVIDIA H200: " in printed
    assert " reproduced" in printed
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    # there are no rows of our own kernels
    assert names == [
        f"{one}.{kind}" for one in ("audit", "claims", "sources") for kind in ("csv", "md")
    ]
    found = {one["claim"]: one for one in lines(tmp_path / "out" / "claims.csv")}
    assert found["B2"]["claim_verdict"] == "contradicted"
    assert found["C6"]["claim_verdict"] == "not measured"
    assert found["C6"]["needs"].startswith("needs timed rows of hybrid_capped")


def test_our_claims_are_judged_where_our_kernels_have_rows(tmp_path: Path) -> None:
    assert judge_own(inputs(tmp_path / "a", [row("fused", 1024, time_us=10.0)]), H200) == []
    both = [
        row(kernel, 16384, time_us=time, round=i, key=kernel)
        for kernel, time in (("auto", 100.0), ("torch", 200.0), ("copy", 99.0))
        for i in range(2)
    ]
    judged = {one.id: one for one in judge_own(inputs(tmp_path / "b", both), H200)}
    assert judged["L4"].parts[0].outcome == "yes"
    assert (judged["L4"].verdict, judged["L26"].verdict) == ("not measured", "not measured")


def test_each_gpu_is_judged_by_its_own_rows(tmp_path: Path) -> None:
    for folder, gpu, speed in (("a", H200, 2.0), ("b", "NVIDIA A100-SXM4-80GB", 0.5)):
        point = {"rows": 8192, "dtype": "float16", "gpu": gpu, "sweep": folder}
        rows = [row("hybrid_whole", 32000, time_us=10.0, **point, key=f"h{folder}")]
        rows += [row("torch", 32000, time_us=10.0 * speed, **point, key=f"t{folder}")]
        rows += [
            row("fused", n, time_us=10.0, sweep=folder, gpu=gpu, key=f"{n}{gpu}") for n in WIDTHS
        ]
        write(tmp_path / "rows" / folder, rows[: 3 if folder == "a" else None])
    assert claims(tmp_path / "rows") == 0
    found = [one for one in lines(tmp_path / "rows" / "out" / "claims.csv") if one["claim"] == "C4"]
    ways = {one["gpu"]: one["direction"] for one in found}
    assert ways == {H200: "better", "NVIDIA A100-SXM4-80GB": "worse"}
    behind = {one["gpu"]: one["keys"].split() for one in found if one["part"].startswith("Triton")}
    assert behind == {H200: ["ha", "ta"], "NVIDIA A100-SXM4-80GB": ["hb", "tb"]}
