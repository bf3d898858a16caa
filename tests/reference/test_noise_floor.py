"""What the recorded self-test of an H200 must go on saying, by today's statistics."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from analysis.compare.points import judged, matched
from analysis.estimate import prediction
from analysis.load import load
from experiments.data.metrics import latest
from experiments.data.packed import unpacked
from experiments.data.rows import Row, read_rows, rows_files
from tests.conftest import ROOT

FLOOR = ROOT / "outputs" / "reference" / "h200" / "selftest"
REPETITIONS, ROUNDS = 50, 8


def rows_of(folder: Path) -> list[Row]:
    return latest(row for path in rows_files(folder) for row in read_rows(path))


def floor() -> list[dict[str, str]]:
    """The committed table of the recorded twins, which `test_reference` draws anew."""
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in (FLOOR / "floor.md").read_text().splitlines()
        if line.startswith("|")
    ]
    return [dict(zip(head, line, strict=True)) for line in lines]


def test_a_variant_differs_from_itself_no_oftener_than_stated() -> None:
    every = [line for line in floor() if line["time, µs"] == "all"]
    pairs = sum(int(line["pairs"]) for line in every)
    assert pairs >= 200
    assert sum(int(line["called different"]) for line in every) <= 0.05 * pairs


def test_events_resolve_one_percent_from_50_us_on() -> None:
    for line in floor():
        if "events" in line["timer"] and line["time, µs"] in ("50–200", "> 200"):
            assert float(line["resolves"].rstrip(" %")) <= 1


def test_eight_rounds_foretell_a_ninth(tmp_path: Path) -> None:
    points: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in rows_of(unpacked(FLOOR / "wide.tar.gz")):
        if row.status == "ok":
            points[row.key][row.round] = row
    held = 0
    for rounds in points.values():
        expected = prediction([rounds[i].samples_us or [] for i in range(8)])
        held += expected.low <= (rounds[8].time_us or 0) <= expected.high
    assert len(points) >= 190
    assert held >= 0.9 * len(points)


def test_two_percent_more_work_is_found_and_none_is_not() -> None:
    frame = load(unpacked(FLOOR / "slowed.tar.gz"))
    frame = frame[frame["operation"] == "softmax"]
    share = frame["params"].map(lambda params: params["share"])
    # eight rounds are a repetition, which stands as a card of its own under one name
    rounds = frame["round"]
    frame = frame.assign(params=[{}] * len(frame), card=rounds // ROUNDS, round=rounds % ROUNDS)
    sides = {
        (kernel, more): frame[frame["kernel"].eq(kernel) & share.eq(more)].assign(kernel="slowed")
        for kernel, more in (("slowed-a", 0.0), ("slowed-b", 0.0), ("slowed-a", 0.02))
    }
    for (kernel, more), head in sides.items():
        points = matched(sides["slowed-a", 0.0], head)
        assert len(points) == REPETITIONS
        assert points["head_rounds"].eq(ROUNDS).all()
        each = [judged(points[i : i + 1], 0.01) for i in range(REPETITIONS)]
        found = sum(one.loc[0, "verdict"] == "slower" for one in each)
        assert found == (REPETITIONS if more else 0), kernel
