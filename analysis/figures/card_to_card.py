"""Card to card: the share of points that a card runs faster or slower than the mean of all."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import BLUSH, DOT, FAINT, INK, MUTED, slug, ticks, write
from analysis.load import Records
from analysis.spread import NEEDS, SHORT_US, Cards, cards_of
from experiments.data.cards import card_of

SIZE = (6.6, 3.6)  # inches
PLACES = ((0.085, 0.405), (0.555, 0.405))  # left end and width of the panels, shares of the canvas
READ = 20  # points of a card that can be read one by one: those farthest from the mean
COLORS = ("#1f4fa3", "#e36a0a", "#329879", "#a1558a")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
KEPT = 0.995  # of the points an axis holds; the small print counts the others


def _pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    """A picture for each kind of GPU and sweep with two cards."""
    found = cards_of(frame)
    several = len({cards.sweep for cards in found}) > 1
    return [_page(cards, several) for cards in found]


def _page(cards: Cards, several: bool) -> Page:
    name = "-".join(["card_to_card", slug(cards.gpu), *[slug(cards.sweep)] * several])
    timer, cache = min((p.row["timer"], p.row["cache"]) for p in cards.points)
    card, points = card_of(cards.gpu).name, _table(cards)
    beyond = sum(int((p["percent"].abs() > _end(p)).sum()) for _, p in points.groupby("short"))
    small = provenance(cards.rows, card, timer, cache)
    small.append(f"percentages: a card's median{DOT}{beyond} of {len(points):,} beyond the axes")
    counts = [f"{len(cards.cards)} cards", f"{len(cards.points):,} points"]
    return Page(name, "Card to card: time over the mean of all cards", DOT.join([card, *counts]),
                small, partial(_draw, points=points), SIZE, cards.gpu)  # fmt: skip


def _table(cards: Cards) -> pd.DataFrame:
    """A line for each point and card: by how many percent the card is slower than the mean."""
    return pd.DataFrame([
        {"row": point.row, "card": card, "short": point.mean_us < SHORT_US,
         "percent": 100 * (ratio.value - 1)}
        for point in cards.points for card, ratio in point.ratios.items()
    ])  # fmt: skip


def _end(points: pd.DataFrame) -> float:
    """How far their axis reaches from the mean, percent."""
    return max(1.15 * float(points["percent"].abs().quantile(KEPT)), 0.5) if len(points) else 1.0


def _draw(canvas: Canvas, points: pd.DataFrame) -> None:
    for (left, width), short in zip(PLACES, (False, True), strict=True):
        ax = canvas.add_axes((left, 0.225, width, 0.565))
        sign = "<" if short else "≥"
        write(ax, 0, 1.03, f"share of the points {sign} {SHORT_US:g} µs")
        _draw_panel(ax, points[points["short"] == short])
        ax.tick_params(labelleft=not short)


def _draw_panel(ax: Axes, points: pd.DataFrame) -> None:
    """A step per point, so that no point hides another; cards alike lie on each other."""
    end = _end(points)
    ax.axvspan(0, end, color=BLUSH, lw=0, zorder=0)
    ax.axvline(0, color=INK, lw=0.9, zorder=1)
    for i, (card, mine) in enumerate(points.groupby("card")):
        mine = mine.sort_values("percent", kind="stable")
        shares = np.arange(1, len(mine) + 1) / len(mine)
        middle = f"{float(mine['percent'].median()):+.2f} %".replace("-", "−")
        ax.step(mine["percent"], shares, where="post", lw=1.5, color=COLORS[i % len(COLORS)],
                ls=DASHES[(i + i // len(COLORS)) % len(DASHES)], label=f"card {card}  {middle}",
                zorder=3)  # fmt: skip
        order = mine["percent"].abs().to_numpy().argsort(kind="stable")[::-1][:READ]
        far = mine.iloc[order]
        mark(ax, far["percent"], shares[order], [dict(row) | {"card": card} for row in far["row"]])
    ax.set_xlim(-end, end)
    ax.set_ylim(0, 1.02)
    ticks(ax.yaxis, [0, 0.25, 0.5, 0.75, 1], lambda value: f"{value:.0%}")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:+g} %".replace("-", "−") if x else "0")
    ax.set_xlabel("← faster      than the mean of the cards      slower →", fontsize=7.5)
    ax.grid(color=FAINT)
    ax.spines[["top", "right", "left"]].set_visible(False)
    if len(points):
        ax.legend(loc="upper left", frameon=False, fontsize=7, handlelength=1.8, borderpad=0)
    else:
        write(ax, 0.5, 0.5, "no such point", 8, ha="center", color=MUTED)


CARD_TO_CARD = Figure(
    "card_to_card",
    f"card_to_card needs {NEEDS}",
    _pages,
    "Cards of one kind that measured the same points: how many of them each card ran by how much "
    "faster or slower than the mean of all cards, long and short points apart.",
)
