"""``selftest``: the noise floor as tables, a picture, and a paragraph for pages that quote it.

The frames are those of `analysis.compare.selftest`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle

from analysis.compare.points import ALPHA
from analysis.compare.selftest import (
    EDGES_US,
    agreements,
    compared,
    floors,
    flushes_of,
    probes_of,
    read_probes,
    twins_of,
)
from analysis.compare.tables import lines_of
from analysis.estimate import rate_interval
from analysis.figures.page import Canvas, Page
from analysis.figures.style import (
    BLUSH,
    CACHES,
    FAINT,
    INK,
    MUTED,
    slug,
    style_of,
    value_axis,
    variant_order,
)
from analysis.format import NamedTable, Table
from analysis.load import Inputs, read_inputs
from analysis.output import finish
from analysis.selection import timer_label
from experiments.data.cards import card_of
from experiments.data.files import RowsError, write_file

LEAST = 20  # pairs below which a 95th percentile is the largest one seen
RING = "#b91c1c"
SIZE = (5.8, 4.3)


@dataclass(frozen=True)
class Selftest:
    """What twins, timers and the probe's records say: ``missing`` are the parts that they lack."""

    tables: Sequence[NamedTable]
    pages: Sequence[Page]
    sentences: Mapping[str, Sequence[str]]  # by GPU
    missing: Sequence[str]

    @property
    def text(self) -> str:
        """Markdown: a paragraph for each GPU."""
        heads = {gpu: f"**Noise floor, {card_of(gpu).name}.**" for gpu in self.sentences}
        return "\n".join(f"{heads[g]} {' '.join(texts)}\n" for g, texts in self.sentences.items())


def run(options: argparse.Namespace) -> int:
    """Writes tables, picture and paragraph, and prints the paragraph.

    Raises:
        RowsError: no variant was measured under two names.
    """
    inputs = read_inputs(options.rows, options.out, "selftest")
    found = selftest_of(inputs)
    if found is None:
        raise RowsError(
            f"{inputs.rows}: no variant stands against itself under two names; the preset does: "
            "python -m experiments.run experiment=selftest"
        )
    made = [path for table in found.tables for path in table.files(inputs.out)]
    made += [path for page in found.pages for path in page.files(inputs.out)]
    made.append(write_file(inputs.out / "noise_floor.md", found.text))
    finish("selftest", inputs, made, found.missing)
    print(f"\n{found.text}", end="")
    return 0


def selftest_of(inputs: Inputs) -> Selftest | None:
    """The noise floor of these rows; None where no variant was measured under two names."""
    pairs = twins_of(inputs.frame)
    if pairs.empty:
        return None
    recorded = read_probes(inputs.rows)
    ranges, probes, flushes = floors(pairs), probes_of(recorded), flushes_of(recorded)
    timers = agreements(inputs.frame, inputs.records)
    tables, missed = [floor_table(ranges), intervals_table(ranges)], []
    for rows, table, needs in (
        (timers, timers_table, "timers needs the same points by two timers, timing=events,graph"),
        (probes, cold_table, "cold needs probe.jsonl of the card: python -m experiments.probe"),
        (flushes, flush_table, "flush needs the same: python -m experiments.probe"),
    ):
        if rows.empty:
            missed.append(needs)
        else:
            tables.append(table(rows))
    pages = [
        _page(str(gpu), mine, pairs[pairs["gpu"] == gpu]) for gpu, mine in ranges.groupby("gpu")
    ]
    judged = compared(inputs.frame, pairs["kernel"])
    return Selftest(tables, pages, noise_floor(ranges, judged, timers, probes), missed)


def floor_table(floors: pd.DataFrame) -> NamedTable:
    """Each card, protocol and time range: false positives, what can be distinguished, spreads."""
    heads = ["card", "timer", "time, µs", "pairs", "rounds", "called different",
             "rate, 95 % interval", "one round within", "all rounds within", "resolves",
             "spread within a round", "spread between rounds", "last round predicted"]  # fmt: skip
    notes = [
        "A pair is one variant under two names at one point of one sweep, so every difference is "
        "noise. Called different: the 95 % interval of the ratio over all rounds leaves out 1.",
        "One round within, all rounds within: what 95 % of the pairs' ratios stay within. "
        "Resolves: the least slowdown that the intervals of 95 % of the pairs would have resolved.",
        "Spread within a round: the samples' quartiles' distance over 1.349; between rounds: the "
        "standard deviation of the rounds' medians; both the median over the range. Predicted: "
        "last rounds that lay within the 95 % prediction interval of the rounds before them.",
    ]
    if floors["pairs"].lt(LEAST).any():
        notes.append(f"With fewer than {LEAST} pairs the largest one is taken for 95 %.")
    lines = []
    for one in lines_of(floors):
        shares = [one.one_round, one.all_rounds, one.resolvable, one.within, one.between]
        lines.append([
            card_of(one.gpu).name,
            f"{timer_label(one.timer)}, {CACHES[one.cache]}",
            _span(one),
            str(one.pairs),
            _rounds(one.fewest, one.most),
            str(one.false_positives),
            _rate_text(one.false_positives, one.pairs),
            *map(_percent, shares),
            f"{one.predicted} of {one.sides}" if one.sides else "–",
        ])  # fmt: skip
    return NamedTable("floor", Table("The noise floor", heads, lines, notes))


