import json
import re
from itertools import groupby

import pytest

from experiments.data.rows import Row, rows_files
from tests.conftest import QUICK, Command, once_each, shape

MANY = ["kernel=good,naive", "grid=smoke,laptop", "dtype=float32", "rounds=3"]
SUSPECT = [
    *shape(4, 8),
    "dtype=float32",
    "timing.min_samples=100",
    "timing.max_samples=100",
    "timing.cache=warm",
]


def listed(stdout: str) -> list[tuple[int, str, str]]:
    """Round, shape and kernel of a dry run's points in order."""
    found = re.findall(r"^(\S+) (\d+×\d+) float32  card 0  round (\d+)", stdout, re.MULTILINE)
    return [(int(round_), place, kernel) for kernel, place, round_ in found]


def test_rounds_follow_each_other_and_each_is_whole_and_has_its_own_order(sweep: Command) -> None:
    done = sweep(*MANY, "dry_run=true")
    points = listed(done.stdout)
    assert [round_ for round_, _, _ in points] == sorted(round_ for round_, _, _ in points)
    visits = [[p[1:] for p in points if p[0] == round_] for round_ in range(3)]
    assert len(visits[0]) == 27  # three kernels at nine shapes
    assert sorted(visits[0]) == sorted(visits[1]) == sorted(visits[2])
    assert len({tuple(visit) for visit in visits}) == 3
    # all kernels at a shape together, and the kernels' order not always the same
    for visit in visits:
        places = [place for place, _ in groupby(visit, key=lambda p: p[0])]
        assert len(places) == 9
        assert len({tuple(k for _, k in group) for _, group in groupby(visit, lambda p: p[0])}) > 1
    assert "in 3 rounds, one whole round after another" in done.stdout
    assert sweep(*MANY, "dry_run=true").stdout == done.stdout
    assert listed(sweep(*MANY, "dry_run=true", "seed=1").stdout) != points


def test_the_first_shard_is_not_always_the_same(sweep: Command) -> None:
    points = listed(sweep(*MANY, "dry_run=true", "rounds=12").stdout)
    firsts = {next(p[1] for p in points if p[0] == round_)[:3] for round_ in range(12)}
    assert firsts == {"32×", "128"}


def of(rows: list[Row], kernel: str) -> list[tuple[int, int, bool]]:
    """Round and attempt of a kernel's rows, and whether the row trends."""
    return sorted(
        (r.round, r.attempt, any(reason.startswith("trend") for reason in r.suspect))
        for r in rows
        if r.kernel == kernel
    )


@pytest.mark.parametrize("fresh", [False, True])
def test_rounds_begin_in_new_workers_when_asked(sweep: Command, fresh: bool) -> None:
    done = sweep("kernel=slowing_once", *SUSPECT, "rounds=3", f"fresh={fresh}")
    assert done.status == 0, done.stderr
    suspect = [(0, 1, True), (1, 1, fresh), (2, 1, fresh)]  # once in each process
    assert of(done.rows, "slowing_once") == suspect


def test_a_suspect_point_is_measured_once_more_and_both_rows_are_kept(sweep: Command) -> None:
    done = sweep("kernel=slowing,slowing_once", *SUSPECT, "remeasure=true")
    assert done.status == 0, done.stderr
    assert of(done.rows, "slowing") == [(0, 1, True), (0, 2, True)]
    assert of(done.rows, "slowing_once") == [(0, 1, True), (0, 2, False)]
    assert all(len(row.samples_us or []) == 100 for row in done.rows)
    [first, _] = [row for row in done.rows if row.kernel == "slowing"]
    assert first.suspect[0].startswith("trend: the samples move by +")
    assert "measured once more" in done.stderr
    assert "1 of 3 points are suspect (trend 1)" in done.stdout


def test_a_sweep_killed_before_the_second_visit_makes_it_and_nothing_else(sweep: Command) -> None:
    arguments = ["kernel=slowing", *SUSPECT, "remeasure=true", "rounds=2"]
    done = sweep(*arguments)
    assert of(done.rows, "slowing") == [(r, a, True) for r in (0, 1) for a in (1, 2)]
    [path] = (done.out).rglob("slowing/rows.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    second = '"round":1,"attempt":2,'
    kept = [line for line in lines if second not in line]
    assert len(kept) == len(lines) - 1
    path.write_text("".join(kept))
    again = sweep(*arguments)
    assert of(again.rows, "slowing") == of(done.rows, "slowing")
    assert "1 points in" in again.stdout
    assert "nothing to measure" in sweep(*arguments).stdout


def test_twins_are_one_variant_under_two_names_and_share_a_roof(sweep: Command) -> None:
    done = sweep("kernel=good", "twin=a,b", *shape(4, [8, 16]), "dtype=float32", *QUICK)
    assert done.status == 0, done.stderr
    names = [row.kernel for row in done.rows]
    assert {name: names.count(name) for name in names} == {"good-a": 2, "good-b": 2, "copy": 2}
    assert once_each(done.rows)
    twins = [row for row in done.rows if row.kernel != "copy"]
    same = {(row.environment["target"], json.dumps(row.params)) for row in twins}
    assert len(same) == 1
    assert {path.parent.name for path in rows_files(done.out)} == {"good-a", "good-b", "copy"}
