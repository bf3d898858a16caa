"""Each kernel over all points of its operation: the table `kernels`, the figures of shares.

The points are of one card, under the first protocol, and only large ones if there are any. They are
of the set that `analysis.points` uses, if it has the kernel. Equal bits are checked at other
points, in sweeps with ``determinism=true``.
"""

from functools import partial
from types import MappingProxyType
from typing import Any

import pandas as pd
import seaborn as sns

from analysis.estimate import geometric_mean
from analysis.figures import style
from analysis.figures.style import MUTED, Canvas, Figure, Page, ordered, slug, style_of
from analysis.format import BEHIND, Named, number_text, table, texts
from analysis.load import Inputs
from analysis.points import LARGE_BYTES, VISIT, maker, mean_share
from analysis.selection import PROTOCOLS, name_variants, timed
from experiments.data.cards import datasheet_of
from experiments.data.jobs import OURS
from experiments.data.rows import ITEM_BYTES

SHAPE = ["rows", "cols", "dtype"]
BITS = MappingProxyType({"deterministic": "same at each call", "batch_invariant": "same in any M"})
HEADS = ("cross_entropy", "logprob_entropy", "kl_div")  # and their gradients
EACH, LETTER, PERCENT = 0.165, 0.064, 0.5  # inches: a line, a letter of its name, its number
SUBTITLE = "a column per card, a line per kernel: its bandwidth over the roof's at the same shape"


def kernel_points(inputs: Inputs) -> pd.DataFrame:
    """A line per card, kernel and point.

    ``us``, ``share`` (of the roof) and ``ours`` are medians over all visits. ``ours`` is the share
    of our kernel in the same visit or, without one, in the set used. ``matrices`` (the memory that
    a call had beyond its inputs, in matrices of M×N), ``relative_error`` and bits are the worst.
    """
    frame = inputs.frame
    good = frame["status"].eq("ok") & frame["operation"].ne(frame["roof"])
    good &= frame["rows"].gt(0) & frame["cols"].gt(0) & ~frame["kernel"].str.contains("-")
    rows = name_variants(frame[good])
    each = [rows["gpu"], rows["operation"]]
    protocols = zip(rows["timer"], rows["cache"], strict=True)
    rank = pd.Series([PROTOCOLS.index(p) if p in PROTOCOLS else 99 for p in protocols], rows.index)
    counted = timed(rows) & rows["fraction_of_roof"].notna()
    counted &= rows["flops"].isna() | rows["arithmetic_us"].notna()  # else the roof is no bound
    used = pd.concat([frame.iloc[:0], *inputs.points.values()])
    in_set, known = (
        pd.MultiIndex.from_frame(rows[names]).isin(pd.MultiIndex.from_frame(used[names]))
        for names in (["gpu", "operation", "set"], ["gpu", "operation", "kernel"])
    )
    counted &= in_set | ~known
    counted &= rank.eq(rank.where(counted).groupby(each).transform("min"))
    large = counted & rows["compulsory_bytes"].ge(LARGE_BYTES)
    counted &= large | ~large.groupby(each).transform("any")
    items = rows["dtype"].map(ITEM_BYTES).astype(float)
    # recordings come from several hosts, so shares of the roof are compared, not times
    named = rows["variant"].eq(inputs.ours)
    own = named | (rows["kernel"].map(maker).eq(OURS) & ~named.groupby(each).transform("any"))
    at, mine = [*each, *(rows[name] for name in SHAPE)], rows["fraction_of_roof"].where(own)
    visit = [*at, *(rows[name] for name in (*VISIT, "timer", "cache"))]
    beside = mine.where(timed(rows)).groupby(visit).transform("median")
    beside = beside.fillna(mine.where(counted).groupby(at).transform("median"))
    rows = rows.assign(
        ours=beside.where(counted),
        us=rows["time_us"].where(counted),
        share=rows["fraction_of_roof"].where(counted),
        matrices=rows["peak_bytes"] / rows["rows"] / rows["cols"] / items,
        **{name: rows[name].astype("boolean") for name in BITS},
    )
    rows = rows[counted | rows[[*BITS]].notna().any(axis=1)]
    columns: dict[str, Any] = {name: (name, "median") for name in ("us", "share", "ours")}
    columns |= {name: (name, "max") for name in ("matrices", "relative_error")}
    columns |= {name: (name, "min") for name in BITS} | BEHIND
    found = rows.groupby(["gpu", "operation", "kernel", "variant", *SHAPE], as_index=False)
    return ordered(found.agg(**columns), "gpu", "operation")


