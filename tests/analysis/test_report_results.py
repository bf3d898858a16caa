"""The main results: ratios of times, averaged as ratios, over points that all variants have."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.report.results import results_of
from experiments.data.metrics import derive
from experiments.data.rows import Row
from tests.analysis.plausible import interpreted, row, unsupported

H200 = "NVIDIA H200"


def frame(rows: list[Row]) -> pd.DataFrame:
    told = pd.DataFrame(derive(rows))
    return told.assign(above_roof=told["above_roof"].eq(True))


def timed(times: dict[str, tuple[float | None, ...]], first: int = 8192) -> pd.DataFrame:
    """Rows of 4096 × first, 2·first, …, all beyond the H200's L2."""
    return frame(
        [
            unsupported(kernel, first * 2**i) if t is None else row(kernel, first * 2**i, time_us=t)
            for kernel, each in times.items()
            for i, t in enumerate(each)
        ]
    )


def test_a_share_is_the_geometric_mean_of_time_ratios() -> None:
    found = results_of(timed({"copy": (10, 10), "online": (20, 40), "naive": (80, 80)}), H200)
    best = found.standings[0]
    assert best.variant == "online"
    assert best.share == pytest.approx(math.sqrt(0.5 * 0.25))
    assert best.over_naive == pytest.approx(math.sqrt(4 * 2))
    assert best.over_torch is None
    assert (best.highest, best.where) == (pytest.approx(0.5), "4096×8192 float32")


def test_variants_are_compared_where_all_have_a_time() -> None:
    times = {"copy": (10,) * 4, "online": (20,) * 4, "fused": (11, 11, 11, None)}
    found = results_of(timed(times), H200)
    assert found.compared == 3
    assert [s.variant for s in found.standings] == ["fused", "online"]
    assert found.points == {"ok": 11, "unsupported": 1}


def test_a_variant_with_few_points_is_named_not_compared() -> None:
    times = {"copy": (10,) * 4, "online": (20,) * 4, "fused": (11, None, None, None)}
    found = results_of(timed(times), H200)
    assert found.compared == 4
    assert found.left_out == ("fused",)


def test_a_point_above_the_roof_is_nobodys_highest_share() -> None:
    found = results_of(timed({"copy": (10, 10), "online": (5, 20)}), H200)
    assert found.standings[0].highest == pytest.approx(0.5)


def test_only_what_exceeds_l2_counts_where_its_size_is_known() -> None:
    times = {("copy", 256): 10, ("online", 256): 40, ("copy", 16384): 10, ("online", 16384): 20}
    rows = [row(*place, time_us=time) for place, time in times.items()]
    known = results_of(frame(rows), H200)
    assert (known.beyond_l2, known.compared) == (True, 1)
    assert known.standings[0].share == pytest.approx(0.5)
    unknown = results_of(frame([r.model_copy(update={"gpu": "A card"}) for r in rows]), "A card")
    assert (unknown.beyond_l2, unknown.compared) == (False, 2)


def test_interpreted_rows_are_counted_and_never_timed() -> None:
    found = results_of(frame([interpreted("online", 256)]), "A CPU")
    assert found.points == {"ok": 1}
    assert found.standings == ()
