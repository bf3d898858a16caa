"""Attention's figures by rows whose answer is known, and its roofs and verdicts."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.figures.attention import (
    ATTENTION_FIGURES,
    FOLDED,
    NAIVE,
    QUERY,
    SOFTMAX,
    VALUES,
    parts_of,
    roofs_of,
)
from analysis.figures.limits import LIMITS
from analysis.limits import points_of
from analysis.load import Records
from analysis.roofline.verdicts import checked, predicted_by
from analysis.selection import select
from experiments.data.records import Counters
from tests.analysis.attention_rows import BYTES, EXPONENTIALS, FLOPS, LENGTHS, SLOWDOWN, M
from tests.analysis.attention_rows import attention_rows as rows_of
from tests.analysis.drawing import frame_of, lines, overhang, overlaps, rendered, words
from tests.analysis.records import counters

GPU = "NVIDIA H200"
TRAFFIC, TIME, PARTS = ATTENTION_FIGURES


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return frame_of(tmp_path_factory.mktemp("attention"), rows_of())


def test_the_three_roofs_are_memory_products_and_exponentials(frame: pd.DataFrame) -> None:
    shown = select(frame, GPU, QUERY)
    assert shown is not None
    roofs = roofs_of(shown, frame)
    for name, wanted in (
        ("attention_io roof", lambda n: 1024 * M / BYTES),
        ("matmul roof", lambda n: 512 * M * n / FLOPS),
        ("exponentials roof", lambda n: M * n / EXPONENTIALS),
    ):
        assert roofs[name].to_dict() == pytest.approx({n: wanted(n) for n in LENGTHS})


def test_its_share_is_of_the_roof_that_takes_longest(frame: pd.DataFrame) -> None:
    by = frame.set_index(["kernel", "cols"])
    points = points_of(frame, "attention")
    assert [point.cols for point in points] == [*LENGTHS]
    for point in points:
        n, online = point.cols, by.loc[("attention_online", point.cols)]
        longest = max(1024 * M / BYTES, 512 * M * n / FLOPS, M * n / EXPONENTIALS)
        assert online["fraction_of_roof"] == pytest.approx(longest / online["time_us"])
        assert point.share is not None
        assert point.share.value == pytest.approx(online["fraction_of_roof"])
        assert (point.own, point.best) == ("attention_online", "attention_torch")
    (page,) = LIMITS.pages(Records(), frame)
    assert page.title.startswith("At the limit: the longest roof and")
    assert "share of the longest roof, % (higher is better)" in words(rendered(page))


def test_time_is_drawn_beside_the_roofs_and_as_a_share_of_the_longest(frame: pd.DataFrame) -> None:
    (page,) = TIME.pages(Records(), frame)
    canvas = rendered(page)
    assert {"attention_io roof", "matmul roof", "exponentials roof"} < set(lines(canvas))
    share = lines(canvas, 1)["attention_torch"][:, 1]
    assert share == pytest.approx(1 / SLOWDOWN["attention_torch"])  # products bound it
    assert (overhang(canvas), overlaps(canvas)) == ([], [])


def test_traffic_and_memory_are_per_query_and_counters_of_another_m_stand_beside(
    frame: pd.DataFrame,
) -> None:
    seen = counters("naive", 65536, 4096, 1.0, 0.5).model_dump()
    record = Counters.model_validate(
        seen | {"kernel": NAIVE, "operation": "attention", "dtype": "bfloat16",
                "dram_read_bytes": 65536 * 20_000, "dram_write_bytes": 65536 * 5_000}
    )  # fmt: skip
    (page,) = TRAFFIC.pages(Records(counters=(record,)), frame)
    canvas = rendered(page)
    drawn, held = lines(canvas), lines(canvas, 1)
    assert drawn["counters"].tolist() == [[4096, 25.0]]
    for n, (kb, asked, most) in {
        512: (7.168, 4.608, 2.304),
        32768: (394.24, 262.656, 131.328),
    }.items():
        place = LENGTHS.index(n)
        assert drawn[NAIVE][place, 1] == pytest.approx(kb)
        assert drawn["attention_online"][place, 1] == pytest.approx(1.024)
        assert drawn["attention_online, asked of L2"][place, 1] == pytest.approx(asked)
        assert held[NAIVE][place, 1] == pytest.approx(most)
        assert held["attention_online"][place, 1] == pytest.approx(0.256)
    assert "attention_torch" not in drawn, "its model is no more than nominal"
    assert (overhang(canvas), overlaps(canvas)) == ([], [])


def test_the_parts_of_its_time_add_up_to_it(frame: pd.DataFrame) -> None:
    shown = select(frame, GPU, QUERY)
    assert shown is not None
    parts, times = parts_of(shown, frame), frame.set_index(["kernel", "cols"])["time_us"]
    for n in LENGTHS:
        assert parts.loc[n].sum() == pytest.approx(times[NAIVE, n])
        assert parts.loc[n, "the softmax"] == times[SOFTMAX, n]
        assert parts.loc[n, "p·v"] == times[VALUES, n]
        assert parts.loc[n, "scale"] == pytest.approx(times[NAIVE, n] - times[FOLDED, n])
    (page,) = PARTS.pages(Records(), frame)
    canvas = rendered(page)
    assert all(name in words(canvas) for name in ("q·kᵀ", "scale", "the softmax", "p·v"))
    assert overlaps(canvas) == []


def test_without_roofs_or_a_softmax_there_is_no_such_picture(tmp_path: Path) -> None:
    needed = {TIME: ("matmul", "exponentials"), PARTS: (SOFTMAX, VALUES)}
    for figure, without in [(each, one) for each, names in needed.items() for one in names]:
        rows = [row for row in rows_of((512, 1024)) if row.kernel != without]
        assert figure.pages(Records(), frame_of(tmp_path / without, rows)) == []
        assert without in figure.needs


def test_the_prediction_is_the_longest_of_bytes_and_arithmetic(frame: pd.DataFrame) -> None:
    points = checked(frame, Records())
    assert predicted_by(points) == "longest of model bytes, flops, exp / roof"
    by = points.set_index(["kernel", "cols"])
    cudnn, naive = by.loc[("attention_torch", 4096)], by.loc[(NAIVE, 4096)]
    assert cudnn["predicted_us"] == pytest.approx(512 * M * 4096 / FLOPS)
    assert cudnn["verdict"] == "compute"
    assert naive["predicted_us"] == pytest.approx((12 * M * 4096 + 1024 * M) / BYTES)
    softmax = frame[frame["kernel"] == SOFTMAX]
    assert softmax["arithmetic_us"].isna().all(), "it counts no arithmetic"
