"""Cards of one kind against each other: every point of one sweep, a strip for each card."""

from __future__ import annotations

from pathlib import Path

from analysis.spread import cards_of
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, frame_of
from tests.analysis.plausible import row

SLOWER = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.04}  # card 3 takes 4 % more
SHORT = 12.0  # µs, points that launches dominate


def on_cards(**changes: object) -> list[Row]:
    """Three variants at three widths on four cards, and many short points that no card slows."""
    rows = []
    for card, factor in SLOWER.items():
        for kernel in ("torch", "online", "copy"):
            for n in NARROW[3:]:
                time = row(kernel, n).time_us
                assert time is not None
                rows.append(row(kernel, n, time_us=time * factor, card=card, **changes))
        rows += [
            row("torch", 2**i, rows=64, time_us=SHORT, card=card, **changes) for i in range(12)
        ]
    return rows


def test_a_point_that_a_card_lacks_is_left_out(tmp_path: Path) -> None:
    rows = [r for r in on_cards() if not (r.card == 2 and r.kernel == "online")]
    [cards] = cards_of(frame_of(tmp_path, rows))
    assert cards.cards == (0, 1, 2, 3)
    assert {point.row["kernel"] for point in cards.points} == {"torch", "copy"}
