"""The audit of printed numbers: what the sources print, recomputed.

It needs no rows: a statement is compared with arithmetic, with datasheets, with what our variants
declare that they move, with cited facts, or with another statement. A printed number stands for all
values that round to it. “About” allows a tenth, and a gap is significant from a tenth on.

Code that prints no number is left to a reader: what A's wrapper keeps of its warm-up compilation,
exp of the loaded dtype (A, B, D, E), C's compile-time M and N. Rows judge what names no number (A8,
B3, C1, C6, D4), and E1, whose two versions have none in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.claims import a, b, c, d
from analysis.formula import elements, equal
from analysis.load import REFERENCE, load_declarations
from analysis.published import sources
from analysis.worked_example import compared
from experiments.data.cards import known_cards
from experiments.data.files import RowsError
from experiments.data.jobs import Declaration
from experiments.data.rows import ITEM_BYTES

IMPOSSIBLE, CONTRADICTORY = "physically impossible", "self-contradictory"
WRONG, CONSISTENT = "wrong", "consistent"
VERDICTS = (IMPOSSIBLE, CONTRADICTORY, WRONG, CONSISTENT)  # the gravest first
TENTH = 0.10
HALF = 0.5  # of the last digit of a time in A-fig2, µs, and of a peak in A6, GB/s
DECLARED = Path(__file__).parents[2] / REFERENCE  # what our variants say that they move
WIDE = 10**6  # columns from which on a formula's widest term is all
LEVELS = (("A6", "fused"), ("A6", "torch"), ("C2", "hybrid"), ("D3", "fused"))
# max(dim=1), subtract, exp, sum(dim=1), divide
CALLS = {"reads": "MN + MN + M + MN + MN + MN + M", "writes": "M + MN + MN + M + MN"}
SHAPES = {"A-fig2": (4096, 262144), "B4": (), "C4": (8192, 32000), "D-fig1": (4096, 12288)}
PARTS = {  # of the worked example
    "": ("maximum", "sum", "outputs"),
    ", sum of outputs": ("sum of printed outputs",),
    ", block sums": ("sum of block 1", "sum of block 2"),
}
MODULES = {"A": a, "B": b, "C": c, "D": d}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AuditFinding:
    """One printed statement, compared with something that it has to agree with."""

    source: str  # its letter
    subject: str  # what was checked: ``"A-fig2 fused, N ≥ 4,096"``
    verdict: str  # one of `VERDICTS`; `NOTE` says what they mean
    printed: str
    computed: str  # what it should be, or what follows from what is printed
    why: str = ""  # a sentence where the two do not say it


NOTE = (
    "Physically impossible: above the datasheet peak of every card described in conf/gpu, for "
    "matrices that its L2 does not hold. Self-contradictory: two statements of one source, of a "
    "source and its sequel, or of two accounts of the same code that cannot both hold. Wrong: "
    "against arithmetic, a variant's traffic model or a cited fact. A printed number covers all "
    "values that round to it, in the worked example all within one unit of its last digit."
)


def audit() -> list[AuditFinding]:
    """Every check of every statement, by source.

    Raises:
        RowsError: a declaration is malformed or missing; it names the file or the variant.
    """
    declared = load_declarations(DECLARED)
    if missing := {"naive", "fused", "online", "torch"} - declared.keys():
        raise RowsError(f"no variants.json below {DECLARED} declares {', '.join(sorted(missing))}")
    checks = (drawn_times(declared), bandwidths(), speeds(declared), traffic(declared), example())
    found = [finding for check in (*checks, words()) for finding in check]
    return sorted(found, key=lambda finding: finding.source)  # stable


def drawn_times(declared: dict[str, Declaration]) -> Iterator[AuditFinding]:
    """The times of A-fig2 against every card, and against what A and B say elsewhere."""
    sizes, us = _figure()
    cards = known_cards()
    caches = np.array([card.l2_bytes or 0 for card in cards], float)
    peak = np.array([card.peak_gbps or 0 for card in cards]) * 1e3  # bytes per µs
    matrix = 4096 * sizes * 4.0
    both = 2 * matrix
    for kernel, times in us.items():
        formula = declared[kernel].formula
        asked = np.array([elements(formula, 4096, int(n)) * 4.0 for n in sizes])
        # memory moves all that is asked for where one matrix exceeds L2, input and output where
        # only both together do, and nothing where both fit
        moved = np.where(both[:, None] > caches, both[:, None], 0)
        moved = np.where(matrix[:, None] > caches, asked[:, None], moved)
        able = (moved / (times + HALF)[:, None] <= peak).any(1)
        fastest = f"{cards[0].name}, the fastest card, has {_gbps(peak[0] / 1e3)}"
        for mine in (~able, able):
            subject = f"A-fig2 {kernel}, {_widths(sizes[mine], sizes)}"
            printed, found = _listed(times[mine]), _listed((asked / times)[mine] / 1e3)
            why = f"{fastest}; no L2 holds this."
            yield _check(subject, mine is able, IMPOSSIBLE, f"{found} GB/s", f"{printed} µs", why)
    for kernel in ("fused", "torch"):
        stated, rates = _level("A6", kernel), both / us[kernel] / 1e3
        above = both / (us[kernel] + HALF) / 1e3 > stated + HALF
        subject = f"A-fig2 {kernel} against A6, {_widths(sizes[above], sizes)}"
        found, printed = f"{_listed(rates[above])} GB/s", f"A6: peak {_gbps(stated)}"
        yield _check(subject, not above.any(), CONTRADICTORY, found, printed)
    slower, gain = us["torch"] / us["fused"], us["naive"] / us["fused"]
    found = f"torch takes {_listed(slower)} times as long"
    yield _check("A6 against A-fig2", not (slower > 1).all(), CONTRADICTORY, found)
    wide = sizes[sizes * 4 / 1024 > 228]
    subject = f"A-fig2 fused against B5, {_widths(wide, sizes)}"
    found = f"rows of {_listed(wide * 4 / 1024)} KB, where B5 lets 48 to 228 KB fit"
    yield _check(subject, not wide.size, CONTRADICTORY, found, f"times at N = {_whole(wide)}")
    toward, drawn = abs(gain[-1] - 4) <= abs(gain[0] - 4), f"{_listed(gain)} times"
    yield _check("A3 against A-fig2", toward, CONTRADICTORY, drawn)
    low = (us["naive"] - HALF) / (us["fused"] + HALF)
    high = (us["naive"] + HALF) / (us["fused"] - HALF)
    outside = (low > 4 * (1 + TENTH)) | (high < 4 * (1 - TENTH))
    yield _check("A4 against A-fig2", not outside.any(), CONTRADICTORY, drawn)
    wins = (slower > 1).sum()
    found = f"at {wins} of {slower.size}"
    yield _check("A5 against A-fig2", 2 * wins > slower.size, CONTRADICTORY, found)


def bandwidths() -> Iterator[AuditFinding]:
    """Printed bandwidths against every card, against each other and against printed times."""
    cards = known_cards()
    timings = {timing.kernel: timing for timing in sources()["C"].timings}
    levels = [(at, kernel, _level(at, kernel)) for at, kernel in LEVELS]
    for at, kernel, value in [*levels, *(("C4", k, float(one.gbps)) for k, one in timings.items())]:
        able = [card.name for card in cards if (card.peak_gbps or 0) >= value]
        found = f"at most {_gbps(cards[0].peak_gbps or 0)}"
        yield _check(f"{at} {kernel}, against the cards", able, IMPOSSIBLE, found, _gbps(value))
    peak, floor = _level("A6", "fused"), _level("D3", "fused")
    follows = peak / _level("A6", "torch")
    found = f"{follows:.2f} times by the peaks"
    yield _check("D1 against A6", abs(follows - 4) <= 4 * TENTH, CONTRADICTORY, found)
    yield _check("D3 against A6", floor <= peak, CONTRADICTORY, f"peak {_gbps(peak)}")
    for kernel, one in timings.items():
        moved = elements(one.moves, one.rows, one.cols) * ITEM_BYTES[one.dtype]
        low, high = (moved / end / 1e6 for end in _rounded(one.time_ms)[::-1])
        least, most = _rounded(one.gbps)
        printed = f"{one.time_ms} ms, {one.gbps} GB/s"
        found = f"{moved / float(one.time_ms) / 1e6:.2f} GB/s"
        yield _check(f"C4 {kernel}", least <= high and low <= most, WRONG, found, printed)
    value = float(timings["hybrid"].gbps)
    gap = 1 - value / float(timings["torch"].gbps)
    yield _check("C3 against C4", gap >= TENTH, CONTRADICTORY, f"{gap:.1%} slower")
    band = next(level for level in sources()["C"].levels if level.claim == "C2")
    near, found = band.low - value <= TENTH * band.low, f"{value} GB/s at N = 32000"
    yield _check("C2 against C4 hybrid", near, CONTRADICTORY, found)


def speeds(declared: dict[str, Declaration]) -> Iterator[AuditFinding]:
    """Statements about how fast two kernels are must be able to hold together."""
    naive, fused, torch = (declared[name].formula for name in ("naive", "fused", "torch"))
    tends = elements(naive, 1, WIDE) / elements(fused, 1, WIDE)
    yield _check("A3, against the models", round(tends, 3) == 4, WRONG, f"{tends:.4g}")
    one, two = sources()["D"].ratios
    low, high = two.low / one.high, two.high / one.low
    found = f"torch {low:.2f} to {high:.2f} times as fast as naive"
    why = f"torch moves {torch}, naive {naive}."
    yield _check("D1 against D2", high > 1, CONTRADICTORY, found, why=why)


def traffic(declared: dict[str, Declaration]) -> Iterator[AuditFinding]:
    """What kernels are said to move adds up, and is what their algorithm moves."""
    stated = {(one.at, one.kernel): one for source in sources().values() for one in source.traffic}
    for (at, kernel), one in stated.items():
        own = declared[kernel]
        moves = {"reads": own.reads, "writes": own.writes, "total": own.formula}
        given = {kind: getattr(one, kind) for kind in moves if getattr(one, kind)}
        if len(given) == 3:
            added = f"{one.reads} + {one.writes}"
            adds_up = equal(given["total"], added)
            yield _check(f"{at} {kernel}, reads + writes", adds_up, WRONG, added, given["total"])
        alike = all(equal(text, moves[kind]) for kind, text in given.items())
        printed = ", ".join(f"{text} {one.unit}" for text in given.values())
        found = ", ".join(f"{moves[kind]} elements" for kind in given)
        alike &= one.unit == "elements"
        yield _check(f"{at} {kernel}, against its model", alike, WRONG, found, printed)
        if one.on_chip:
            block = str(own.params.get("block_size"))
            order = "O(N)" if "N" in own.on_chip else "O(B)" if own.on_chip == block else "O(1)"
            printed = f"{one.on_chip}, {'' if one.any_width else 'not '}any N"
            found = f"{order}, {'not ' if order == 'O(N)' else ''}any N"
            yield _check(f"{at} {kernel}, on chip", printed == found, WRONG, found, printed)
    naive, fused = stated["A-tab1", "naive"], stated["A-tab1", "fused"]
    for kind, calls in CALLS.items():
        text, subject = getattr(naive, kind), f"A-tab1 naive, {kind} of its 5 calls"
        yield _check(subject, equal(text, calls), WRONG, calls, text)
    for one, trips in ((naive, {"reads": 5, "writes": 5, "total": 10}), (fused, {"total": 2})):
        passes = {kind: elements(getattr(one, kind), 1, 1) for kind in trips}
        wide = {kind: elements(getattr(one, kind), 1, WIDE) // WIDE for kind in trips}
        printed, *counts = (
            ", ".join(f"{k} {n}" for k, n in c.items()) for c in (trips, passes, wide)
        )
        found = " or ".join(dict.fromkeys(counts))
        why = "Its reads leave out the 2 of M elements; its writes count the 2 of M elements too."
        yield _check(f"A-fig1 {one.kernel}", printed in counts, WRONG, found, printed, why)
    reads = stated["B2", "online"].reads
    for place in ("A-tab1", "B-tab1"):
        other = stated[place, "fused"].reads
        found = f"online reads {reads}, fused {other}"
        yield _check(f"B2 against {place} fused", reads == other, CONTRADICTORY, found)
    total, model = stated["B1", "online"].total, declared["fused"].formula
    found = f"{total} against {model}"
    yield _check("B2 against B1", equal(str(total), model), CONTRADICTORY, found)


def example() -> Iterator[AuditFinding]:
    """The worked example: a value may be off by one unit of its last digit."""
    lines = [one for one in compared() if one.stated]
    for row, (part, quantities) in product(range(1, 4), PARTS.items()):
        mine = [one for one in lines if one.row == row and one.quantity in quantities]
        printed, found = (
            ", ".join(f"{one.quantity} {one.cells()[place]}" for one in mine) for place in (2, 3)
        )
        if mine:
            right = not any(one.wrong for one in mine)
            yield _check(f"C-ex row {row}{part}", right, WRONG, found, printed)
    sums = [one for one in lines if one.quantity == "sum of printed outputs"]
    printed, found = "“sum to exactly 1.0”", " ".join(f"{one.found[0]:.3f}" for one in sums)
    right = not any(one.wrong for one in sums)
    yield _check(f"C, {printed}", right, CONTRADICTORY, found, printed)


def words() -> Iterator[AuditFinding]:
    """Statements about code, launches and curves, against facts and against each other."""
    for at, shape in SHAPES.items():
        printed = "×".join(map(str, shape)) if shape else "any M×any N"
        fits, reach = shape and math.prod(shape) <= 2**31, f"at most {2**31:,} elements"
        yield _check(f"{at}, 32-bit offsets", fits, WRONG, reach, printed)
    for cols, kilo, count in (("65536", 256, 64), ("12K", 48, 12), ("57K", 228, 57)):
        found = f"{count}K × 4 B"
        yield _check(f"B5, a row of {cols}", kilo == 4 * count, WRONG, found, f"{kilo} KB")
    for letter, source in sources().items():
        for one in source.statements:
            yield AuditFinding(letter, one.subject, one.verdict, one.printed, one.fact, one.why)


def _check(
    subject: str, holds: Any, otherwise: str, found: str, printed: str = "", why: str = ""
) -> AuditFinding:
    """A finding of the source that the subject names; it prints its claim, or ``printed``."""
    letter, verdict = subject[0], CONSISTENT if holds else otherwise
    printed = printed or str(vars(MODULES[letter])[subject[:2].lower()].statement)
    return AuditFinding(letter, subject, verdict, printed, found, "" if holds else why)


def _figure() -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """The widths of A-fig2, and each kernel's times there, µs."""
    drawn = sources()["A"].series["a_fig2"]
    return np.array(drawn.sizes), {name: np.array(us, float) for name, us in drawn.kernels.items()}


def _level(at: str, kernel: str) -> float:
    """The bandwidth, GB/s, that a claim states of a kernel: its upper end."""
    levels = [level for source in sources().values() for level in source.levels]
    return next(level.high for level in levels if (level.claim, level.kernel) == (at, kernel))


def _rounded(printed: Decimal) -> tuple[float, float]:
    """The ends of what rounds to a printed number."""
    half = 0.5 * 10.0 ** int(printed.as_tuple().exponent)
    return float(printed) - half, float(printed) + half


def _listed(values: Sequence[float] | Floats) -> str:
    """Several numbers: three digits; from 100 on whole ones."""
    return " · ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values)


def _gbps(value: float) -> str:
    return f"{value:,.0f} GB/s" if value == int(value) else f"{value} GB/s"


def _whole(sizes: Any) -> str:
    return ", ".join(f"{n:,}" for n in sizes)


def _widths(some: Any, every: Any) -> str:
    """Widths out of a figure's: all from one on, or each."""
    if len(some) > 1 and list(some) == list(every)[-len(some) :]:
        return f"N ≥ {some[0]:,}" if len(some) < len(every) else "every N"
    return f"N = {_whole(some)}"
