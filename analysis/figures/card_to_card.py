"""Card to card: every point's time on each card over the mean of the cards, a strip a card."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import (
    DOT,
    FAINT,
    INK,
    MUTED,
    marker_legend,
    slug,
    style_of,
    variant_order,
    within,
)
from analysis.load import Records
from analysis.spread import NEEDS, SHORT_US, Cards, cards_of
from experiments.data.cards import card_of

WIDTH, STRIP = 5.8, 0.46  # inches: of the picture, and the height of a card
ABOVE, BELOW = 0.76, 0.8  # inches that title, names and small print take
READ = 20  # points of a card that can be read one by one: those farthest from the mean


def _pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    """A picture for each kind of GPU and sweep with two cards."""
    found = cards_of(frame)
    several = len({cards.sweep for cards in found}) > 1
    return [_page(cards, several) for cards in found]


def _page(cards: Cards, several: bool) -> Page:
    name = "-".join(["card_to_card", slug(cards.gpu), *[slug(cards.sweep)] * several])
    timer, cache = min((p.row["timer"], p.row["cache"]) for p in cards.points)
    card = card_of(cards.gpu).name
    small = provenance(cards.rows, card, timer, cache)
    small.append(f"small: below {SHORT_US:g} µs{DOT}bars: the median and 5 % to 95 % of the rest")
    counts = [f"{len(cards.cards)} cards", f"{len(cards.points):,} points"]
    size = (WIDTH, ABOVE + BELOW + STRIP * len(cards.cards))
    return Page(name, "Card to card: time over the mean of all cards", DOT.join([card, *counts]),
                small, partial(_draw, cards=cards, size=size), size, cards.gpu)  # fmt: skip


def _draw(canvas: Canvas, cards: Cards, size: tuple[float, float]) -> None:
    ax = canvas.add_axes((0.1, BELOW / size[1], 0.88, 1 - (ABOVE + BELOW) / size[1]))
    points = pd.DataFrame([
        {"row": point.row, "kernel": str(point.row["variant"]).split(" ")[0], "card": card,
         "short": point.mean_us < SHORT_US, "percent": 100 * (ratio.value - 1)}
        for point in cards.points for card, ratio in point.ratios.items()
    ])  # fmt: skip
    end = max(1.15 * float(points["percent"].abs().quantile(0.995)), 0.5)
    ax.set_xlim(-end, end)
    ax.set_ylim(len(cards.cards) - 0.5, -0.5)
    ax.axvline(0, color=INK, lw=0.9, zorder=1)
    dice = np.random.default_rng(0)  # apart, so that points do not hide each other
    for strip, card in enumerate(cards.cards):
        ax.axhspan(strip - 0.42, strip + 0.42, color=FAINT, alpha=0.5, lw=0, zorder=0)
        mine = points[points["card"] == card]
        heights = strip + dice.uniform(-0.36, 0.2, len(mine))
        mine = mine.assign(x=[within(x, (-end, end)) for x in mine["percent"]], y=heights)
        for (kernel, short), alike in mine.groupby(["kernel", "short"], sort=False):
            style = style_of(str(kernel)).dots(0.35 if short else 0.5, mec="white", mew=0.25)
            ax.plot(alike["x"], alike["y"], alpha=0.4 if short else 0.85,
                    zorder=2.5 if short else 3, **style)  # fmt: skip
        far = mine.loc[mine["x"].abs().sort_values(ascending=False, kind="stable").index[:READ]]
        mark(ax, far["x"], far["y"], [dict(row) | {"card": card} for row in far["row"]])
        rest = mine.loc[~mine["short"], "percent"]
        if len(rest):
            low, middle, high = np.quantile(rest, [0.05, 0.5, 0.95])
            y = strip + 0.32
            ax.hlines(y, low, high, color=INK, lw=1.6, zorder=5)
            ax.plot([middle], [y], "|", color=INK, ms=7, mew=1.6, zorder=5)
            percent = f"  {middle:+.2f} %".replace("-", "−")
            ax.text(high, y, percent, fontsize=6.2, color=MUTED, va="center", zorder=5)
    ax.set_yticks(range(len(cards.cards)), [f"card {card}" for card in cards.cards])
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:+g} %".replace("-", "−") if x else "0")
    ax.set_xlabel("slower than the mean of the cards →")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    marker_legend(canvas, sorted(points["kernel"].unique(), key=variant_order), size)


CARD_TO_CARD = Figure(
    "card_to_card",
    f"card_to_card needs {NEEDS}",
    _pages,
    "Cards of one kind that measured the same points: each card's time over the mean of all "
    "cards, point by point.",
)
