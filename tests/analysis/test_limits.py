"""Points hold what one visit measured together and say who won; means are geometric, by round."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.estimate import log_reach
from analysis.limits import (
    LimitPoint,
    geomean,
    maker,
    operations_of,
    points_of,
    summed,
    worst,
)
from analysis.load import load
from experiments.data.rows import Row
from tests.analysis.drawing import frame_of
from tests.analysis.limit_rows import FEWER, limits
from tests.analysis.loss_rows import SHAPES, loss
from tests.analysis.plausible import interpreted, row, write


def points(tmp_path: Path, rows: list[Row]) -> list[LimitPoint]:
    return points_of(frame_of(tmp_path, rows))


def timed(kernel: str, *times: float, **changes: object) -> list[Row]:
    """A row per round."""
    return [row(kernel, 1024, time_us=t, round=i, **changes) for i, t in enumerate(times)]


def test_every_shape_dtype_and_timer_is_a_point_of_its_own(tmp_path: Path) -> None:
    found = points(tmp_path, limits(FEWER))
    assert len(found) == len(FEWER) * 3 * 2
    assert {(p.rows, p.cols) for p in found} == set(FEWER)
    assert [p.dtype for p in found][:3] == ["float32", "float16", "bfloat16"]
    assert all(not p.has("liger") for p in found if p.cols > 65536)


def test_a_ratio_divides_times_of_one_visit_and_never_of_two(tmp_path: Path) -> None:
    # the card slows down threefold from round to round; auto is always twice as fast, and has no
    # round of its own beside quack's last
    rows = [*timed("auto", 50.0, 150.0, 450.0), *timed("quack", 100.0, 300.0, 900.0, 1.0)]
    rows += timed("torch", 10.0, sweep="another")  # no neighbour of these
    [point] = points(tmp_path, rows)
    assert point.by_visit("quack") == {("paper/0", i): 2.0 for i in range(3)}
    ratio = point.ratio("quack")
    assert (ratio.value, ratio.rounds) == (2.0, 3)
    assert ratio.low == pytest.approx(2.0, rel=0.05)
    assert point.best == "quack"
    assert not point.has("torch")


def test_the_best_peer_may_come_from_a_sweep_of_its_own(tmp_path: Path) -> None:
    rows = [*timed("auto", 100.0, 100.0), *timed("quack", 110.0, 110.0)]
    rows += [*timed("auto", 200.0, sweep="max"), *timed("compiled_max", 210.0, sweep="max")]
    [point] = points(tmp_path, rows)
    assert len(point.by_visit("quack")) == 2
    assert point.best == "compiled_max"  # 1.05 beside its own auto, though 210 µs are more than 110
    assert point.ratio("compiled_max").value == pytest.approx(1.05)


def test_rows_without_a_time_and_stale_ones_count_for_nothing(tmp_path: Path) -> None:
    rows = [row("auto", 1024, time_us=900.0, key="older"), *timed("auto", 100.0)]
    rows += [*timed("torch", 150.0), interpreted("quack", 1024), row("liger", 1024, time_us=None,
             status="crashed")]  # fmt: skip
    [point] = points(tmp_path, rows)
    assert point.ratio("torch").value == pytest.approx(1.5)
    assert set(point.seen) == {"auto", "torch"}


@pytest.mark.parametrize(
    ("own", "peer", "behind"),
    [(100.0, 99.0, False), (100.0, 97.0, True), (10.0, 9.6, False), (10.0, 9.4, True)],
)
def test_below_25_us_half_a_microsecond_is_no_defeat(
    own: float, peer: float, behind: bool, tmp_path: Path
) -> None:
    [point] = points(tmp_path, timed("auto", own, own, own) + timed("quack", peer, peer, peer))
    assert point.short == (own < 25)
    assert point.behind == behind
    assert point.difference("quack").value == pytest.approx(peer - own)


def test_the_roof_is_the_faster_copy_and_beating_it_is_flagged(tmp_path: Path) -> None:
    rows = timed("auto", 100.0, 100.0, 100.0) + timed("torch", 150.0, 150.0, 150.0)
    copies = timed("copy", 98.0, 98.0, 98.0) + timed("copy_triton", 97.0, 97.0, 97.0)
    [point] = points(tmp_path, rows + copies)
    rivals = [point.rival(over) for over in ("copy", "peers", "torch", "quack")]
    assert rivals == ["copy_triton", "torch", "torch", None]
    assert point.share is not None
    assert point.share.value == pytest.approx(0.97)
    assert not point.above_roof
    slow = timed("copy", 130.0, 130.0, 130.0)
    [beaten] = points(tmp_path / "2", rows + slow)
    assert beaten.above_roof


def made(tmp_path: Path, ratios: dict[int, list[float]], roof: float = 50.0) -> list[LimitPoint]:
    """Points by width: torch's time over auto's in each round."""
    rows = [
        one
        for n, each in ratios.items()
        for i, ratio in enumerate(each)
        for one in (row("auto", n, time_us=100.0, round=i), row("copy", n, time_us=roof, round=i),
                    row("torch", n, time_us=100.0 * ratio, round=i))
    ]  # fmt: skip
    return points_of(frame_of(tmp_path, rows))


def test_the_mean_is_geometric_and_its_interval_is_of_rounds(tmp_path: Path) -> None:
    # the points are far apart, which says nothing of the mean; the rounds agree to a thousandth
    found = made(tmp_path, {256: [2.0, 2.002, 1.998], 4096: [8.0, 8.008, 7.992]})
    mean = geomean(found)
    assert mean is not None
    assert mean.value == pytest.approx(4.0)
    assert mean.rounds == 3
    reach = 4.3027 * math.sqrt(2 / 2) * 1e-3 / math.sqrt(3)  # t, s and √R by hand
    assert math.log(mean.high / mean.value) == pytest.approx(reach, rel=0.01)
    assert mean.low < 4.0 < mean.high


def recording(host: float, **changes: object) -> list[Row]:
    """Two points in two rounds of one recording: the peer's time over that of auto is ``host``."""
    return [
        row(kernel, n, time_us=time * (1 + 0.01 * i), round=i, **changes)
        for n in (256, 4096) for i in range(2)
        for kernel, time in (("auto", 100.0), ("torch", 100.0 * host))
    ]  # fmt: skip


