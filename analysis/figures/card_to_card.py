"""Card to card: every point's time on each card over the mean of the cards, a strip a card."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

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
from analysis.spread import NEEDS, SHORT_US, Cards, Point, cards_of
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
                small, lambda canvas: _draw(canvas, cards, size), size, cards.gpu)  # fmt: skip


def _draw(canvas: Canvas, cards: Cards, size: tuple[float, float]) -> None:
    height = size[1]
    ax = canvas.add_axes((0.1, BELOW / height, 0.88, 1 - (ABOVE + BELOW) / height))
    far = float(np.quantile([abs(100 * (r.value - 1)) for p in cards.points
                             for r in p.ratios.values()], 0.995))  # fmt: skip
    ends = (-max(1.15 * far, 0.5), max(1.15 * far, 0.5))
    ax.set_xlim(*ends)
    ax.set_ylim(len(cards.cards) - 0.5, -0.5)
    ax.axvline(0, color=INK, lw=0.9, zorder=1)
    dice = np.random.default_rng(0)  # apart, so that points do not hide each other
    for strip, card in enumerate(cards.cards):
        ax.axhspan(strip - 0.42, strip + 0.42, color=FAINT, alpha=0.5, lw=0, zorder=0)
        _points(ax, cards, card, strip + dice.uniform(-0.36, 0.2, len(cards.points)), ends)
        _bar(ax, cards, card, strip)
    ax.set_yticks(range(len(cards.cards)), [f"card {card}" for card in cards.cards])
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "−") if value else "0")
    )
    ax.set_xlabel("slower than the mean of the cards →")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    names = {str(point.row["variant"]).split(" ")[0] for point in cards.points}
    marker_legend(canvas, sorted(names, key=variant_order), size)


def _points(
    ax: Axes, cards: Cards, card: int, heights: np.ndarray, ends: tuple[float, float]
) -> None:
    """A card's points in the styles of their variants; those far off remember their rows."""
    places: dict[tuple[str, bool], list[tuple[float, float, Point]]] = {}
    for point, y in zip(cards.points, heights, strict=True):
        x = within(100 * (point.ratios[card].value - 1), ends)
        place = str(point.row["variant"]).split(" ")[0], point.mean_us < SHORT_US
        places.setdefault(place, []).append((x, float(y), point))
    for (variant, short), found in places.items():
        style, (across, up, _) = style_of(variant), zip(*found, strict=True)
        ax.plot(across, up, ls="", marker=style.marker, ms=style.size * (0.35 if short else 0.5),
                mfc=style.color, mec="white", mew=0.25, alpha=0.4 if short else 0.85,
                zorder=2.5 if short else 3)  # fmt: skip
    every = [one for found in places.values() for one in found]
    for far, height, point in sorted(every, key=lambda one: -abs(one[0]))[:READ]:
        mark(ax, [far], [height], [dict(point.row) | {"card": card}])


def _bar(ax: Axes, cards: Cards, card: int, strip: int) -> None:
    rest = [100 * (p.ratios[card].value - 1) for p in cards.points if p.mean_us >= SHORT_US]
    if rest:
        low, middle, high = np.quantile(rest, [0.05, 0.5, 0.95])
        y = strip + 0.32
        ax.hlines(y, low, high, color=INK, lw=1.6, zorder=5)
        ax.plot([middle], [y], "|", color=INK, ms=7, mew=1.6, zorder=5)
        percent = f"  {middle:+.2f} %".replace("-", "−")
        ax.text(high, y, percent, fontsize=6.2, color=MUTED, va="center", zorder=5)


CARD_TO_CARD = Figure(
    "card_to_card",
    f"card_to_card needs {NEEDS}",
    _pages,
    "Cards of one kind that measured the same points: each card's time over the mean of all "
    "cards, point by point.",
)
