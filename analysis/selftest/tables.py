"""The self-test's tables: the floor, the timers, and the proof that cold is cold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.estimate import rate_interval
from analysis.format import NamedTable, Table
from analysis.selftest.cold import Cold, gbps
from analysis.selftest.floor import LEAST, Floor
from analysis.selftest.timers import Agreement
from analysis.style import CACHES, TIMERS
from experiments.data.cards import card_of


def floor_table(floors: Sequence[Floor]) -> NamedTable:
    """Each card, protocol and time range: false positives, what can be told apart, spreads."""
    heads = ["card", "timer", "time, µs", "pairs", "rounds", "called different",
             "rate, 95 % interval", "one round within", "all rounds within", "resolves",
             "spread within a round", "spread between rounds", "last round foretold"]  # fmt: skip
    notes = [
        "A pair is one variant under two names at one point of one sweep, so every difference is "
        "noise. Called different: the 95 % interval of the ratio over all rounds leaves out 1.",
        "One round within, all rounds within: what 95 % of the pairs' ratios stay within. "
        "Resolves: the least slowdown that the intervals of 95 % of the pairs would have told.",
        "Spread within a round: the samples' quartiles' distance over 1.349; between rounds: the "
        "standard deviation of the rounds' medians; both the median over the range. Foretold: last "
        "rounds that lay within the 95 % prediction interval of the rounds before them.",
    ]
    if any(len(floor.pairs) < LEAST for floor in floors):
        notes.append(f"Of fewer than {LEAST} pairs the largest one stands for 95 %.")
    return NamedTable("floor", Table("The noise floor", heads, [_floor(f) for f in floors], notes))


def _floor(floor: Floor) -> list[str]:
    found, pairs = floor.false_positives, len(floor.pairs)
    low, high = rate_interval(found, pairs)
    inside, last = floor.foretold
    fewest, most = floor.rounds
    return [
        card_of(floor.gpu).name,
        f"{TIMERS[floor.timer]}, {CACHES[floor.cache]}",
        span(floor.low_us, floor.high_us),
        str(pairs),
        str(most) if fewest == most else f"{fewest}–{most}",
        str(found),
        f"{100 * found / pairs:.1f} % ({100 * low:.1f}–{100 * high:.1f})",
        percent(floor.one_round),
        percent(floor.all_rounds),
        percent(floor.resolvable),
        percent(floor.within),
        percent(floor.between),
        f"{inside} of {last}" if last else "–",
    ]


def timers_table(agreements: Sequence[Agreement]) -> NamedTable:
    """Each two timers by time range: the offset and the ratio."""
    heads = ["card", "timers", "time, µs", "points", "offset, µs", "5–95 %", "ratio", "5–95 %"]
    notes = [
        "Offset and ratio are medians over the points that both timers have; the second timer's "
        "time places a point in its range. The profiler's time is that of the kernels alone."
    ]
    lines = [_agreement(one) for one in agreements]
    return NamedTable(
        "timers", Table("What two timers tell of the same point", heads, lines, notes)
    )


def _agreement(one: Agreement) -> list[str]:
    offset, ratio = one.offset_us, one.ratio
    return [
        card_of(one.gpu).name,
        f"{one.first} against {one.second}, {one.cache}",
        span(one.low_us, one.high_us),
        str(len(one.times_us)),
        f"{offset[0]:+.2f}",
        f"{offset[1]:+.2f} to {offset[2]:+.2f}",
        f"{ratio[0]:.4f}",
        f"{ratio[1]:.4f} to {ratio[2]:.4f}",
    ]


def cold_table(probes: Sequence[Cold]) -> NamedTable:
    """Each size and timer: the buffer read cold and warm."""
    heads = ["card", "timer", "buffer, MiB", "cold, µs", "warm, µs", "cold / warm", "cold, GB/s",
             "warm, GB/s", "told apart"]  # fmt: skip
    notes = [
        "One buffer that L2 holds, read as rows are summed. Events: after the flush that every "
        "cold sample has. Graph: in a rotation of buffers that L2 does not hold together. "
        "Told apart: the 95 % intervals of the two medians do not touch."
    ]
    lines = [_cold(probe) for probe in probes]
    return NamedTable("cold", Table("A buffer read cold, and read warm", heads, lines, notes))


def _cold(probe: Cold) -> list[str]:
    return [
        card_of(probe.cold.gpu).name,
        TIMERS[probe.cold.timer],
        f"{probe.cold.bytes / 2**20:g}",
        f"{probe.cold.time_us:.2f}",
        f"{probe.warm.time_us:.2f}",
        f"{probe.ratio:.2f}",
        f"{gbps(probe.cold):,.0f}",
        f"{gbps(probe.warm):,.0f}",
        "yes" if probe.proven else "no",
    ]


def span(low_us: float, high_us: float) -> str:
    """A range of times as words."""
    if math.isinf(high_us):
        return f"> {low_us:g}" if low_us else "all"
    return f"{low_us:g}–{high_us:g}" if low_us else f"< {high_us:g}"


def percent(share: float) -> str:
    """A share of a median, to a hundredth of a per cent; nothing where it is unknown."""
    return "–" if math.isnan(share) else f"{share:.2%}".replace("%", " %")