def intervals_table(floors: pd.DataFrame) -> NamedTable:
    """What intervals of three rounds and of a single one are worth, by protocol and time range."""
    heads = ["card", "timer", "time, µs", "three rounds", "called different",
             "rate, 95 % interval", "resolve", "a round's interval holds another's median",
             "and another's ratio"]  # fmt: skip
    notes = [
        "Three rounds: every three in succession of each pair, as a sweep of three rounds has "
        "them. Called different and resolve as in the noise floor.",
        "The 95 % interval of a single round is of its samples: how often it holds the median that "
        "another round of the same variant found, and that of a ratio the ratio of another round. "
        "If rounds differed by no more than their samples show, it would be 83 % and 95 %.",
    ]
    lines = []
    for one in lines_of(floors):
        lines.append([
            card_of(one.gpu).name,
            f"{timer_label(one.timer)}, {CACHES[one.cache]}",
            _span(one),
            str(one.threes),
            str(one.threes_false),
            _rate_text(one.threes_false, one.threes) if one.threes else "–",
            _percent(one.threes_resolvable),
            *(_held_text(held) for held in (one.medians_held, one.ratios_held)),
        ])  # fmt: skip
    return NamedTable("intervals", Table("What an interval holds", heads, lines, notes))


def timers_table(agreements: pd.DataFrame) -> NamedTable:
    """Each two timers by time range: the offset and the ratio."""
    heads = ["card", "timers", "time, µs", "points", "offset, µs", "5–95 %", "ratio", "5–95 %"]
    notes = [
        "Offset and ratio are medians over the points that both timers have; the second timer's "
        "time places a point in its range. The profiler's time covers the kernels alone."
    ]
    lines = [
        [
            card_of(one.gpu).name,
            f"{one.first} against {one.second}, {one.cache}",
            _span(one),
            str(one.points),
            "{:+.2f}".format(*one.offset),
            "{1:+.2f} to {2:+.2f}".format(*one.offset),
            "{:.4f}".format(*one.ratio),
            "{1:.4f} to {2:.4f}".format(*one.ratio),
        ]
        for one in lines_of(agreements)
    ]
    title = "Two timers at the same points"
    return NamedTable("timers", Table(title, heads, lines, notes))


def cold_table(probes: pd.DataFrame) -> NamedTable:
    """Each size and timer: the buffer read cold and warm."""
    heads = ["card", "timer", "buffer, MiB", "cold, µs", "warm, µs", "cold / warm", "cold, GB/s",
             "warm, GB/s", "distinct"]  # fmt: skip
    notes = [
        "One buffer that L2 holds, read as rows are summed. Events: after the flush that every "
        "cold sample has. Graph: in a rotation of buffers that L2 does not hold together. "
        "Distinct: the 95 % intervals of the two medians do not overlap."
    ]
    lines = [
        [
            card_of(one.gpu).name,
            timer_label(one.timer),
            f"{one.bytes / 2**20:g}",
            f"{one.cold_us:.2f}",
            f"{one.warm_us:.2f}",
            f"{one.ratio:.2f}",
            f"{one.bytes / one.cold_us / 1e3:,.0f}",
            f"{one.bytes / one.warm_us / 1e3:,.0f}",
            "yes" if one.proven else "no",
        ]
        for one in lines_of(probes)
    ]
    return NamedTable("cold", Table("A buffer read cold, and read warm", heads, lines, notes))


