"""Which rows a ratio pairs, which it leaves out, and what it says where there are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.analysis.claims.bench import WIDTHS, judgement, judgements, pairs, ratio, timed
from tests.analysis.plausible import interpreted, unsupported


def test_neighbours_of_another_sweep_card_protocol_or_dtype_never_pair(tmp_path: Path) -> None:
    for i, change in enumerate((
        {"sweep": "other"}, {"card": 1}, {"round": 1}, {"cache": "warm"}, {"timer": "graph"},
        {"dtype": "float16"}, {"rows": 8192},
    )):  # fmt: skip
        rows = [timed("fused", n, 10.0) for n in WIDTHS]
        rows += [timed("torch", n, 20.0, key=f"t{n}", **change) for n in WIDTHS]
        found = judgement(tmp_path / str(i), rows, ratio({"above": 1}))
        assert found.verdict == "not testable here", change


def test_of_several_rounds_the_middle_counts_with_an_interval_around_all(tmp_path: Path) -> None:
    rows = [
        made
        for visit, speed in enumerate((1.8, 2.0, 2.4))
        for cols in WIDTHS
        for made in (timed("fused", cols, 10.0, round=visit),
                     timed("torch", cols, 10.0 * speed, round=visit))
    ]  # fmt: skip
    found = judgement(tmp_path, rows, ratio({"at_least": 1.9}))
    assert found.value == pytest.approx(2.0)
    assert found.low == pytest.approx(1.8 * 0.99 / 1.01)
    assert found.high == pytest.approx(2.4 * 1.01 / 0.99)
    assert found.verdict == "inconclusive"


def test_rows_above_the_roof_never_enter(tmp_path: Path) -> None:
    rows = [*pairs(2, 2), timed("fused", 4096, 1.0), timed("torch", 4096, 20.0)]
    rows += [timed("copy", cols, 9.0) for cols in WIDTHS]
    found = judgement(tmp_path, rows, ratio({"about": 2, "within": "3%"}))
    assert found.verdict == "supported"
    assert "2 points" in found.measured


def test_the_interpreter_s_rows_have_no_times(tmp_path: Path) -> None:
    place = {"gpu": "A CPU", "device": "cpu"}
    torch = [timed("torch", n, 20.0, **place) for n in WIDTHS]
    timeless = [interpreted("fused", n, **place) for n in WIDTHS]
    meaningless = [timed("fused", n, 10.0, backend="interpreter", **place) for n in WIDTHS]
    for i, rows in enumerate((timeless, meaningless)):
        found = judgement(tmp_path / str(i), [*rows, *torch], ratio({"above": 1}))
        assert found.verdict == "not testable here"
        assert "interpreter" in found.why


def test_a_stale_row_of_edited_code_does_not_count(tmp_path: Path) -> None:
    stale = [timed("torch", n, 80.0, key=f"stale-{n}") for n in WIDTHS]
    found = judgement(tmp_path, [*stale, *pairs(2, 2, 2)], ratio({"about": 2, "within": "3%"}))
    assert found.verdict == "supported"
    assert len(found.rows) == 2 * len(WIDTHS)


def test_where_a_variant_cannot_run_it_does_not_win(tmp_path: Path) -> None:
    rows = [*pairs(2), *(timed("torch", n, 9.0) for n in WIDTHS[1:])]
    rows += [unsupported("fused", n) for n in WIDTHS[1:]]
    left = ratio({"above": 1}, take="most")
    fails = ratio({"above": 1}, take="most", unsupported="fails")
    assert judgement(tmp_path / "a", rows, left).verdict == "supported"
    assert judgement(tmp_path / "b", rows, fails).verdict == "refuted"


def test_few_of_the_named_points_are_not_enough(tmp_path: Path) -> None:
    found = judgement(tmp_path, pairs(2), ratio({"above": 1}))
    assert found.verdict == "not testable here"
    assert "only 1 point of 3" in found.why


def test_what_is_missing_comes_with_the_command_that_gives_it(tmp_path: Path) -> None:
    found = judgement(tmp_path, [timed("naive", 256, 9.0)], ratio({"above": 1}))
    (seen,) = [finding.seen for finding in found.findings]
    assert found.verdict == "not testable here"
    assert "needs timed rows of torch and fused at M = 4096, N = 1024, 2048, 4096" in found.why
    assert seen.needs == (
        "python -m experiments.run kernel=torch,fused grid=point grid.rows=4096 "
        "grid.cols='[1024,2048,4096]' dtype=float32"
    )


def test_every_gpu_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    slow = [timed(r.kernel, r.cols, 30.0 - r.time_us, gpu="NVIDIA A100") for r in pairs(2, 2, 2)]
    found = judgements(tmp_path, [*pairs(2, 2, 2), *slow], ratio({"above": 1}))
    assert {j.gpu: j.verdict for j in found} == {
        "NVIDIA A100": "refuted",
        "NVIDIA H200": "supported",
    }


def test_a_tunable_s_setting_is_a_variant_of_its_own(tmp_path: Path) -> None:
    wide = {"params": {"block_size": 4096}}
    rows = [timed("torch", n, 20.0) for n in WIDTHS]
    rows += [timed("online", n, 40.0, params={"block_size": 1024}) for n in WIDTHS]
    rows += [timed("online", n, 10.0, key=f"wide{n}", **wide) for n in WIDTHS]
    default = judgement(tmp_path / "a", rows, ratio({"above": 1}, bottom="online"))
    named = ratio({"above": 1}, bottom="online, block_size=4096")
    assert default.verdict == "refuted"
    assert judgement(tmp_path / "b", rows, named).verdict == "supported"


def test_a_row_whose_interval_is_unsound_is_no_time(tmp_path: Path) -> None:
    for i, bounds in enumerate(({"time_low_us": 11.0}, {"time_high_us": 9.0})):
        rows = [made.model_copy(update=bounds) if made.kernel == "fused" else made
                for made in pairs(2, 2, 2)]  # fmt: skip
        found = judgement(tmp_path / str(i), rows, ratio({"above": 1}))
        assert found.verdict == "not testable here"


def test_verdicts_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = pairs(1, 2, 8)
    one = judgement(tmp_path / "a", rows, ratio({"above": 1}))
    other = judgement(tmp_path / "b", rows[::-1], ratio({"above": 1}))
    assert (one.value, one.low, one.high, one.evidence) == (
        other.value, other.low, other.high, other.evidence
    )  # fmt: skip
    assert re.fullmatch(r"rows [0-9a-f]{12} \(6\), events cold", one.evidence)
