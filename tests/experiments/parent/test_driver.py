"""A sweep through the command line: what it measures, in which order, and what it leaves."""

import json
import os
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from experiments.data.rows import rows_files
from experiments.parent import driver, record
from experiments.parent.client import Worker
from experiments.parent.plan import PROTOCOL, Point
from tests.conftest import QUICK, ROOT, Command, once_each, shape

SMALL = ["kernel=good", *shape(16, [8, 64]), "dtype=float32", *QUICK]
MANY = ["kernel=good,naive", "grid=smoke,point", "dtype=float32", "rounds=3", "dry_run=true"]


def test_a_run_without_m_is_a_sweep_of_one_job_with_its_roof(sweep: Command) -> None:
    done = sweep(*SMALL)
    assert done.status == 0, done.stderr
    found = sorted((r.kernel, r.cols, r.status) for r in done.rows)
    assert found == [(kernel, cols, "ok") for kernel in ("copy", "good") for cols in (8, 64)]
    for row in done.rows:
        assert (row.timer, row.cache) == ("host", "warm")
        assert row.samples_us
        assert row.time_low_us <= row.time_us <= row.time_high_us  # type: ignore[operator]
        assert row.wall_s >= row.sampling_s  # type: ignore[operator]
        assert row.model_bytes == row.compulsory_bytes == 2 * 16 * row.cols * 4
        assert row.model_formula == "2MN"
        found = row.environment
        assert (set(found["protocol"]), found["seed"]) == (set(PROTOCOL), 0)
        assert {"numpy", "python", "system", "processor", "commit", "source"} <= set(found)
        assert found["variables"]["OMP_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"]
    assert "of roof" in done.stdout
    assert re.search(r"4 rows in \d+\.\d s: sampling \d+\.\d s, compiling", done.stdout)
    assert str(done.out / "table.md") in done.stdout
    text = "".join(path.read_text() for path in rows_files(done.out))
    secrets = [os.uname().nodename, str(ROOT), str(done.out.parent), os.environ["HOME"]]
    assert [secret for secret in secrets if secret in text] == []
    variants = json.loads((done.out / "variants.json").read_text())
    assert variants["good"]["formula"] == "2MN"
    assert variants["good"]["target"] == "tests.doubles.kernels.Good"
    assert variants["copy"]["operation"] == "copy"
    for path in rows_files(done.out):
        assert json.loads((path.parent / "config.json").read_text())["name"] == "adhoc"


