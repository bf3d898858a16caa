"""Whether recorded times are possible: by themselves, beside each other, on their card."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.format import visible
from experiments.data.cards import Card, card_of
from experiments.data.metrics import derive, gbps, latest
from experiments.data.rows import ITEM_BYTES, Row
from experiments.data.statistics import median

VERSIONS = ("torch", "triton", "cuda", "driver", "python", "commit")
ROUNDED_US = 1e-4  # rows keep samples to four places
CLOCK_STEP = 1.01
# Elements that any implementation must move, in units of MN.
COMPULSORY = {"softmax": 2, "copy": 2, "softmax_backward": 3}
# A copy by the library may be slower than what L2 serves; on an H200 kernels reach 1.06 of it by a
# card's own timers. The host's clock counts launches of small shapes too, and proves nothing.
FAR_ABOVE = 1.25
BEYOND_L2 = 4  # times L2: of a matrix that large next to nothing is left there
# Twice the columns take up to a tenth less on an H200, where a library changes its algorithm.
MUCH_LESS = 0.5


@dataclass(frozen=True)
class Placed:
    """A row and where it stands, ``file:line``."""

    row: Row
    where: str


@dataclass(frozen=True)
class Doubt:
    """Something that cannot be, at a ``file:line``; a warning where it is not ``grave``."""

    kind: str
    where: str
    what: str
    grave: bool = True


def doubts(placed: Sequence[Placed], where: str) -> Iterator[Doubt]:
    """What is wrong with the times of a sweep's rows; ``where`` names the sweep."""
    yield from _limits(placed)
    yield from _machine(placed, where)
    for one in placed:
        for kind, what in _timing(one.row):
            yield Doubt(kind, one.where, what)


