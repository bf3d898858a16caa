"""What the sources show, id by id, and where on the page it is shown again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.published import sources


@dataclass(frozen=True)
class Shown:
    """One figure, table or tool of a source.

    Attributes:
        id: As the project cites it, the letter of the source first; also its anchor on the page.
        what: What it shows, in a few words.
    """

    id: str
    what: str

    @property
    def stem(self) -> str:
        """The name of its files: ``a_fig1`` of A-fig1."""
        return self.id.lower().replace("-", "_")


CONTENTS = (
    Shown("A-fig1", "trips to memory, naive and fused"),
    Shown("A-tab1", "reads and writes, naive and fused"),
    Shown("A-fig2", "time against N"),
    Shown("B-fig1", "the two passes of online softmax"),
    Shown("B-tab1", "approaches by reads and on-chip bytes"),
    Shown("C-fig1", "bandwidth at small batch"),
    Shown("C-fig2", "bandwidth against M"),
    Shown("C-fig3", "bandwidth against the vocabulary, N"),
    Shown("C-ex", "the worked example, 3×8"),
    Shown("C-viz", "the stepper"),
    Shown("C-prof", "a single launch for a profiler"),
    Shown("D-fig1", "bandwidth against N"),
    Shown("D-test", "correctness at 1823×781"),
    Shown("E-fig1", "Triton against torch"),
)


def anchor_of(stem: str, name: str, taken: set[str]) -> str:
    """A picture's or table's anchor: its id in the sources where it has one, else its own name.

    ``taken`` holds the anchors of the page so far, and the new one after the call: the second
    picture of an id, another GPU's, goes by its own name.
    """
    known = next((shown.id for shown in CONTENTS if shown.stem == stem), name)
    anchor = name if known in taken else known
    taken.add(anchor)
    return anchor


def by_source(anchors: set[str]) -> list[tuple[str, str, list[tuple[Shown, bool]]]]:
    """Letter and title of each source, with what it shows and whether the page has it."""
    told: Mapping[str, str] = {letter: source.title for letter, source in sources().items()}
    return [
        (letter, title, [(s, s.id in anchors) for s in CONTENTS if s.id.startswith(letter)])
        for letter, title in told.items()
    ]