def test_of_several_recordings_the_interval_is_over_them_and_their_range_is_known(
    tmp_path: Path,
) -> None:
    hosts = (1.1, 1.2, 1.25)
    for i, host in enumerate(hosts):  # folders below one, as three recordings lie
        write(tmp_path / f"{i}", recording(host, sweep=f"limits-{i}"))
    mean = geomean(points_of(load(tmp_path)))
    assert mean is not None
    assert (mean.recordings, mean.rounds) == (3, 6)
    assert mean.spread == pytest.approx((1.1, 1.25))
    assert mean.value == pytest.approx((1.1 * 1.2 * 1.25) ** (1 / 3))
    assert mean.high / mean.value == pytest.approx(math.exp(log_reach(hosts)), rel=0.01)


def test_a_sweep_that_went_on_upon_another_card_is_two_recordings(tmp_path: Path) -> None:
    marks = ({"mark": "aaaaaaaa"}, {"mark": "bbbbbbbb"})
    rows = [
        *timed("auto", 100.0, environment=marks[0]),
        *timed("torch", 150.0, environment=marks[0]),
    ]
    other = [
        *timed("auto", 200.0, environment=marks[1]),
        *timed("quack", 100.0, environment=marks[1]),
    ]
    [point] = points(tmp_path, rows + [r.model_copy(update={"key": f"{r.key}x"}) for r in other])
    assert point.by_visit("torch") == {("paper/0/aaaaaaaa", 0): 1.5}
    assert point.by_visit("quack") == {("paper/0/bbbbbbbb", 0): 0.5}


def test_cards_that_shared_the_points_of_a_sweep_made_one_recording(tmp_path: Path) -> None:
    cards = [{"card": i, "environment": {"mark": "ab"[i] * 8}} for i in (0, 1)]

    def swept(sweep: str, short: float, wide: float, several: bool) -> list[Row]:
        return [
            row(kernel, n, time_us=time, sweep=sweep, **cards[several and n > 1024])
            for n, ratio in ((256, short), (4096, wide))
            for kernel, time in (("auto", 100.0), ("torch", 100.0 * ratio))
        ]

    rows = [*swept("r0", 2.0, 1.1, False), *swept("r1", 2.02, 1.12, False)]
    rows += swept("r2", 2.01, 1.11, True)
    mean = geomean(points(tmp_path, rows))
    assert mean is not None
    assert mean.recordings == 3
    assert mean.spread == pytest.approx(((2.0 * 1.1) ** 0.5, (2.02 * 1.12) ** 0.5))
    # one of its cards measured a point anew: each card's rows count by themselves
    anew = [r.model_copy(update=cards[0]) for r in rows if (r.sweep, r.cols) == ("r2", 4096)]
    mean = geomean(points(tmp_path / "2", rows + anew))
    assert mean is not None
    assert mean.recordings == 4


def test_a_visit_without_a_peer_counts_for_nothing(tmp_path: Path) -> None:
    rows = [*timed("auto", 100.0, 100.0), *timed("torch", 150.0, 150.0), *timed("copy", 90.0, 90.0)]
    own = [*timed("auto", 100.0, sweep="own"), *timed("copy", 50.0, sweep="own")]
    [point] = points(tmp_path, rows + own)
    assert point.share is not None
    assert (point.share.value, point.share.recordings) == (pytest.approx(0.9), 1)