def some(things: Sequence[str], most: int = 4) -> str:
    """The first few of a list, and how many more there are."""
    rest = len(things) - most
    return ", ".join(things[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def _limits(placed: Sequence[Placed]) -> Iterator[Doubt]:
    """Points above their roof, above the datasheet, or faster than much narrower ones."""
    places = {id(one.row): one.where for one in placed}
    rows = latest(one.row for one in placed)
    timed = [
        (places[id(row)], derived)
        for row, derived in zip(rows, derive(rows), strict=True)
        if derived["effective_gbps"] is not None
    ]
    cards = {gpu: card_of(gpu) for gpu in {row["gpu"] for _, row in timed}}
    timed.sort(key=lambda one: -(one[1]["fraction_of_roof"] or 0))
    for where, row in timed:
        if row["roof_gbps"] is None:
            yield Doubt("missing roof", where, f"{_name(row)}: timed without a copy beside it")
        elif row["above_roof"]:
            share = row["fraction_of_roof"]
            grave = share > FAR_ABOVE and row["timer"] != "host"
            kind = "far above the roof" if grave else "above the roof"
            suspect = f"; flagged: {row['suspect'][0]}" if row["suspect"] else ""
            what = f"{_name(row)}: {share:.0%} of the copy's bandwidth{suspect}"
            yield Doubt(kind, where, what, grave)
        if beyond := _beyond(row, cards[row["gpu"]]):
            yield Doubt("above the datasheet", where, beyond)
    yield from _shrinking(timed)


def _beyond(row: dict[str, Any], card: Card) -> str | None:
    """Faster than the card's memory: by all bytes where L2 cannot help, else by what is read.

    Cold, at least half of the compulsory bytes are read, and none of them lies in L2.
    """
    peak, cache = card.peak_gbps, card.l2_bytes
    if peak is None:
        return None
    large = cache is not None and row["compulsory_bytes"] > BEYOND_L2 * cache
    if not large and row["cache"] != "cold":
        return None
    reached = gbps(row["compulsory_bytes"] / (1 if large else 2), row["time_us"])
    if reached <= peak:
        return None
    which = "" if large else " of reads"
    return f"{_name(row)}: {reached:,.0f} GB/s{which}; {card.name} has {peak:,.0f}"


def _shrinking(timed: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Doubt]:
    """At least twice the columns in less than half of the time."""
    lines: dict[tuple[Any, ...], dict[int, tuple[str, dict[str, Any]]]] = defaultdict(dict)
    for where, row in timed:
        alike = ("kernel", "dtype", "rows", "timer", "cache", "round", "card")
        lines[(str(row["params"]), *(row[name] for name in alike))][row["cols"]] = where, row
    for line in lines.values():
        slowest: tuple[int, float] | None = None
        for cols in sorted(line):
            where, row = line[cols]
            if slowest and cols >= 2 * slowest[0] and row["time_us"] < MUCH_LESS * slowest[1]:
                before = f"{slowest[1]:.4g} at N = {slowest[0]}"
                what = f"{_name(row)}: {row['time_us']:.4g} µs, and {before}"
                yield Doubt("wider and faster", where, what, grave=False)
            if slowest is None or row["time_us"] > slowest[1]:
                slowest = cols, row["time_us"]


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['kernel']} {row['rows']}×{row['cols']} {row['dtype']}"


def _machine(placed: Sequence[Placed], where: str) -> Iterator[Doubt]:
    """Mixed cards or environments, impossible clocks, and what a reader of the rows must know."""
    rows = [one.row for one in placed]
    gpus = sorted({visible(row.gpu, 80) for row in rows})
    if len(gpus) > 1:
        what = f"rows of {', '.join(gpus)}: a folder for each"
        yield Doubt("mixed cards", where, what)
    cards = {gpu: card_of(gpu) for gpu in {row.gpu for row in rows}}
    for one in placed:
        for kind, what, grave in _state(one.row, cards[one.row.gpu]):
            yield Doubt(kind, one.where, what, grave)
    for name in VERSIONS:
        seen = {str(row.environment.get(name) or "unknown") for row in rows}
        if len(seen) > 1:
            few = some(sorted(visible(one[:10] if name == "commit" else one, 60) for one in seen))
            what = f"rows of {len(seen)} versions of {name}: {few}"
            yield Doubt("mixed environments", where, what, grave=False)
    if dirty := sum(row.environment.get("dirty") is not False for row in rows):
        what = f"{dirty:,} of {len(rows):,} rows name no commit whose code they measured"
        yield Doubt("no clean commit", where, what, grave=False)
    reasons = Counter(reason.split(":")[0] for row in rows for reason in row.suspect)
    if reasons:
        each = ", ".join(f"{visible(name, 40)} {count:,}" for name, count in reasons.most_common(9))
        what = f"{sum(bool(r.suspect) for r in rows):,} rows were flagged as measured: {each}"
        yield Doubt("suspect rows", where, what, grave=False)


def _state(row: Row, card: Card) -> Iterator[tuple[str, str, bool]]:
    own = row.environment.get("card")
    setup = own if isinstance(own, dict) else {}  # the limits that the card itself reported
    for clock, highest in (
        (row.sm_clock_mhz, setup.get("max_sm_clock_mhz") or card.facts.get("clock_mhz")),
        (row.memory_clock_mhz, setup.get("max_memory_clock_mhz")),
    ):
        if clock and isinstance(highest, int | float) and clock > CLOCK_STEP * highest > 0:
            what = f"a clock of {clock:,.0f} MHz, where this card reaches {highest:,.0f}"
            yield "impossible clock", what, True
    if row.throttled and not row.suspect:
        yield "throttled", f"throttled ({some(row.throttled)}) and not flagged", False


def _timing(row: Row) -> Iterator[tuple[str, str]]:
    """What in a row contradicts itself: the kind, and a sentence."""
    item = ITEM_BYTES[row.dtype]
    if row.model_bytes is not None and row.model_reads is not None and row.model_writes is not None:
        made = (row.model_reads + row.model_writes) * item
        if row.model_bytes != made:
            yield "wrong bytes", f"model_bytes is {row.model_bytes}, its elements make {made}"
    passes = COMPULSORY.get(row.operation)
    if passes is not None and row.compulsory_bytes is not None:
        made = passes * row.rows * row.cols * item
        if row.compulsory_bytes != made:
            what = f"compulsory_bytes is {row.compulsory_bytes}, {passes}MN makes {made}"
            yield "wrong bytes", what
    if row.status != "ok":
        if row.time_us is not None:
            yield "no time", f"status {row.status}, but it has a time"
    elif row.backend != "interpreter":
        if not row.samples_us or row.time_us is None:
            yield "no time", "status ok, but no samples or no time"
        else:
            yield from _samples(row, row.samples_us, row.time_us)


def _samples(row: Row, samples_us: list[float], time_us: float) -> Iterator[tuple[str, str]]:
    middle = median(samples_us)
    recomputed = {"time_us": (time_us, middle.value), "time_low_us": (row.time_low_us, middle.low),
                  "time_high_us": (row.time_high_us, middle.high)}  # fmt: skip
    for name, (kept, made) in recomputed.items():
        if kept is None or abs(kept - made) > ROUNDED_US + 1e-6 * made:
            yield "not its samples'", f"{name} is {kept or 0:.6g}, its samples make {made:.6g}"
            break
    # A sample of a graph is the mean of its replays, so it takes at least as long as it says.
    total_s = sum(samples_us) / 1e6
    if row.sampling_s is not None and total_s > row.sampling_s:
        yield (
            "longer than it took",
            f"its samples add up to {total_s:.3g} s, sampling took {row.sampling_s:.3g} s",
        )
    spent_s = (row.sampling_s or 0) + (row.compile_s or 0)
    if row.wall_s is not None and spent_s > row.wall_s:
        yield (
            "longer than it took",
            f"sampling and compiling took {spent_s:.3g} s, the whole point {row.wall_s:.3g} s",
        )