def test_what_has_a_row_is_measured_again_and_a_worker_is_replaced_only_when_asked(
    sweep: Command, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[int] = []
    monkeypatch.setattr(worker, "stop", lambda *_: stops.append(1))
    before = sweep(*SMALL).rows
    again = sweep(*SMALL)
    assert (again.status, again.rows) == (0, before)
    assert "nothing to measure" in again.stdout
    longer = sweep(*SMALL, "rounds=3")
    assert sorted(row.round for row in longer.rows) == [0] * 4 + [1] * 4 + [2] * 4
    assert once_each(longer.rows)
    assert [row for row in longer.rows if row.round == 0] == before
    order = sorted(longer.rows, key=lambda row: row.sequence or 0)
    assert [row.sequence for row in order] == [*range(12)]
    assert [row.started for row in order] == sorted(str(row.started) for row in order)
    assert stops == []
    over = sweep(*SMALL, "rounds=3", "overwrite=true", "fresh=true")
    assert stops == [1, 1]
    assert sorted(row.attempt for row in over.rows if row.round == 0) == [1] * 4 + [2] * 4
    other = sweep(*SMALL, "timing.min_samples=6")
    taken = [row.environment["protocol"]["min_samples"] for row in other.rows]
    assert (taken.count(5), taken.count(6)) == (24, 4)


def test_rows_decide_the_status_and_not_the_files_beside_them(sweep: Command) -> None:
    measured = sweep(*SMALL)
    before, variants = measured.rows, measured.out / "variants.json"
    whole = variants.read_text()
    variants.write_text(whole[:300])  # a kill tore it
    (measured.out / "table.md").unlink()
    (measured.out / "table.md").mkdir()
    again = sweep(*SMALL)
    assert (again.status, again.rows) == (0, before)
    assert "table.md could not be written: Is a directory" in again.stderr
    assert "of roof" in again.stdout
    assert variants.read_text() == whole
    path = rows_files(measured.out)[0]
    malformed = b"{nonsense}\n" + path.read_bytes()
    path.write_bytes(malformed)
    done = sweep(*SMALL)
    assert (done.status, path.read_bytes()) == (2, malformed)
    assert f"{path}:1: not JSON" in done.error


def test_only_failed_tries_failures_again_and_edited_code_is_measured_anew(
    sweep: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["kernel=wrong,good", *shape(4, 16), "dtype=float32", *QUICK]
    assert sweep(*arguments).status == 1
    again = sweep(*arguments, "only_failed=true")
    assert again.status == 1
    twice = [(name, i) for name in ("copy", "good", "wrong") for i in (1, 2)]  # the neighbours too
    assert sorted((row.kernel, row.attempt) for row in again.rows) == twice
    request = Worker.request
    changed: dict[str, Any] = {}

    def edited(self: Worker, message: Mapping[str, Any], *others: Any, **more: Any) -> Any:
        reply = request(self, message, *others, **more)
        good = message["do"] == "describe" and "Good" in message["job"]["kernel"]["_target_"]
        return reply | changed if good else reply

    monkeypatch.setattr(Worker, "request", edited)
    for keys, edit in enumerate([{"source": "another"}, {"packages": {"sympy": "9.0"}}], 2):
        changed.update(edit)
        rows = sweep(*arguments).rows
        assert len({row.key for row in rows if row.kernel == "good"}) == keys
    assert sum(row.kernel == "copy" for row in rows) == 4
    rows = sweep("kernel=wrong,good", *shape(4, [8, 16, 32, 64]), "dtype=float32", *QUICK).rows
    last = sorted((row.sequence or 0, row.cols) for row in rows)[-3:]
    assert [cols for _, cols in last] == [16] * 3, "what was never measured goes first"


def test_a_sweep_visits_whole_rounds_each_in_an_order_of_its_own(
    sweep: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*more: str) -> list[tuple[int, str, str]]:
        """Round, shape and kernel of a dry run's points in order."""
        points: list[Point] = []
        monkeypatch.setattr(driver, "print_estimate", points.extend)
        assert sweep(*MANY, *more).status == 0
        return [(p.round, "{1}×{2}".format(*p.workload), p.job.label) for p in points]

    points = planned()
    assert [round_ for round_, _, _ in points] == sorted(round_ for round_, _, _ in points)
    visits = [[p[1:] for p in points if p[0] == round_] for round_ in range(3)]
    assert len(visits[0]) == 15  # three kernels at five shapes
    assert sorted(visits[0]) == sorted(visits[1]) == sorted(visits[2])
    assert len({tuple(visit) for visit in visits}) == 3
    for visit in visits:  # all kernels at a shape together, in no order of their own
        assert len([place for place, _ in groupby(visit, key=lambda p: p[0])]) == 5
        assert len({tuple(k for _, k in group) for _, group in groupby(visit, lambda p: p[0])}) > 1
    assert planned() == points
    assert planned("seed=1") != points
    points = planned("rounds=9")
    firsts = {next(p[1] for p in points if p[0] == round_)[:3] for round_ in range(9)}
    assert firsts == {"32×", "819"}  # the first shard is not always the same


def test_a_dry_run_sums_up_kernels_and_leaves_nothing(sweep: Command, tmp_path: Path) -> None:
    done = sweep(*MANY, "kernel=good,naive,glob(cluste*)", out=tmp_path / "a" / "b")
    assert (done.status, done.rows) == (0, [])
    head, *lines, last = done.stdout.splitlines()
    assert head.split() == ["kernel", "minutes", "points", "cannot", "run"]
    cells = {line.split()[0]: line.split()[1:] for line in lines}
    assert list(cells) == ["cluster", "copy", "good", "naive"]
    assert float(cells["naive"][0]) > 1
    assert cells["naive"][1:] == ["15"]
    assert cells["cluster"] == ["0.0", "15", "15"]
    assert last.startswith("60 points to measure in 3 rounds, one whole round after another, ")
    assert not (tmp_path / "a").exists()


def test_a_suspect_point_is_measured_once_more_also_after_a_kill(
    sweep: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "suspicions", lambda *_: ["heating: from 30 to 41 °C"])
    arguments = [*SMALL[:1], *shape(4, 8), "dtype=float32", *QUICK, "remeasure=true"]
    done = sweep(*arguments)
    assert done.status == 0, done.stderr
    tries = [f"{row.kernel} {row.attempt}" for row in done.rows]
    assert tries == ["copy 1", "copy 2", "good 1", "good 2"]
    assert "heating: from 30 to 41 °C; measured once more" in done.stderr
    assert "2 of 2 points are suspect (heating 2); none is a baseline" in done.stdout
    [path] = done.out.rglob("good/rows.jsonl")
    path.write_text(path.read_text().splitlines(keepends=True)[0])  # killed before the second
    again = sweep(*arguments)
    assert [row.attempt for row in again.rows if row.kernel == "good"] == [1, 2]
    assert "3 rows in" in again.stdout  # copy's times of two attempts as well
    assert "nothing to measure" in sweep(*arguments).stdout


def test_twins_are_one_variant_under_two_names_and_jobs_may_share_a_point(sweep: Command) -> None:
    grid = ["grid=point", "grid.rows=4", "grid.cols=8,[8,16]"]
    done = sweep("kernel=good", "twin=a,b", *grid, "dtype=float32", *QUICK)
    assert done.status == 0, done.stderr
    names = [row.kernel for row in done.rows]
    assert {name: names.count(name) for name in names} == {"good-a": 2, "good-b": 2, "copy": 2}
    assert once_each(done.rows)
    twins = [row for row in done.rows if row.kernel != "copy"]
    assert len({(row.environment["target"], json.dumps(row.params)) for row in twins}) == 1
