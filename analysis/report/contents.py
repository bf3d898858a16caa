"""The sections of the page, what the sources show id by id, and how verdicts look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.claims import Judgement
from analysis.published import Source, sources

# Anchor and title of each section; the anchor is also its template's name. The stepper's own
# element is #stepper; its section may not take that name.
SECTIONS = (
    ("result", "The result"),
    ("sources", "The five sources"),
    ("figures", "Figures"),
    ("tables", "Tables"),
    ("claims", "The sources' claims"),
    ("audit", "Audit of printed numbers"),
    ("limits", "Against the public kernels"),
    ("noise", "Noise floor, card to card"),
    ("traffic", "Traffic, three ways"),
    ("roofline", "Roofline"),
    ("steps", "Stepper"),
    ("environment", "Environment and reproduction"),
)

# The class of a verdict's chip, and a sign before its words for readers who do not see colours.
SIGNS: Mapping[str, tuple[str, str]] = {
    "supported": ("good", "✓"),
    "refuted": ("bad", "✗"),
    "inconclusive": ("warn", "?"),
    "not testable here": ("quiet", "–"),
    "physically impossible": ("bad", "✗"),
    "self-contradictory": ("warn", "≠"),
    "wrong": ("bad", "✗"),
    "consistent": ("good", "✓"),
}
ORDER = tuple(SIGNS)

# What the sources show, by the id that the project cites, which is also its anchor on the page.
CONTENTS: Mapping[str, str] = {
    "A-fig1": "trips to memory, naive and fused",
    "A-tab1": "reads and writes, naive and fused",
    "A-fig2": "time against N",
    "B-fig1": "the two passes of online softmax",
    "B-tab1": "approaches by reads and on-chip bytes",
    "C-fig1": "bandwidth at small batch",
    "C-fig2": "bandwidth against M",
    "C-fig3": "bandwidth against the vocabulary, N",
    "C-ex": "the worked example, 3×8",
    "C-viz": "the stepper",
    "C-prof": "a single launch for a profiler",
    "D-fig1": "bandwidth against N",
    "D-test": "correctness at 1823×781",
    "E-fig1": "Triton against torch",
}


def label_of(stem: str) -> str:
    """The source's id of a figure or table by the name of its files: A-fig1 of ``a_fig1``."""
    return next((one for one in CONTENTS if one.lower().replace("-", "_") == stem), "")


def anchor_of(stem: str, name: str, taken: set[str]) -> str:
    """A picture's or table's anchor: its id in the sources where it has one, else its own name.

    ``taken`` holds the anchors of the page so far, and the new one after the call: the second
    picture of an id, another GPU's, goes by its own name.
    """
    known = label_of(stem) or name
    anchor = name if known in taken else known
    taken.add(anchor)
    return anchor


def by_source(
    anchors: set[str], judgements: Sequence[Judgement]
) -> list[tuple[str, Source, list[tuple[str, str, bool]], list[tuple[str, int]]]]:
    """Each source by its letter, what it shows, and how often its claims were judged how.

    Of what it shows: the id, what that is, and whether the page has it.
    """
    return [
        (letter, source,
         [(one, what, one in anchors) for one, what in CONTENTS.items() if one[0] == letter],
         tally([one.verdict for one in judgements if one.source == letter]))
        for letter, source in sources().items()
    ]  # fmt: skip


def tally(verdicts: Sequence[str]) -> list[tuple[str, int]]:
    """How many of each verdict, in the order of the legend."""
    return [(verdict, verdicts.count(verdict)) for verdict in ORDER if verdict in verdicts]