def flush_table(flushes: pd.DataFrame) -> NamedTable:
    """Each size and way into L2: the buffer read before and after a flush, and cold."""
    heads = ["card", "left in L2, MiB", "by", "no flush, µs", "after the flush, µs", "cold, µs",
             "kept"]  # fmt: skip
    notes = [
        "A buffer is put into L2 and read, by events, at once or after the flush that every cold "
        "sample has. Hinted: its lines ask to stay (evict_last). Cold: others are read in turn, of "
        "which L2 holds none. Kept: the share of what L2 saves that is left after the flush."
    ]
    lines = [
        [
            card_of(one.gpu).name,
            f"{one.bytes / 2**20:g}",
            one.left,
            *(f"{us:.2f}" for us in (one.before_us, one.after_us, one.cold_us)),
            f"{100 * one.kept:.0f} %",
        ]
        for one in lines_of(flushes)
    ]
    return NamedTable("flush", Table("What a flush leaves in L2", heads, lines, notes))


def noise_floor(
    floors: pd.DataFrame, points: pd.DataFrame, agreements: pd.DataFrame, probes: pd.DataFrame
) -> dict[str, list[str]]:
    """The sentences of each GPU, every number of them from the rows."""
    paragraphs = {}
    for gpu, mine in floors.groupby("gpu"):
        wholes, judged = mine[mine["whole"]], points[points["gpu"] == gpu]
        found, pairs = int(wholes["false_positives"].sum()), int(wholes["pairs"].sum())
        called = int(judged["verdict"].isin(["slower", "faster"]).sum())
        rounds = _rounds(wholes["fewest"].min(), wholes["most"].max(), " to ")
        texts = [
            f"Of {pairs} comparisons of a variant with "
            f"itself over {rounds} round{'s' * (rounds != '1')}, {found} were called different at "
            f"the 5 % level: {100 * found / pairs:.1f} % (95 % interval "
            "{:.1f} to {:.1f} %).".format(*(100 * end for end in rate_interval(found, pairs))),
            f"Compared as two sets of rows, at a chance of {100 * ALPHA:.0f} % for any false alarm "
            f"in the whole set, {called} of {len(judged)} points are called faster or slower and "
            f"{int(judged['regression'].sum())} would fail a gate.",
        ]
        for one in lines_of(wholes[wholes["most"] > 1]):
            texts.append(
                f"A single round's 95 % interval by {timer_label(one.timer)} with a "
                f"{CACHES[one.cache]} holds another round's median in "
                f"{_held_text(one.medians_held)} of cases, and that of a ratio another round's "
                f"ratio in {_held_text(one.ratios_held)}."
            )
        for (timer, cache), ranges in mine[~mine["whole"]].groupby(["timer", "cache"]):
            each = "; ".join(
                f"{_percent(one.resolvable)} at {_span(one)} µs "
                f"({_percent(one.one_round)} of noise in one round)"
                for one in lines_of(ranges)
            )
            texts.append(
                f"By {timer_label(str(timer))} with a {CACHES[str(cache)]} the least slowdown that "
                f"95 % of the comparisons resolve is {each}."
            )
        # the shortest range shows the offset; the others are in the table
        texts += [
            f"Below {one.high_us:g} µs {one.first} report {one.offset[0]:+.2f} µs against "
            f"{one.second} (median of {one.points} points)."
            for one in lines_of(agreements)
            if (one.gpu, one.cache, one.low_us) == (gpu, "cold", 0)
        ]
        if len(probes) and len(cold := probes[probes["gpu"] == gpu]):
            ratios, sizes, proven = cold["ratio"], cold["bytes"] / 2**20, int(cold["proven"].sum())
            share = "every one" if proven == len(cold) else f"{proven} of {len(cold)}"
            texts.append(
                f"A buffer of {sizes.min():g} to {sizes.max():g} MiB takes {ratios.min():.2f} to "
                f"{ratios.max():.2f} times as long to read cold as warm, {share} beyond both "
                "intervals."
            )
        paragraphs[str(gpu)] = texts
    return paragraphs


