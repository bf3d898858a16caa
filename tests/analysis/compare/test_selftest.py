"""Variants against themselves: what the noise floor says, and what ``selftest`` writes of it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.compare.selftest import (
    PROFILER,
    agreements,
    compared,
    floors,
    flushes_of,
    probes_of,
    read_probes,
    twins_of,
)
from analysis.estimate import rate_interval
from analysis.load import Records, load, load_records
from experiments.data.records import PROBES, Probe
from experiments.data.rows import Row
from tests.analysis.compare.twins import KERNELS, TIMES_US, probes, twins
from tests.analysis.plausible import row, write
from tests.analysis.records import counters, record_files

pytestmark = pytest.mark.usefixtures("inside", "small_pictures")


def pairs(tmp_path: Path, rows: list[Row]) -> pd.DataFrame:
    return twins_of(load(write(tmp_path / "rows", rows)))


def whole(tmp_path: Path, rows: list[Row]) -> Any:
    """The noise floor of all times."""
    found = floors(pairs(tmp_path, rows))
    [one] = found[found["whole"]].itertuples()
    return one


def test_only_rounds_that_both_twins_have_are_compared(tmp_path: Path) -> None:
    rows = twins(rounds=4, times_us=[50.0], kernels=["torch"])
    lost = [r for r in rows if not (r.kernel == "torch-b" and r.round == 1)]
    broken = rows[0].model_copy(update={"status": "incorrect", "attempt": 2})  # round 0
    first, second = (  # the rounds that are left, and each with its own partner
        [r.time_us or 0 for r in lost if r.kernel == f"torch-{twin}" and r.round > 1]
        for twin in "ab"
    )
    [single] = pairs(tmp_path, [*lost, broken])["single"]
    assert list(single) == pytest.approx([a / b for a, b in zip(first, second, strict=True)])


@pytest.mark.parametrize(("below", "resolvable"), [(2, 0.1), (9, math.inf)])
def test_twins_of_a_chain_count_with_their_samples_below_zero(
    below: int, resolvable: float, tmp_path: Path
) -> None:
    rows = twins(rounds=1, times_us=[1.0], kernels=["torch"], timers=["chain"], samples=20)
    samples = [[-0.3] * below + list(one.samples_us or ())[below:] for one in rows]
    rows = [r.model_copy(update={"samples_us": s}) for r, s in zip(rows, samples, strict=True)]
    [pair] = pairs(tmp_path, rows).itertuples()
    assert pair.rounds == 1
    assert pair.resolvable <= resolvable
    assert math.isinf(pair.resolvable) == math.isinf(resolvable)


def test_kernels_whose_names_are_alike_are_no_twins(tmp_path: Path) -> None:
    rows = twins(rounds=2, times_us=[50.0], kernels=["torch"])
    code = [{**r.environment, "target": f"kernels.{r.kernel}", "source": "1"} for r in rows]
    other = [r.model_copy(update={"environment": e}) for r, e in zip(rows, code, strict=True)]
    assert pairs(tmp_path, other).empty


def test_twins_differ_no_more_often_than_stated(tmp_path: Path) -> None:
    found = whole(tmp_path, twins(kernels=[f"k{i}" for i in range(10)]))
    assert found.pairs == 10 * len(TIMES_US)
    assert rate_interval(found.false_positives, found.pairs)[0] <= 0.05


def test_what_is_resolvable_is_what_the_interval_would_have_told(tmp_path: Path) -> None:
    floor = whole(tmp_path, twins())
    assert 0.001 < floor.resolvable < 0.02
    for slowdown in (1.0001 * (1 + floor.resolvable), 0.9999 / (1 + floor.resolvable)):
        found = whole(tmp_path, twins(slower_b=slowdown))
        assert found.false_positives >= 0.95 * found.pairs
    assert (floor.pairs, floor.sides) == (len(TIMES_US) * len(KERNELS), 2 * floor.pairs)
    assert floor.predicted >= 0.9 * floor.sides


def test_a_single_rounds_interval_holds_as_many_others_as_the_rounds_noise_allows(
    tmp_path: Path,
) -> None:
    quiet, noisy = (whole(tmp_path / name, twins(between=between, within=0.005))
                    for name, between in (("quiet", 1e-6), ("noisy", 0.01)))  # fmt: skip
    shares = [held / of for held, of in (quiet.medians_held, quiet.ratios_held)]
    # were rounds alike: Φ(1.96/√2) and Φ(1.96) of a normal, the timer's steps and ranks beside
    assert shares == pytest.approx([0.83, 0.95], abs=0.06)
    assert noisy.medians_held[0] < 0.3 * noisy.medians_held[1]
    assert (quiet.threes, quiet.medians_held[1]) == (2 * quiet.pairs, 2 * 8 * 7 * quiet.pairs)
    assert rate_interval(noisy.threes_false, noisy.threes)[0] <= 0.05


def test_spreads_are_those_of_the_noise(tmp_path: Path) -> None:
    found = whole(tmp_path, twins(between=0.01, within=0.005))
    assert found.between == pytest.approx(0.01, rel=0.15)
    assert found.within == pytest.approx(0.005, rel=0.1)
    # of two medians, and nearly all of their noise is between rounds
    assert found.one_round == pytest.approx(1.96 * 2**0.5 * 0.01, rel=0.25)
    assert found.all_rounds < found.one_round


def test_compare_itself_judges_the_twins(tmp_path: Path) -> None:
    for factor in (1.0, 1.1):
        rows = [*twins(rounds=3, between=0.001, slower_b=factor), row("copy", 8), row("a-b", 8)]
        found = compared(load(write(tmp_path / "rows", rows)), KERNELS)
        assert len(found) == len(TIMES_US) * len(KERNELS)
        assert set(found["regression"]) == {factor > 1}


def test_events_and_graph_agree_but_for_their_offset(tmp_path: Path) -> None:
    rows = twins(rounds=3, timers=("events", "graph"), offset_us=2.5)
    found = agreements(load(write(tmp_path / "rows", rows)), Records())
    assert set(zip(found["first"], found["second"], strict=True)) == {("events", "graph")}
    assert found["points"].sum() == len(TIMES_US) * 3  # twins are one point
    assert [offset[0] for offset in found["offset"]] == pytest.approx([2.5] * len(found), abs=0.5)
    ratios = [ratio[0] for ratio in found["ratio"]]
    assert ratios[0] > 1.2
    assert ratios[-1] == pytest.approx(1, abs=0.01)


def test_the_profilers_kernel_time_is_compared_with_the_timers(tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", [row("naive-a", 4096, time_us=30.0)])
    counted = counters("naive", 4096, 4096, 5, 3).model_copy(update={"kernel_us": 25.0})
    record_files(folder, counters=[counted])
    [one] = agreements(load(folder), load_records(folder)).itertuples()
    assert (one.first, one.second, one.points) == ("events", PROFILER, 1)
    assert (one.offset[0], one.ratio[0]) == (5.0, 1.2)


def test_a_cold_read_that_is_no_slower_proves_nothing(tmp_path: Path) -> None:
    assert probes_of(read_probes(probes(tmp_path, cold=1.5)))["proven"].all()
    found = probes_of(read_probes(probes(tmp_path, cold=1.005)))
    assert len(found) == 6
    assert not found["proven"].any()


def test_what_a_flush_leaves_is_a_share_of_what_l2_saves(tmp_path: Path) -> None:
    one, *_ = read_probes(probes(tmp_path))

    def read(left: str | None, cache: str, time_us: float) -> Probe:
        return one.model_copy(update={"left": left, "cache": cache, "time_us": time_us})

    times = [read(None, "rotation", 5.8), read("loads", "warm", 4.6), read("loads", "cold", 5.8),
             read("hinted loads", "warm", 4.6), read("hinted loads", "cold", 5.3)]  # fmt: skip
    loads, hinted = flushes_of([*times, one]).itertuples()
    assert (loads.left, loads.kept) == ("loads", 0)
    assert (hinted.left, hinted.kept) == ("hinted loads", pytest.approx(0.5 / 1.2))
    assert flushes_of([one]).empty


def test_what_lacks_is_said_and_the_rest_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "rows", twins(rounds=1, times_us=[50.0]))
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 0
    error = capsys.readouterr().err
    assert "skipped: timers needs" in error
    assert "; cold needs probe.jsonl" in error
    assert error.count("\n") == 1
    assert "read cold" not in (tmp_path / "out" / "noise_floor.md").read_text()
    one = whole(tmp_path, twins(rounds=1))
    assert math.isnan(one.between)
    assert (one.predicted, one.sides) == (0, 0)
    assert one.one_round == one.all_rounds


def test_what_is_no_probe_and_rows_without_twins_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "rows", twins(rounds=1, times_us=[50.0]))
    (folder / PROBES).write_text("{}\n")
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 2
    assert re.fullmatch(rf"error: .*{PROBES}:1: .*\n", capsys.readouterr().err)
    alone = write(tmp_path / "alone", [row("torch", 1024)])
    assert main(["selftest", "--rows", str(alone), "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: .*no variant stands against itself.*experiment=selftest\n", error)
    assert not (tmp_path / "out").exists()
