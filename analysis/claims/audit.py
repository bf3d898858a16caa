"""The audit of printed numbers: statements that arithmetic, or another statement, refutes.

It needs no rows. Numbers are compared here, words by hand in ``published.yaml``. A printed number
stands for all values that round to it. “About” allows a tenth, and a gap is significant from a
tenth on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from analysis.format import Table
from analysis.formula import elements
from analysis.published import series, sources
from analysis.worked_example import compared
from experiments.data.cards import known_cards

IMPOSSIBLE, CONTRADICTORY, WRONG = "physically impossible", "self-contradictory", "wrong"
TENTH = 0.10
HALF = 0.5  # of the last digit of a time in A-fig2, µs, and of a peak in A6, GB/s
NOTES = (
    "Physically impossible: above the datasheet peak of every card described in conf/gpu, for "
    "matrices that its L2 does not hold. Self-contradictory: two statements of one source, of a "
    "source and its sequel, or of two accounts of the same code that cannot both hold. Wrong: "
    "against arithmetic, a variant's traffic model or a cited fact.",
    "A printed number covers all values that round to it, in the worked example all within one "
    "unit of its last digit.",
)


class Finding(NamedTuple):
    """One printed statement, compared with something that it has to agree with."""

    source: str  # its letter
    subject: str  # the statement: ``"A-fig2 fused, N ≥ 4,096"``
    verdict: str  # empty where both agree; `NOTES` say what the others mean
    printed: str
    computed: str  # the right number, or one that follows from other print
    why: str = ""  # a sentence where the two do not say it


def audit_table() -> Table:
    """The statements that are refuted, and how many were checked."""
    found = audit()
    wrong = [one for one in found if one.verdict]
    words = [one.verdict for one in wrong]
    counts = ", ".join(f"{words.count(word)} {word}" for word in (IMPOSSIBLE, CONTRADICTORY, WRONG))
    tally = f"{len(found)} statements were checked: {counts}, {len(found) - len(wrong)} consistent."
    return Table("Audit of published numbers", Finding._fields, wrong, [tally, *NOTES])


def audit() -> list[Finding]:
    """Every check of every statement, by source."""
    found = [*_drawn_times(), *_speeds(), *_example()]
    for letter, source in sources().items():
        found += [Finding(letter, *statement.values()) for statement in source.statements]
    return sorted(found, key=lambda one: one.source)  # stable


def _drawn_times() -> Iterator[Finding]:
    """The times of A-fig2 against every card, and against other statements of A and B."""
    drawn, cards = series("a_fig2"), known_cards()
    sizes = np.array(drawn.sizes)
    us = {name: np.array(times) for name, times in drawn.kernels.items()}
    both = 2 * 4096 * sizes * 4.0  # bytes of input and output
    caches = np.array([[card.l2_bytes or 0] for card in cards])
    peaks = np.array([[card.peak_gbps or 0] for card in cards])
    why = f"{cards[0].name}, the fastest card, has {peaks[0, 0]:,.0f} GB/s; no L2 holds this."
    for kernel, formula in (("naive", "8MN + 4M"), ("torch", "2MN"), ("fused", "2MN")):
        asked = np.array([elements(formula, 4096, int(n)) * 4.0 for n in sizes])
        # memory moves all that is asked for where one matrix exceeds L2, input and output where
        # only both together do, and nothing where both fit
        moved = np.where(both / 2 > caches, asked, np.where(both > caches, both, 0))
        over = (moved / (us[kernel] + HALF) / 1e3 > peaks).all(0)
        printed, found = _listed(us[kernel][over]), _listed((asked / us[kernel])[over] / 1e3)
        subject = f"A-fig2 {kernel}{_from(sizes[over])}"
        yield _check(subject, over.any(), IMPOSSIBLE, f"{printed} µs", f"{found} GB/s", why)
    for level in sources()["A"].levels:
        rates = both / us[level.kernel] / 1e3
        over = both / (us[level.kernel] + HALF) / 1e3 > level.high + HALF
        subject = f"A-fig2 {level.kernel} against A6{_from(sizes[over])}"
        printed, found = f"A6: peak {level.high:,.0f} GB/s", f"{_listed(rates[over])} GB/s"
        yield _check(subject, over.any(), CONTRADICTORY, printed, found)
    slower, gain = us["torch"] / us["fused"], us["naive"] / us["fused"]
    printed, found = "PyTorch peaks above Triton", f"torch takes {_listed(slower)} times as long"
    yield _check("A6 against A-fig2", (slower > 1).all(), CONTRADICTORY, printed, found)
    wide = sizes[sizes * 4 / 1024 > 228]
    printed, found = f"times at N = {_listed(wide)}", f"rows of {_listed(wide * 4 / 1024)} KB"
    why = "B5 lets 48 to 228 KB fit."
    yield _check("A-fig2 fused against B5", wide.size, CONTRADICTORY, printed, found, why)
    away, found = abs(gain[-1] - 4) > abs(gain[0] - 4), f"{_listed(gain)} times"
    yield _check("A3 against A-fig2", away, CONTRADICTORY, "the factor approaches 4", found)
    low, high = ((us["naive"] + end) / (us["fused"] - end) for end in (-HALF, HALF))
    outside = (low > 4 * (1 + TENTH)) | (high < 4 * (1 - TENTH))
    yield _check("A4 against A-fig2", outside.any(), CONTRADICTORY, "about 4× naive", found)


def _speeds() -> Iterator[Finding]:
    """Statements about how fast two kernels are must be able to hold together."""
    peaks = {level.kernel: level.high for level in sources()["A"].levels}
    gain = peaks["fused"] / peaks["torch"]
    found = f"{gain:.2f} times by the peaks"
    yield _check("D1 against A6", gain < 4 * (1 - TENTH), CONTRADICTORY, "about 4× torch", found)
    rates = {name: gbps for name, (gbps,) in series("c_fig3").kernels.items()}
    gap, printed = 1 - rates["hybrid"] / rates["torch"], "significant degradation at 32K and more"
    yield _check("C3 against C4", gap < TENTH, CONTRADICTORY, printed, f"{gap:.1%} slower")
    torch, naive = sources()["D"].ratios
    low, high = naive.low / torch.high, naive.high / torch.low
    printed, found = "about 4× torch, 3–4× naive", f"torch {low:.2f} to {high:.2f} times naive"
    why = "torch moves 2MN, naive 8MN + 4M."
    yield _check("D1 against D2", high <= 1, CONTRADICTORY, printed, found, why)


def _example() -> Iterator[Finding]:
    """The worked example: a value may be off by one unit of its last digit."""
    for line in (one for one in compared() if one.stated):
        _, quantity, printed, found, _, _ = line.cells()
        yield _check(f"C-ex row {line.row}, {quantity}", line.wrong, WRONG, printed, found)


def _check(
    subject: str, refuted: Any, verdict: str, printed: str, computed: str, why: str = ""
) -> Finding:
    """A finding of the source that the subject names."""
    return Finding(subject[0], subject, verdict if refuted else "", printed, computed, why)


def _listed(values: Any) -> str:
    """Several numbers: three digits; from 100 on whole ones."""
    return " · ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values)


def _from(sizes: Any) -> str:
    return f", N ≥ {sizes[0]:,}" if len(sizes) else ""