def _page(gpu: str, floors: pd.DataFrame, pairs: pd.DataFrame) -> Page:
    """Every pair's ratio against its time, with what a card's protocols can resolve."""
    wholes = lines_of(floors[floors["whole"]])
    small = [
        "point: ratio over all rounds and its 95 % interval, ringed where it leaves out 1; "
        "grey: single rounds",
        "band: the least slowdown that 95 % of the intervals of a time range resolve; dotted: what "
        "95 % of single rounds stay within",
    ]

    def draw(canvas: Canvas) -> None:
        height = 0.64 / len(wholes)
        ends = pairs["time_us"].min() / 1.2, pairs["time_us"].max() * 1.2
        reach = 125 * float(floors[["resolvable", "one_round"]].to_numpy().max())
        for i, whole in enumerate(wholes):
            low = 0.185 + (len(wholes) - 1 - i) * (height + 0.045)
            ax = canvas.add_axes((0.088, low, 0.885, height - 0.02))
            ax.set_xscale("log")
            ax.set_xlim(*ends)
            ax.set_ylim(-reach, reach)
            mine, ranges = (
                table[(table["timer"] == whole.timer) & (table["cache"] == whole.cache)]
                for table in (pairs, floors[~floors["whole"]])
            )
            _panel(ax, mine, ranges, ends)
            value_axis(ax, f"ratio − 1, %  ·  {timer_label(whole.timer)}, {CACHES[whole.cache]}")
            ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            if i == len(wholes) - 1:
                ax.set_xlabel("time, µs")
            else:
                ax.tick_params(labelbottom=False)
        styles = {name: style_of(name) for name in sorted(set(pairs["kernel"]), key=variant_order)}
        handles = [Line2D([], [], ls="", marker=MarkerStyle(style.marker), color=style.color,
                          ms=0.6 * style.size, label=name)
                   for name, style in styles.items()]  # fmt: skip
        canvas.legend(
            handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.99), ncols=3,
            frameon=False, fontsize=6.5, handletextpad=0.1, columnspacing=0.9,
        )  # fmt: skip

    rounds = max(whole.most for whole in wholes)
    subtitle = f"{card_of(gpu).name}  ·  {len(pairs)} pairs  ·  {rounds} rounds"
    name, title = f"selftest_floor-{slug(gpu)}", "A variant against itself"
    return Page(name, title, subtitle, small, draw, SIZE, gpu)


def _panel(ax: Axes, pairs: pd.DataFrame, ranges: pd.DataFrame, ends: tuple[float, float]) -> None:
    for floor in lines_of(ranges):
        left, right = max(floor.low_us, ends[0]), min(floor.high_us, ends[1])
        high, single = 100 * floor.resolvable, 100 * floor.one_round
        ax.fill_between([left, right], -high, high, color=BLUSH, lw=0, zorder=0.5)
        for y in (-single, single):
            ax.plot([left, right], [y, y], color=MUTED, lw=0.8, ls=(0, (1, 1.5)), zorder=1.5)
        ax.text(float(np.sqrt(left * right)), max(high, single), _percent(floor.resolvable),
                fontsize=6.2, color=MUTED, ha="center", va="bottom", zorder=4)  # fmt: skip
    for edge in EDGES_US[1:-1]:
        if ends[0] < edge < ends[1]:
            ax.axvline(edge, color=FAINT, lw=0.7, zorder=1)
    ax.axhline(0, color=INK, lw=0.8, zorder=2)
    for pair in lines_of(pairs):
        style, x = style_of(pair.kernel), [pair.time_us]
        y, low, high = (100 * (end - 1) for end in (pair.ratio, pair.low, pair.high))
        ax.plot(x * pair.rounds, 100 * (pair.single - 1), ls="", marker=".", ms=1.8, color=MUTED,
                alpha=0.35, mew=0, zorder=2)  # fmt: skip
        ax.vlines(x, low, high, color=style.color, lw=0.7, alpha=0.8, zorder=2.5)
        ax.plot(x, [y], ls="", marker=style.marker, color=style.color, ms=0.5 * style.size, mew=0,
                zorder=3)  # fmt: skip
        if pair.differs:
            ax.plot(x, [y], ls="", marker="o", mfc="none", mec=RING, ms=8, mew=0.9, zorder=4)


def _rounds(fewest: int, most: int, to: str = "–") -> str:
    return str(most) if fewest == most else f"{fewest}{to}{most}"


def _span(one: Any) -> str:
    """A range of times as text."""
    if math.isinf(one.high_us):
        return f"> {one.low_us:g}" if one.low_us else "all"
    return f"{one.low_us:g}–{one.high_us:g}" if one.low_us else f"< {one.high_us:g}"


def _rate_text(found: int, of: int) -> str:
    low, high = rate_interval(found, of)
    return f"{100 * found / of:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def _held_text(held: tuple[int, int]) -> str:
    """How often, in whole per cent; nothing where there was one round alone."""
    return f"{100 * held[0] / held[1]:.0f} %" if held[1] else "–"


def _percent(share: float) -> str:
    """A share of a median, to a hundredth of a per cent; nothing where it is unknown."""
    return "–" if math.isnan(share) else f"{100 * share:.2f} %"