def test_a_single_round_has_the_interval_of_its_own_samples(tmp_path: Path) -> None:
    points = made(tmp_path, {256: [2.0], 4096: [2.0]})
    mean, least = geomean(points), worst(points)
    assert mean is not None
    assert least is not None
    assert least[0].cols == 256
    assert geomean(points, "quack") is None
    assert worst(points, "quack") is None
    assert (mean.low, mean.high) == pytest.approx((2 * 0.99 / 1.01, 2 * 1.01 / 0.99))


def test_summed_times_count_long_points_most(tmp_path: Path) -> None:
    rows = timed("auto", 100.0, 100.0) + timed("torch", 200.0, 200.0)
    rows += [row(k, 256, time_us=10.0, round=i) for k in ("auto", "torch") for i in (0, 1)]
    total = summed(points(tmp_path, rows))
    assert total is not None
    assert total.value == pytest.approx(210 / 110)


def test_several_recordings_have_a_range_and_may_have_widths_of_their_own(tmp_path: Path) -> None:
    rows = [row(k, 1024, time_us=t, round=j, sweep=sweep)
            for sweep, ratio in (("r0", 1.0), ("r1", 1.21)) for j in (0, 1)
            for k, t in (("auto", 50.0), ("torch", 50.0 * ratio))]  # fmt: skip
    mean = geomean(points(tmp_path, rows))
    assert mean is not None
    assert mean.value == pytest.approx(1.1)
    assert (mean.recordings, mean.rounds) == (2, 4)
    assert mean.spread == pytest.approx((1.0, 1.21))
    # a width that only one has moves the mean and that recording's own, not the interval's length
    rows += [row(k, 1280, time_us=t, round=j, sweep="r1")
             for k, t in (("auto", 50.0), ("torch", 200.0)) for j in (0, 1)]  # fmt: skip
    more = geomean(points(tmp_path / "2", rows))
    assert more is not None
    assert more.value == pytest.approx((1.1 * 4) ** 0.5)
    assert more.spread == pytest.approx((1.0, (1.21 * 4) ** 0.5))
    assert more.high / more.value == pytest.approx(mean.high / mean.value)


def test_a_time_above_the_roof_counts_as_the_roof(tmp_path: Path) -> None:
    below = geomean(made(tmp_path, {256: [2.4], 4096: [2.4]}))
    above = geomean(made(tmp_path / "2", {256: [2.4, 2.4], 4096: [2.4, 2.4]}, roof=200.0))
    assert below is not None
    assert above is not None
    assert (below.value, above.value) == pytest.approx((2.4, 1.2))  # 240 µs over 100, over 200


TIMES = {"ce_auto": 0.25, "ce_torch": 1.0, "ce_quack": 0.26, "ce_grad_x": 0.1}
ROOFS = {"read": 0.24, "read_hinted": 0.235}


def test_an_operation_has_its_own_choice_peers_roof_and_bytes(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [*loss(TIMES | ROOFS), *timed("auto", 9.0), *timed("torch", 12.0)])
    assert operations_of(frame) == ["softmax", "cross_entropy"]
    assert [point.operation for point in points_of(frame)] == ["softmax"]
    found = points_of(frame, "cross_entropy")
    assert [(p.rows, p.cols, p.own, p.best) for p in found] == [
        (m, n, "ce_auto", "ce_quack") for m, n in SHAPES
    ]
    for point in found:
        assert [point.rival(over) for over in ("peers", "roof", "torch", "ce_torch", "liger")] == [
            *("ce_quack", "read_hinted", "ce_torch", "ce_torch", None)
        ]
        assert point.widths == "all"
        size = point.rows * point.cols * 2
        assert point.moved_bytes == size + 12 * point.rows
        # of unlike bytes the share is one of bandwidths
        roof = size + 2 * point.rows * -(-point.cols // 4096)
        assert point.share is not None
        assert point.share.value == pytest.approx(0.235 / 0.25 * point.moved_bytes / roof)
        row = point.seen["ce_auto"]["paper/0", 0]
        assert point.share.value == pytest.approx(row["fraction_of_roof"])


@pytest.mark.parametrize(
    ("kernel", "whose"),
    [
        *(("torch", "torch"), ("ce_torch", "torch"), ("compiled_softmax", "compiled_softmax")),
        *(("ce_grad_quack_dx", "quack"), ("backward_flag_gems", "flag_gems"), ("auto", None)),
        *(("ce_compiled_max", "compiled_max"), ("naive_script", None), ("torch-1", None)),
    ],
)
def test_a_kernels_maker_is_in_its_name(kernel: str, whose: str | None) -> None:
    assert maker(kernel) == whose
