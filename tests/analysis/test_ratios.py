from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.estimate import speedups
from analysis.figures.specs import SPEEDUP_NAIVE, SPEEDUP_TORCH
from analysis.selection import Query, select
from experiments.data.rows import Row
from tests.analysis.drawing import draw, frame_of, lines, words
from tests.analysis.plausible import PAPER, paper, row

MODELS = {"torch": "2MN", "online": "3MN", "three_pass": "4MN", "naive": "8MN + 4M"}


def ratios(tmp_path: Path, rows: list[Row], base: str) -> pd.DataFrame:
    view = select(frame_of(tmp_path, rows), "NVIDIA H200", Query(4096, "float32"))
    assert view is not None
    return speedups(view, base).points.set_index(["variant", "cols"])


def test_a_speedup_is_the_time_ratio_with_an_interval_of_both_ends(tmp_path: Path) -> None:
    rows = [row("naive", n, time_us=40.0) for n in (256, 512)]
    rows += [row("torch", n, time_us=10.0) for n in (256, 512)]
    found = ratios(tmp_path, rows, "naive").loc["torch", 256]
    assert found["speedup"] == pytest.approx(4.0)
    ends = found["speedup_low"], found["speedup_high"]
    assert ends == pytest.approx((40 * 0.99 / (10 * 1.01), 40 * 1.01 / (10 * 0.99)))


def test_a_ratio_needs_both_times_at_the_same_size(tmp_path: Path) -> None:
    rows = [row("naive", n) for n in (256, 512)]
    rows += [row("naive", 1024, status="incorrect", time_us=9.0)]
    rows += [row("torch", n) for n in (512, 1024)]
    rows += [row("fused", n, status="incorrect", time_us=1.0) for n in (256, 512)]
    found = ratios(tmp_path, rows, "naive")["speedup"]
    assert np.isfinite(found["torch", 512])
    assert np.isnan(found["torch", 1024])
    assert found["fused"].isna().all()
    assert "naive" not in found.index.get_level_values("variant")


def test_the_base_with_several_settings_counts_with_its_fastest(tmp_path: Path) -> None:
    rows = [row("torch", n, time_us=10.0) for n in (256, 512)]
    rows += [row("naive", n, time_us=t, params={"a": t}, key=f"{n}{t}") for n in (256, 512)
             for t in (30.0, 20.0)]  # fmt: skip
    assert ratios(tmp_path, rows, "naive")["speedup"]["torch", 256] == pytest.approx(2.0)


def test_the_interval_of_a_ratio_stands_in_the_figure(tmp_path: Path) -> None:
    rows = [row("naive", n, time_us=40.0) for n in (256, 512)]
    rows += [row("torch", n, time_us=10.0) for n in (256, 512)]
    bars, *_ = draw(tmp_path, SPEEDUP_NAIVE, rows).axes[0].collections
    low, high = bars.get_paths()[0].vertices[:, 1]  # type: ignore[attr-defined]
    assert (low, high) == pytest.approx((4 * 0.99 / 1.01, 4 * 1.01 / 0.99))


def test_speedups_stand_beside_what_a_and_d_published(tmp_path: Path) -> None:
    sheet = draw(tmp_path, SPEEDUP_NAIVE, paper())
    drawn = lines(sheet)
    assert drawn["A: fused"][:, 1] == pytest.approx([4.0, 4.0, 65 / 18, 3.2, 95 / 32, 100 / 38])
    assert drawn["A: torch"][0, 1] == pytest.approx(20 / 12)
    assert set(drawn["A: ≈4× naive in JIT"][:, 1]) == {4}
    assert "D: 3–4× naive" in {str(p.get_label()) for p in sheet.axes[0].patches}
    other = lines(draw(tmp_path, SPEEDUP_TORCH, paper()))
    assert other["A: fused"][:, 1] == pytest.approx([2.4, 2.2, 40 / 18, 2.2, 70 / 32, 78 / 38])
    assert set(other["D: ≈4× torch"][:, 1]) == {4}
    assert set(other["E: up to 3×"][:, 1]) == {3}
    assert set(other["torch"][:, 1]) == {1}


def test_the_ratio_that_models_predict_is_drawn_once_a_model(tmp_path: Path) -> None:
    rows = [r.model_copy(update={"model_formula": MODELS.get(r.kernel, "2MN")}) for r in paper()]
    sheet = draw(tmp_path, SPEEDUP_NAIVE, rows)
    told = [text.get_text() for text in sheet.axes[0].texts if "by traffic" in text.get_text()]
    assert sorted(told) == ["2MN by traffic", "3MN by traffic", "4MN by traffic"]
    quiet = [line for line in sheet.axes[0].get_lines() if str(line.get_label()).startswith("_")]
    heights = {round(float(np.asarray(line.get_ydata())[0]), 2) for line in quiet
               if len(np.asarray(line.get_xdata())) == len(PAPER)}  # fmt: skip
    assert {4.0, 2.67, 2.0} <= heights
    assert "by traffic" not in words(draw(tmp_path, SPEEDUP_NAIVE, paper()))  # no formula, no line
