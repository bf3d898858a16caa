"""Whether recorded times are possible: by themselves, beside each other, on their card."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from analysis.format import visible
from experiments.data.cards import card_of
from experiments.data.metrics import derive, gbps, latest
from experiments.data.rows import ITEM_BYTES, Row
from experiments.data.statistics import median

Aspect = Literal["schema", "completeness", "privacy", "plausibility"]
VERSIONS = ("torch", "triton", "cuda", "driver", "python", "commit")
ROUNDED_US = 1e-4  # rows keep samples to four places
# A copy by the library may be slower than what L2 serves; on an H200 kernels reach 1.06 of it by a
# card's own timers. The host's clock counts launches of small shapes too, and proves nothing.
FAR_ABOVE = 1.25
BEYOND_L2 = 4  # times L2: of a matrix that large next to nothing is left there


class Finding(NamedTuple):
    """A problem, or a warning where it is not ``grave``.

    Attributes:
        aspect: Which of the four questions it answers.
        kind: What findings of its like share, such as ``missing points``.
        where: A file, with its line where it has one, or the point.
        what: A short sentence.
        grave: Whether the folder cannot be taken with it.
    """

    aspect: Aspect
    kind: str
    where: str
    what: str
    grave: bool = True


class Placed(NamedTuple):
    """A row, where it stands (``file:line``), and its job's folder below the sweep's."""

    row: Row
    where: str
    job: str


def some(things: Sequence[str], most: int = 4) -> str:
    """The first few of a list, and how many more there are."""
    rest = len(things) - most
    return ", ".join(things[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def doubts(placed: Sequence[Placed], sweep: str) -> Iterator[Finding]:
    """What is wrong with the times of the rows of one sweep, which stands at ``sweep``."""
    for kind, what in _notes([one.row for one in placed]):
        yield Finding("plausibility", kind, sweep, what, grave=kind == "mixed cards")
    said = Counter((_must(one.row), one.row.compulsory_bytes) for one in placed)
    usual = {must: size for (must, size), _ in reversed(said.most_common())}
    for one in placed:
        for kind, what in _contradictions(one.row, usual[_must(one.row)]):
            yield Finding("plausibility", kind, one.where, what)
    places = {id(one.row): one.where for one in placed}
    rows = latest(one.row for one in placed)
    for row, derived in zip(rows, derive(rows), strict=True):
        if derived["effective_gbps"] is not None:
            yield from _limits(row, derived, places[id(row)])


def _must(row: Row) -> tuple[Any, ...]:
    """Rows that must move the same bytes."""
    return row.operation, row.rows, row.cols, row.dtype


def _contradictions(row: Row, usual: int | None) -> Iterator[tuple[str, str]]:
    """What in a row denies something else in it, or the compulsory bytes that are usual."""
    model, least = row.model_bytes, row.compulsory_bytes
    if model is not None and row.model_reads is not None and row.model_writes is not None:
        made = (row.model_reads + row.model_writes) * ITEM_BYTES[row.dtype]
        # arrays with a dtype of their own are bytes beside the elements
        if model < made or (model > made and " bytes" not in str(row.model_formula)):
            yield "wrong bytes", f"model_bytes is {model}, its elements make {made}"
    if None not in (least, usual) and least != usual:
        yield "wrong bytes", f"compulsory_bytes is {least}, in other rows of its shape {usual}"
    if row.status != "ok":
        if row.time_us is not None:
            yield "no time", f"status {row.status}, but it has a time"
    elif row.samples_us and row.time_us is not None:
        yield from _samples(row, row.samples_us, row.time_us)
    elif row.backend != "interpreter":
        yield "no time", "status ok, but no samples or no time"


def _samples(row: Row, samples_us: list[float], time_us: float) -> Iterator[tuple[str, str]]:
    """Times that their samples do not make, and samples that add up to more than they took."""
    middle = median(samples_us)
    for name, kept, made in (
        ("time_us", time_us, middle.value),
        ("time_low_us", row.time_low_us or 0, middle.low),
        ("time_high_us", row.time_high_us or 0, middle.high),
    ):
        if abs(kept - made) > ROUNDED_US + 1e-6 * made:
            yield "not its samples'", f"{name} is {kept:.6g}, its samples make {made:.6g}"
    # A sample of a graph is the mean of its replays, so it takes at least as long as it says.
    spent_s = (row.sampling_s or 0) + (row.compile_s or 0)
    for part, part_s, whole, whole_s in (
        ("its samples add up to", sum(samples_us) / 1e6, "sampling", row.sampling_s),
        ("sampling and compiling took", spent_s, "the whole point", row.wall_s),
    ):
        if whole_s is not None and part_s > whole_s:
            yield "longer than it took", f"{part} {part_s:.3g} s, {whole} took {whole_s:.3g} s"


def _notes(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Mixed cards or environments, and what a reader of the rows must know."""
    gpus = sorted({visible(row.gpu, 80) for row in rows})
    if len(gpus) > 1:
        yield "mixed cards", f"rows of {', '.join(gpus)}: a folder for each"
    for name in VERSIONS:
        if len(seen := {str(row.environment.get(name) or "unknown") for row in rows}) > 1:
            few = some(sorted(visible(one[:10] if name == "commit" else one, 60) for one in seen))
            yield "mixed environments", f"rows of {len(seen)} versions of {name}: {few}"
    if dirty := sum(row.environment.get("dirty") is not False for row in rows):
        what = f"{dirty:,} of {len(rows):,} rows name no commit whose code they measured"
        yield "no clean commit", what
    if reasons := Counter(reason.split(":")[0] for row in rows for reason in row.suspect):
        each = ", ".join(f"{visible(name, 40)} {count:,}" for name, count in reasons.most_common(9))
        yield "suspect rows", f"rows were flagged as measured: {each}"


def _limits(row: Row, derived: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Where a time has no roof, or lies above it, or above the datasheet."""
    name = f"{row.kernel} {row.rows}×{row.cols} {row.dtype}"
    if derived["roof_gbps"] is None:
        what = f"{name}: timed without its roof, {derived['roof']}, beside it"
        yield Finding("completeness", "missing roof", where, what)
    elif derived["above_roof"]:
        share = derived["fraction_of_roof"]
        far = share > FAR_ABOVE and row.timer != "host"
        what = f"{name}: {share:.0%} of the bandwidth of its roof, {derived['roof']}"
        kind = "far above the roof" if far else "above the roof"
        yield Finding("plausibility", kind, where, what, far)
    card = card_of(row.gpu)
    size = row.compulsory_bytes or 0
    # L2 cannot help, or, cold, at least half of the bytes are read, and none of them lies in it
    large = card.l2_bytes is not None and size > BEYOND_L2 * card.l2_bytes
    reached = gbps(size / (1 if large else 2), row.time_us or math.inf)
    served = row.timer == "chain"  # in which L2 may hold what the producer left
    cold = large or row.cache == "cold"
    if cold and not served and reached > (card.peak_gbps or math.inf):
        which = "" if large else " of reads"
        what = f"{name}: {reached:,.0f} GB/s{which}; {card.name} has {card.peak_gbps:,.0f}"
        yield Finding("plausibility", "above the datasheet", where, what)
