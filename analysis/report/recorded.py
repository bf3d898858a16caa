"""What the page opens with: how near `auto` is to the limit, the noise floor, card to card.

A recording of each lies beside the rows, packed: of what the rows themselves do not hold, the
archives below them do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis import limits
from analysis.compare.selftest_report import selftest_of
from analysis.estimate import Estimate, geometric_mean
from analysis.format import NamedTable, Table, thousands
from analysis.gallery import Picture
from analysis.limits import OWN, LimitPoint
from analysis.load import Inputs, rows_hash
from analysis.selection import timer_label
from analysis.spread import SHORT_US, Cards, cards_of
from analysis.tables.comparisons import PARTS
from experiments.data.cards import card_of

FLOOR = "A variant measured under two names in one sweep: every difference is noise."
RECORDED = "Each recording is one sweep on one card or more; a hash is of its rows."


@dataclass(frozen=True)
class Headline:
    """How fast `auto` is under one protocol where memory alone decides, in words."""

    gpu: str
    protocol: str
    points: int
    peers: str  # the fastest public softmax's time over that of auto, with its interval
    torch: str
    roof: str  # the copy's time over that of auto, in the mean: its share of the copy's bandwidth
    least: str  # the least such share, and where


@dataclass(frozen=True)
class Noise:
    """The noise floor of one recording."""

    sentences: Mapping[str, Sequence[str]]  # by GPU
    tables: Sequence[NamedTable]
    pictures: Sequence[Picture]


def headlines(inputs: Inputs) -> list[Headline]:
    """One for each GPU and protocol; none where no row beside a peer's is of `auto`."""
    groups = limits.groups_of(limits.points_of(limits.recording_of(inputs).frame))
    _, inside = PARTS[0]
    return [_headline(large) for group in groups if (large := [p for p in group if inside(p)])]


def large_only(summary: Table) -> Table:
    """Of the table of limits in short the lines of its first part, without notes."""
    place = summary.heads.index("points")
    lines = [line for line in summary.lines if line[place] == PARTS[0][0]]
    return replace(summary, title=f"{PARTS[0][0]}, in full", lines=lines, notes=())


def noise_of(inputs: Inputs) -> Noise | None:
    """The noise floor of the last recording with most twins, None where there are none."""

    def twins(one: Inputs) -> int:
        return sum(bool(name.rpartition("-")[0]) for name in set(one.frame["kernel"]))

    found = max((*reversed(inputs.packed), inputs), key=twins)
    selftest = selftest_of(found) if twins(found) else None
    if selftest is None:
        return None
    pictures = [Picture("noise", FLOOR, page) for page in selftest.pages]
    return Noise(selftest.sentences, selftest.tables, pictures)


def card_sentences(inputs: Inputs) -> list[str]:
    """Of each sweep over several cards, how far the slowest lies from the fastest."""
    return [_cards_text(cards) for one in (inputs, *inputs.packed) for cards in cards_of(one.frame)]


def recordings(inputs: Inputs) -> Table:
    """Every sweep that the page was made from, and where it lies."""
    lines = []
    for one in (inputs, *inputs.packed):
        for (sweep, gpu), rows in one.frame.groupby(["sweep", "gpu"]):
            kernels = sorted(set(rows["kernel"]))
            named = ", ".join(kernels[:6]) + (f" and {len(kernels) - 6} more" * (len(kernels) > 6))
            lines.append([one.place or "rows", str(sweep), card_of(str(gpu)).name,
                          str(rows["card"].nunique()), str(rows["round"].nunique()), named,
                          thousands(len(rows)), rows_hash(rows)])  # fmt: skip
    heads = ["where", "sweep", "GPU", "cards", "rounds", "kernels", "rows", "hash"]
    return Table("What is recorded", heads, lines, [RECORDED])


def _headline(points: Sequence[LimitPoint]) -> Headline:
    first, peers = points[0], limits.geomean(points)
    assert peers is not None
    shares = [(point.share.value, point.name) for point in points if point.share is not None]
    share, name = min(shares, default=(0.0, ""))
    protocol = timer_label(first.timer) + ", widths held out from tuning" * (not first.tuned)
    return Headline(
        card_of(first.gpu).name,
        protocol,
        len(points),
        _ratio(peers),
        _ratio(limits.geomean(points, "torch")),
        _percent(limits.geomean(points, "copy")),
        f"{100 * share:.1f} % at {name}" if name else "",
    )


def _ratio(found: Estimate | None) -> str:
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})" if found else ""


def _percent(found: Estimate | None) -> str:
    if not found:
        return ""
    value, low, high = (100 * end for end in (found.value, found.low, found.high))
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def _cards_text(cards: Cards) -> str:
    means = []
    for text, short in ((f"of {SHORT_US:g} µs and more", False), (f"below {SHORT_US:g} µs", True)):
        spreads = [p.spread for p in cards.points if (p.mean_us < SHORT_US) is short]
        if spreads:
            mean = geometric_mean(spreads)
            means.append(f"{mean:.4f} over {thousands(len(spreads))} points {text}")
    count = len(cards.cards)
    return (
        f"{count} × {card_of(cards.gpu).name} of one host: the slowest card's time over that of "
        f"the fastest is {' and '.join(means)}."
    )


def context(inputs: Inputs, tables: Sequence[NamedTable]) -> dict[str, Any]:
    """What the templates take of it."""
    summary = next((one.table for one in tables if one.stem.startswith("limits_summary")), None)
    return {
        "headlines": headlines(inputs),
        "large": None if summary is None else large_only(summary),
        "own_name": OWN,
        "card_sentences": card_sentences(inputs),
        "recordings": recordings(inputs),
    }
