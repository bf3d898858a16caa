"""The audit of printed numbers: statements that arithmetic, or another statement, refutes.

It needs no rows. What a card or a computation decides is compared here, one statement with another
in ``published.yaml``. A printed number stands for all values that round to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from analysis.format import Table
from analysis.formula import elements
from analysis.published import compared, series, sources
from experiments.data.cards import known_cards

IMPOSSIBLE, CONTRADICTORY, WRONG = "physically impossible", "self-contradictory", "wrong"
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
    found = list(_drawn_times())
    for line in (one for one in compared() if one.published):
        verdict = "" if line.agrees == "yes" else WRONG
        subject = f"C-ex row {line.row}, {line.quantity}"
        found.append(Finding("C", subject, verdict, line.published, line.recomputed))
    for letter, source in sources().items():
        found += [Finding(letter, *statement.values()) for statement in source.statements]
    return sorted(found, key=lambda one: one.source)  # stable


def _drawn_times() -> Iterator[Finding]:
    """The times of A-fig2 against every card, and against the peaks that A prints."""
    drawn, cards = series("a_fig2"), known_cards()
    sizes = np.array(drawn.sizes)
    both = 2 * 4096 * sizes * 4.0  # bytes of input and output
    caches = np.array([[card.l2_bytes or 0] for card in cards])
    peaks = np.array([[card.peak_gbps or 0] for card in cards])
    why = f"{cards[0].name}, the fastest card, has {peaks[0, 0]:,.0f} GB/s; no L2 holds this."
    for kernel, formula in (("naive", "8MN + 4M"), ("torch", "2MN"), ("fused", "2MN")):
        us = np.array(drawn.kernels[kernel])
        asked = np.array([elements(formula, 4096, int(n)) * 4.0 for n in sizes])
        # memory moves all that is asked for where one matrix exceeds L2, input and output where
        # only both together do, and nothing where both fit
        moved = np.where(both / 2 > caches, asked, np.where(both > caches, both, 0))
        over = (moved / (us + HALF) / 1e3 > peaks).all(0)
        subject = f"A-fig2 {kernel}, N ≥ {sizes[over][0]:,}"
        numbers = f"{_listed(us[over])} µs", f"{_listed((asked / us)[over] / 1e3)} GB/s"
        yield Finding("A", subject, IMPOSSIBLE, *numbers, why)
    for level in sources()["A"].levels:
        us = np.array(drawn.kernels[level.kernel])
        over = both / (us + HALF) / 1e3 > level.high + HALF
        subject = f"A-fig2 {level.kernel} against A6, N ≥ {sizes[over][0]:,}"
        numbers = f"A6: peak {level.high:,.0f} GB/s", f"{_listed((both / us / 1e3)[over])} GB/s"
        yield Finding("A", subject, CONTRADICTORY, *numbers)


def _listed(values: Any) -> str:
    """Several numbers: three digits; from 100 on whole ones."""
    return " · ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values)
