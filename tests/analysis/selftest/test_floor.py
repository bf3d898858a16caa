import json
from pathlib import Path

import pytest

from analysis.estimate import rate_interval
from analysis.load import load
from analysis.selftest.floor import Floor, floors
from analysis.selftest.judged import judged
from analysis.selftest.pairs import Pair
from analysis.selftest.pairs import pairs_of as pairs_of_frame
from experiments.data.rows import Row
from tests.analysis.plausible import row, write
from tests.analysis.selftest.twins import KERNELS, TIMES_US, twins


def pairs(tmp_path: Path, rows: list[Row]) -> list[Pair]:
    return pairs_of_frame(load(write(tmp_path / "rows", rows)))


def whole(tmp_path: Path, rows: list[Row]) -> Floor:
    [found] = [floor for floor in floors(pairs(tmp_path, rows)) if floor.whole]
    return found


def test_twins_are_paired_point_by_point_and_others_are_left_out(tmp_path: Path) -> None:
    found = pairs(tmp_path, [*twins(rounds=2), row("copy", 1024), row("torch", 1024)])
    assert len(found) == len(TIMES_US) * len(KERNELS)
    assert {pair.kernel for pair in found} == set(KERNELS)
    assert {pair.rounds for pair in found} == {2}


def test_only_rounds_that_both_twins_have_are_compared(tmp_path: Path) -> None:
    rows = twins(rounds=3, times_us=[50.0], kernels=["torch"])
    lost = [r for r in rows if not (r.kernel == "torch-b" and r.round == 1)]
    first, second = (  # the rounds that are left, and each with its own partner
        [r.time_us for r in lost if r.kernel == f"torch-{twin}" and r.round != 1] for twin in "ab"
    )
    [pair] = pairs(tmp_path, lost)
    assert pair.medians_us.tolist() == [pytest.approx(first), pytest.approx(second)]


def test_kernels_whose_names_are_alike_are_no_twins(tmp_path: Path) -> None:
    rows = twins(rounds=2, times_us=[50.0], kernels=["torch"])
    told = [{**r.environment, "target": f"kernels.{r.kernel}", "source": "1"} for r in rows]
    other = [r.model_copy(update={"environment": e}) for r, e in zip(rows, told, strict=True)]
    assert pairs(tmp_path, other) == []


def test_rows_that_failed_are_no_visit(tmp_path: Path) -> None:
    rows = twins(rounds=2, times_us=[50.0], kernels=["torch"])
    broken = rows[0].model_copy(update={"status": "incorrect", "attempt": 2})
    [pair] = pairs(tmp_path, [*rows, broken])
    assert pair.rounds == 1


@pytest.mark.parametrize("seed", range(3))
def test_twins_differ_no_more_often_than_stated(tmp_path: Path, seed: int) -> None:
    found = whole(tmp_path, twins(seed=seed, kernels=[f"k{i}" for i in range(10)]))
    low, _ = rate_interval(found.false_positives, len(found.pairs))
    assert low <= 0.05, found.false_positives


def test_a_twin_that_is_slower_is_found_and_its_slowdown_was_resolvable(tmp_path: Path) -> None:
    found = whole(tmp_path, twins(slower_b=1.02))
    assert found.false_positives == len(found.pairs)
    floor = whole(tmp_path, twins())
    assert 0.001 < floor.resolvable < 0.02


def test_what_is_resolvable_is_what_the_interval_would_have_told(tmp_path: Path) -> None:
    slowdown = 1 + whole(tmp_path, twins()).resolvable
    slower = whole(tmp_path, twins(slower_b=slowdown * 1.0001))
    faster = whole(tmp_path, twins(slower_b=1 / slowdown / 1.0001))
    for found in (slower, faster):
        assert found.false_positives >= 0.95 * len(found.pairs)


def test_spreads_are_those_of_the_noise(tmp_path: Path) -> None:
    found = whole(tmp_path, twins(between=0.01, within=0.005))
    assert found.between == pytest.approx(0.01, rel=0.15)
    assert found.within == pytest.approx(0.005, rel=0.1)
    # of two medians, and nearly all of their noise is between rounds
    assert found.one_round == pytest.approx(1.96 * 2**0.5 * 0.01, rel=0.25)
    assert found.all_rounds < found.one_round


def test_each_range_holds_the_pairs_of_its_times(tmp_path: Path) -> None:
    found = floors(pairs(tmp_path, twins(rounds=2, timers=("events", "graph"))))
    for timer in ("events", "graph"):
        mine = [floor for floor in found if floor.timer == timer]
        assert [floor.low_us for floor in mine if not floor.whole] == [0, 10, 25, 50, 200]
        for floor in mine:
            assert all(floor.low_us <= pair.time_us < floor.high_us for pair in floor.pairs)
        assert sum(len(f.pairs) for f in mine) == 2 * len(mine[0].pairs)


def test_one_round_has_a_floor_and_no_spread_between_rounds(tmp_path: Path) -> None:
    found = whole(tmp_path, twins(rounds=1))
    assert found.between != found.between
    assert found.foretold == (0, 0)
    assert found.one_round == found.all_rounds


def test_the_last_round_lies_within_the_prediction_of_the_others(tmp_path: Path) -> None:
    inside, of = whole(tmp_path, twins()).foretold
    assert of == 2 * len(TIMES_US) * len(KERNELS)
    assert inside >= 0.9 * of


def test_compare_itself_judges_the_twins(tmp_path: Path) -> None:
    frames = [
        load(write(tmp_path / str(factor), twins(between=0.001, slower_b=factor)))
        for factor in (1.0, 1.1)
    ]
    equal, slower = (judged(frame, pairs_of_frame(frame)) for frame in frames)
    assert len(equal) == len(slower) == len(TIMES_US) * len(KERNELS)
    assert not any(one.regression for one in equal)
    assert all(one.regression for one in slower)


@pytest.mark.parametrize(("found", "of"), [(0, 200), (3, 200), (200, 200), (1, 1)])
def test_a_rates_interval_holds_the_rate(found: int, of: int) -> None:
    low, high = rate_interval(found, of)
    assert 0 <= low <= found / of <= high <= 1
    assert json.dumps([low, high])
