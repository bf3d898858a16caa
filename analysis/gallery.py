"""Every picture that rows and records allow, in the order of the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.figures.attention import ATTENTION_FIGURES
from analysis.figures.card_to_card import CARD_TO_CARD
from analysis.figures.draw import LineFigure
from analysis.figures.limits import HEADLINE, LIMITS, LIMITS_RATIO
from analysis.figures.multiples import D_FIG1_GPUS, DTYPES_BANDWIDTH, DTYPES_TIME
from analysis.figures.page import Figure, Page
from analysis.figures.specs import LINE_FIGURES
from analysis.figures.style import slug
from analysis.limits import recording_of
from analysis.load import Inputs
from analysis.roofline.pictures import ROOFLINE_FIGURES
from analysis.traffic.pictures import TRAFFIC_FIGURES

Entry = Figure | LineFigure
DRAWN: tuple[Entry, ...] = (
    HEADLINE,
    *LINE_FIGURES,
    *(DTYPES_TIME, DTYPES_BANDWIDTH, LIMITS, LIMITS_RATIO, CARD_TO_CARD, D_FIG1_GPUS),
    *TRAFFIC_FIGURES,
    *ATTENTION_FIGURES,
)
ENTRIES: tuple[Entry, ...] = (*DRAWN, *ROOFLINE_FIGURES)
# What a recording of its own is made for: of a folder without one, what is packed below it counts.
PACKED: Mapping[Entry, Callable[[Inputs], Sequence[Inputs]]] = {
    HEADLINE: lambda inputs: [recording_of(inputs)],
    LIMITS: lambda inputs: [recording_of(inputs)],
    LIMITS_RATIO: lambda inputs: [recording_of(inputs)],
    CARD_TO_CARD: lambda inputs: inputs.packed,
}


@dataclass(frozen=True)
class Picture:
    """A page and the figure that it is of."""

    id: str  # which figure it is, e.g. ``a_fig1``; those of several GPUs share it
    caption: str  # one sentence: what it shows, and which source's figure it draws again
    page: Page


def pictures(inputs: Inputs, entries: tuple[Entry, ...] = ENTRIES) -> Iterator[Picture]:
    """All pictures: the sources' figures by source and number, then this project's own."""
    # e.g. a_fig1 before limits
    for entry in sorted(entries, key=lambda e: (0, e.id) if e.id[1:].startswith("_fig") else (1,)):
        for page in entry.pages(inputs.records, inputs.frame):
            named = "-".join([page.name, *[slug(inputs.place)] * bool(inputs.place)])
            yield Picture(entry.id, entry.caption, replace(page, name=named))


def pictures_with_packed(inputs: Inputs, entries: tuple[Entry, ...] = ENTRIES) -> Iterator[Picture]:
    """All pictures, and those of `PACKED` that the rows do not allow from what is packed."""
    made = set()
    for picture in pictures(inputs, entries):
        made.add(picture.id)
        yield picture
    for entry in PACKED:
        if entry in entries and entry.id not in made:
            for packed in PACKED[entry](inputs):
                yield from pictures(packed, (entry,))


def missing(drawn: Iterable[Picture], entries: tuple[Entry, ...] = ENTRIES) -> list[str]:
    """What each figure that was not ``drawn`` would need, one line a figure."""
    made = {picture.id for picture in drawn}
    return [entry.needs for entry in entries if entry.id not in made]
