"""Cards of one kind against each other: every point of one sweep, a strip for each card."""

from __future__ import annotations

from pathlib import Path

from analysis.spread import cards_of
from tests.analysis.drawing import NARROW, frame_of
from tests.analysis.plausible import row


def test_a_point_that_a_card_lacks_is_left_out(tmp_path: Path) -> None:
    rows = [row(kernel, n, card=card) for card in range(3) for kernel in ("torch", "copy", "online")
            for n in NARROW if (card, kernel) != (2, "online")]  # fmt: skip
    [cards] = cards_of(frame_of(tmp_path, rows))
    assert cards.cards == (0, 1, 2)
    assert {point.row["kernel"] for point in cards.points} == {"torch", "copy"}
