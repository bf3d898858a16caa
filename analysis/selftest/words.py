"""The noise floor in one paragraph for each card, for pages that quote it."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.comparison.verdicts import Compared
from analysis.estimate import rate_interval
from analysis.selftest import judged
from analysis.selftest.cold import Cold, all_proven
from analysis.selftest.floor import Floor
from analysis.selftest.tables import percent, span
from analysis.selftest.timers import Agreement
from analysis.style import CACHES, TIMERS
from experiments.data.cards import card_of


def noise_floor(
    floors: Sequence[Floor],
    compared: Sequence[Compared],
    agreements: Sequence[Agreement],
    probes: Sequence[Cold],
) -> str:
    """Markdown: a paragraph for each card, every number of it from the rows."""
    gpus = list(dict.fromkeys(floor.gpu for floor in floors))
    return "\n".join(_card(gpu, floors, compared, agreements, probes) + "\n" for gpu in gpus)


def _card(
    gpu: str,
    floors: Sequence[Floor],
    compared: Sequence[Compared],
    agreements: Sequence[Agreement],
    probes: Sequence[Cold],
) -> str:
    mine = [floor for floor in floors if floor.gpu == gpu]
    told = [f"**Noise floor, {card_of(gpu).name}.**", _rate([f for f in mine if f.whole])]
    told.append(judged.told([one for one in compared if one.pair.place["gpu"] == gpu]))
    told += [_resolved(whole, mine) for whole in mine if whole.whole]
    told += [_agreed(one) for one in agreements if one.gpu == gpu and _telling(one)]
    cold = [probe for probe in probes if probe.cold.gpu == gpu]
    if cold:
        told.append(_cold(cold))
    return " ".join(told)


def _rate(wholes: Sequence[Floor]) -> str:
    found, pairs = (
        sum(f.false_positives for f in wholes), sum(len(f.pairs) for f in wholes)
    )  # fmt: skip
    low, high = rate_interval(found, pairs)
    counts = [count for floor in wholes for count in floor.rounds]
    fewest, most = min(counts), max(counts)
    visits = f"{most} round{'s' * (most > 1)}" if fewest == most else f"{fewest} to {most} rounds"
    return (
        f"Of {pairs} comparisons of a variant with itself over {visits}, {found} were called "
        f"different at the 5 % level: {100 * found / pairs:.1f} % "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %)."
    )


def _resolved(whole: Floor, floors: Sequence[Floor]) -> str:
    same = (whole.gpu, whole.timer, whole.cache)
    ranges = [f for f in floors if not f.whole and (f.gpu, f.timer, f.cache) == same]
    each = "; ".join(
        f"{percent(f.resolvable)} at {span(f.low_us, f.high_us)} µs "
        f"({percent(f.one_round)} of noise in one round)"
        for f in ranges
    )
    return (
        f"By {TIMERS[whole.timer]} with a {CACHES[whole.cache]} the least slowdown that 95 % of "
        f"the comparisons resolve is {each}."
    )


def _telling(one: Agreement) -> bool:
    """The shortest range tells of the offset; the others are in the table."""
    return one.low_us == 0 and one.cache == "cold"


def _agreed(one: Agreement) -> str:
    return (
        f"Below {one.high_us:g} µs {one.first} tell {one.offset_us[0]:+.2f} µs against "
        f"{one.second} (median of {len(one.times_us)} points)."
    )


def _cold(probes: Sequence[Cold]) -> str:
    ratios = [probe.ratio for probe in probes]
    sizes = [probe.cold.bytes / 2**20 for probe in probes]
    how = (
        "every one beyond both intervals"
        if all_proven(probes)
        else f"{sum(p.proven for p in probes)} of {len(probes)} beyond both intervals"
    )
    return (
        f"A buffer of {min(sizes):g} to {max(sizes):g} MiB takes {min(ratios):.2f} to "
        f"{max(ratios):.2f} times as long to read cold as warm, {how}."
    )