def kernels(inputs: Inputs) -> Named:
    """A line per kernel of a card: its time over ours, share, memory, bits and error."""
    for gpu, points in kernel_points(inputs).groupby("gpu"):
        lines = []
        for operation, every in points.groupby("operation", sort=False):
            for variant, mine in every.groupby("variant", sort=False):
                beside = mine["ours"] / mine["share"]
                line = {
                    "operation": operation,
                    "kernel": variant,
                    "points": mine["us"].count(),
                    "time / ours": number_text(geometric_mean(beside.dropna()), 2),
                    "of roof, %": number_text(100 * mean_share(mine["share"]), 1),
                    "memory, MN": number_text(mine["matrices"].max(), 2),
                    "largest error": mine["relative_error"].max(),
                }
                for name, text in BITS.items():
                    known = mine[name].dropna()
                    line[text] = f"{known.sum()} of {len(known)}" if len(known) else "–"
                lines.append(line)
        title = f"Every kernel in one line: {datasheet_of(str(gpu)).name}"
        made = table(title, pd.DataFrame(lines), texts("kernels"), points.drop(columns="kernel"))
        yield f"kernels-{slug(str(gpu))}", made


def _pages(heads: bool, name: str, title: str, inputs: Inputs) -> list[Page]:
    """A line per kernel of ours or of a library, below its operation, and a panel per card."""
    points = kernel_points(inputs)
    of_heads = points["operation"].str.startswith(HEADS)
    points = ordered(points[of_heads.eq(heads) & points["kernel"].map(maker).ne("")], "operation")
    groups = points.dropna(subset="share").groupby(["operation", "kernel", "gpu"], sort=False)
    shares = groups["share"].agg(mean_share).unstack("gpu")
    shares = shares[[gpu for gpu in inputs.by_gpu if gpu in shares]]
    if shares.empty:
        return []
    height = EACH * (len(shares) + shares.index.unique(0).size)
    size = style.WIDTH, style.ABOVE + style.BELOW + height
    cards = " and ".join(datasheet_of(str(gpu)).name for gpu in shares)
    small = texts("shares", cards=cards, large=f"{LARGE_BYTES / 1e6:.0f} MB")
    return [Page(name, title, SUBTITLE, small, partial(_draw, shares=shares), size)]


def _draw(canvas: Canvas, shares: pd.DataFrame) -> None:
    width, height = canvas.get_size_inches()
    lines: list[tuple[str, str]] = []
    for operation, mine in shares.groupby(level=0, sort=False):
        lines += [(str(operation), ""), *mine.index]
    names = 0.2 + LETTER * max(len(kernel or operation) for operation, kernel in lines)
    wide, bottom = (width - names) / shares.columns.size, style.BELOW / height
    for i, (gpu, known) in enumerate(shares.items()):
        left, tall = (names + i * wide) / width, 1 - bottom - style.ABOVE / height
        ax = canvas.add_axes((left, bottom, (wide - PERCENT) / width, tall))
        for at, line in enumerate(lines):
            if line not in known.index or pd.isna(share := known[line]):
                continue
            look = style_of(line[1])
            ax.hlines(at, 0, share, color=look.color, lw=1.2, alpha=0.45, zorder=2)
            ax.plot(share, at, zorder=3, clip_on=False, **look.dots(0.8, mew=0.4))
            place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center"}
            ax.text(1.03, at, f"{100 * share:.0f} %", fontsize=6.5, color=MUTED, **place)
        ax.set(xlim=(0, 1), ylim=(len(lines) - 0.4, -0.6))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        ax.set_yticks(range(len(lines)), [] if i else [one[1] or one[0] for one in lines])
        ax.tick_params(labelsize=7.5)
        ax.tick_params(axis="y", length=0)
        for label, line in zip(ax.get_yticklabels(), lines, strict=not i):
            label.set_fontweight("normal" if line[1] else "bold")
        ax.set_title(datasheet_of(str(gpu)).name, fontsize=8, color=MUTED, loc="left")
        ax.grid(axis="x", zorder=0)
        ax.set_axisbelow(True)
        sns.despine(ax=ax, left=True)


SHARE_FIGURES = tuple(
    Figure(
        name,
        f"{name} needs timed rows of our kernel or a public one, and of its roof",
        partial(_pages, name == "heads", name, title),
        f"The share of each card's own roof that {what} reach, ours and the libraries'.",
    )
    for name, title, what in (
        ("shares", "Shares of the roof, by card", "all kernels but the losses"),
        ("heads", "Shares of the roof, by card: losses", "the losses and their gradients"),
    )
)
