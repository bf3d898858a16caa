"""What the recorded self-test of an H200 must go on saying, by today's statistics."""

from __future__ import annotations

from analysis.compare import judged, matched
from analysis.load import load
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"
REPETITIONS, ROUNDS = 50, 8


def test_two_percent_more_work_is_found_and_none_is_not() -> None:
    frame = load(REFERENCE / "h200_selftest_slowed")
    frame = frame[frame["operation"] == "softmax"]
    share = frame["params"].map(lambda params: params["share"])
    # eight rounds are a repetition, which stands as a card of its own under one name
    rounds = frame["round"]
    frame = frame.assign(settings="{}", card=rounds // ROUNDS, round=rounds % ROUNDS)
    frame = frame.assign(params=[{}] * len(frame))
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
