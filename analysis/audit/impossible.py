"""Rule: no bandwidth that follows from printed times, or is printed, passes every card's peak."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.drawn import rates
from analysis.audit.finding import Finding
from analysis.audit.interval import rounded
from analysis.audit.known import Known, itemsize
from analysis.audit.wording import gbps, names, numbers, widths
from analysis.published import Series
from experiments.data.cards import Card


def implied(known: Known) -> Iterator[Finding]:
    """A variant's modelled bytes over its printed times, against the cards' peaks."""
    for letter, series in known.time_series():
        for kernel in series.kernels:
            impossible = [n for n in series.sizes if not _able(known, letter, series, kernel, n)]
            possible = [n for n in series.sizes if n not in impossible]
            if impossible:
                yield _impossible(known, letter, series, kernel, impossible)
            if possible:
                yield _possible(known, letter, series, kernel, possible)


def stated(known: Known) -> Iterator[Finding]:
    """Printed bandwidths against the cards' peaks."""
    fastest = known.cards[0]
    peak = fastest.peak_gbps or 0.0
    for letter, source in known.sources.items():
        told = [(level.claim, level.kernel, level.high) for level in source.levels
                if level.quantity == "effective_gbps"]  # fmt: skip
        told += [(t.at, t.kernel, float(t.gbps)) for t in source.statements.timings]
        for at, kernel, value in told:
            reach = [card.name for card in known.cards if (card.peak_gbps or 0) >= value]
            why = f"{names(reach)} could: a peak of at least {gbps(value)}."
            yield Finding(
                letter,
                f"{at} {kernel}, against the cards",
                "consistent" if reach else "physically impossible",
                gbps(value),
                f"at most {gbps(peak)}",
                why if reach else f"The fastest card described, {fastest.name}, has {gbps(peak)}.",
            )


def must_move(known: Known, card: Card, kernel: str, rows: int, cols: int, dtype: str) -> int:
    """Bytes that have to pass the card's memory, whatever its L2 keeps.

    All that the variant asks for where one matrix alone exceeds L2; input and output where only
    both together do; none where both fit.
    """
    matrix, cache = rows * cols * itemsize(dtype), card.l2_bytes or 0
    if matrix > cache:
        return known.modelled_bytes(kernel, rows, cols, dtype)
    both = known.compulsory_bytes(rows, cols, dtype)
    return both if both > cache else 0


def _able(known: Known, letter: str, series: Series, kernel: str, cols: int) -> list[Card]:
    """The cards fast enough for the longest time that rounds to the one printed."""
    assert series.rows is not None
    printed = series.kernels[kernel][series.sizes.index(cols)]
    seconds = rounded(printed).high * 1e-6
    dtype, rows = known.sources[letter].dtype, series.rows
    return [
        card
        for card in known.cards
        if must_move(known, card, kernel, rows, cols, dtype) / seconds
        <= (card.peak_gbps or 0) * 1e9
    ]


def _beyond_doubt(known: Known, letter: str, series: Series, kernel: str, cols: int) -> bool:
    """Whether no card could even if its whole L2 spared reads once and writes once."""
    assert series.rows is not None
    both = known.compulsory_bytes(series.rows, cols, known.sources[letter].dtype)
    seconds = rounded(series.kernels[kernel][series.sizes.index(cols)]).high * 1e-6
    return all(
        (both - 2 * (card.l2_bytes or 0)) / seconds > (card.peak_gbps or 0) * 1e9
        for card in known.cards
    )


def _impossible(
    known: Known, letter: str, series: Series, kernel: str, sizes: list[int]
) -> Finding:
    fastest = known.cards[0]
    peak = fastest.peak_gbps or 0.0
    shares = [rate / peak for rate in _modelled(known, letter, series, kernel, sizes)]
    certain = [n for n in sizes if _beyond_doubt(known, letter, series, kernel, n)]
    spared = f" from N = {certain[0]:,} on not even a full L2 would help" if certain else ""
    ends = f"{shares[0]:.1f} to {shares[-1]:.1f}" if len(shares) > 1 else f"{shares[0]:.1f}"
    return Finding(
        letter,
        f"{series.figure} {kernel}, {widths(sizes, series.sizes)}",
        "physically impossible",
        f"{_times(series, kernel, sizes)} µs",
        f"{numbers(_modelled(known, letter, series, kernel, sizes))} GB/s",
        f"Its {known.model(kernel).formula} elements of {known.sources[letter].dtype} over "
        f"these times are {ends} times the {gbps(peak)} of {fastest.name}, the fastest card "
        f"described, and no card's L2 holds the matrices{';' * bool(spared)}{spared}.",
    )


def _possible(known: Known, letter: str, series: Series, kernel: str, sizes: list[int]) -> Finding:
    sets = [{c.name for c in _able(known, letter, series, kernel, n)} for n in sizes]
    able = [card.name for card in known.cards if all(card.name in some for some in sets)]
    return Finding(
        letter,
        f"{series.figure} {kernel}, {widths(sizes, series.sizes)}",
        "consistent",
        f"{_times(series, kernel, sizes)} µs",
        f"{numbers(_modelled(known, letter, series, kernel, sizes))} GB/s",
        f"{names(able) or 'A card for each'} could, by its memory's peak or from its L2.",
    )


def _times(series: Series, kernel: str, sizes: list[int]) -> str:
    times = dict(zip(series.sizes, series.kernels[kernel], strict=True))
    return numbers([times[n] for n in sizes])


def _modelled(
    known: Known, letter: str, series: Series, kernel: str, sizes: list[int]
) -> list[float]:
    dtype = known.sources[letter].dtype
    found = rates(series, kernel, lambda m, n: known.modelled_bytes(kernel, m, n, dtype))
    return [found[n] for n in sizes]
