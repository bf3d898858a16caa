"""The audit of published numbers: what the sources print, recomputed.

``audit.yaml`` holds what is printed, the expressions that recompute it and the texts of a finding;
this module evaluates them. Expressions are Jinja's, in its sandbox, over numpy arrays: they know
what ``published.yaml`` prints, the recorded formulas of the variants, the cards' datasheets, the
cited facts, and the functions of this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import sympy
import yaml
from jinja2.sandbox import SandboxedEnvironment
from numpy.typing import NDArray

from analysis.claims.points import listed
from analysis.claims.scope import Strict
from analysis.claims.verdict import AUDIT_VERDICTS, AuditVerdict
from analysis.format import NamedTable, Table, thousands
from analysis.formula import M, N, elements, equal, expression
from analysis.load import REFERENCE, load_declarations
from analysis.published import Ratio, Source, Traffic, sources
from experiments.data.cards import GPU_FILES, Card, known_cards
from experiments.data.files import RowsError
from experiments.data.jobs import Declaration
from experiments.data.rows import ITEM_BYTES

ENTRIES = Path(__file__).with_name("audit.yaml")
DECLARED = Path(__file__).resolve().parents[2] / "outputs" / REFERENCE
COPY = "copy"  # reads the input and writes the output: what any of them must move
NOTE = (
    "Physically impossible: above the datasheet peak of every card described in conf/gpu, for "
    "matrices that its L2 does not hold. Self-contradictory: two statements of one source, of a "
    "source and its sequel, or of two accounts of the same code that cannot both hold. Wrong: "
    "against arithmetic, a variant's traffic model or a cited fact. A printed number covers "
    "all values that round to it, in the worked example all within one unit of its last digit."
)
HEADS = ["source", "subject", "verdict", "printed", "computed", "why"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AuditFinding:
    """One printed statement compared with arithmetic, a model, a fact or another statement.

    Attributes:
        source: The source's letter.
        subject: What was checked: ``"A-fig2 fused, N ≥ 4096"``.
        verdict: See `NOTE`; ``consistent`` where nothing speaks against it.
        printed: What the source has.
        computed: What it should be, or what follows from what is printed.
        why: One sentence with the numbers.
    """

    source: str
    subject: str
    verdict: AuditVerdict
    printed: str
    computed: str
    why: str


class Check(Strict):
    """Expressions and texts, and the cases that they are evaluated for; see ``audit.yaml``."""

    of: tuple[dict[str, Any], ...]
    let: Mapping[str, str] = {}
    when: str = "true"
    subject: str
    holds: str
    otherwise: AuditVerdict
    printed: str
    computed: str
    why: str


class Entries(Strict):
    """What ``audit.yaml`` holds."""

    meaning: dict[str, float]
    facts: dict[str, dict[str, Any]]
    not_audited: tuple[dict[str, str], ...]
    checks: tuple[Check, ...]


@cache
def entries() -> Entries:
    """The audit's data."""
    return Entries.model_validate(yaml.safe_load(ENTRIES.read_text(encoding="utf-8")))


def audit(context: AuditContext | None = None, data: Entries | None = None) -> list[AuditFinding]:
    """Every check of every statement, by source; needs no rows.

    Raises:
        RowsError: a declaration is malformed or missing; it names the file or the variant.
    """
    context, data = context or gather(), data or entries()
    given = context.names() | {
        "facts": data.facts, "meaning": data.meaning,
        "about": lambda ratio: _widened(ratio, data.meaning["about"]),
    }  # fmt: skip
    found = [_finding(check, case, given) for check in data.checks for case in check.of]
    # stable: the checks of a source keep their order
    return sorted((f for f in found if f is not None), key=lambda finding: finding.source)


def _finding(
    check: Check, case: Mapping[str, Any], given: Mapping[str, Any]
) -> AuditFinding | None:
    """The check evaluated for one case, whose own texts come first; None where it is not meant."""
    own = {key: value for key, value in case.items() if key in Check.model_fields}
    check, context = check.model_copy(update=own), {**given, **case}
    for name, text in check.let.items():
        context[name] = _expression(text)(context)
    if not _expression(check.when)(context):
        return None
    verdict: AuditVerdict = "consistent" if _expression(check.holds)(context) else check.otherwise
    subject, printed, computed, why = (
        _template(text).render(context)
        for text in (check.subject, check.printed, check.computed, check.why)
    )
    return AuditFinding(case["source"], subject, verdict, printed, computed, why)


@cache
def _expression(text: str) -> jinja2.environment.TemplateExpression:
    return _environment().compile_expression(text, undefined_to_none=False)


@cache
def _template(text: str) -> jinja2.Template:
    return _environment().from_string(text)


@cache
def _environment() -> SandboxedEnvironment:
    """Jinja with the functions that expressions and texts may call."""
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined)
    functions = (rounded, elements, equal, same, limit, total, passes)
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals |= {"interval": Interval, "sum": sum, "itemsize": ITEM_BYTES.get}
    environment.globals |= {"array": np.array, "exp": np.exp, "add": np.add}
    texts = (number, numbers, decimals, gbps, listed, widths, thousands, times_as, written)
    environment.filters |= {function.__name__: function for function in texts}
    environment.filters["compress"] = lambda values, mask: list(compress(values, mask))
    return environment


@dataclass(frozen=True)
class Interval:
    """All values from ``low`` to ``high``, both positive: numbers, or arrays of them."""

    low: Any
    high: Any

    def __truediv__(self, other: Interval) -> Interval:
        return Interval(self.low / other.high, self.high / other.low)


def rounded(printed: Any) -> Interval:
    """What rounds to a number, or to each of an array: half a unit of its last digit around it."""
    if isinstance(printed, np.ndarray):
        each = [rounded(float(value)) for value in printed]
        return Interval(np.array([i.low for i in each]), np.array([i.high for i in each]))
    text = f"{printed:.12g}" if isinstance(printed, float) else str(printed)
    half = 0.5 * 10.0 ** int(Decimal(text).as_tuple().exponent)
    return Interval(float(text) - half, float(text) + half)


def _widened(ratio: Ratio, share: float) -> Interval:
    """All that a stated ratio may mean."""
    slack = share if ratio.about else 0.0
    return Interval(ratio.low * (1 - slack), ratio.high * (1 + slack))


@dataclass(frozen=True)
class Times:
    """Printed times of one kernel over N at a fixed M; ``sizes`` and ``us`` run together."""

    figure: str
    dtype: str
    rows: int
    sizes: NDArray[np.int64]
    us: Floats

    def where(self, mask: NDArray[np.bool_]) -> Times:
        """The widths that a mask selects."""
        return replace(self, sizes=self.sizes[mask], us=self.us[mask])

    def moved(self, formula: str) -> Floats:
        """A formula's bytes at each width."""
        item = ITEM_BYTES[self.dtype]
        return np.array([elements(formula, self.rows, int(n)) * item for n in self.sizes], float)


@dataclass(frozen=True)
class AuditContext:
    """What is printed, by source; declarations by variant; cards, the fastest first."""

    sources: Mapping[str, Source]
    declarations: Mapping[str, Declaration]
    cards: Sequence[Card]

    def names(self) -> dict[str, Any]:
        """What expressions call it by."""
        own = (self.model, self.times, self.stated_at, self.able_cards, self.beyond_any_cache)
        named = {function.__name__: function for function in own}
        return {**named, "published": self.sources, "cards": self.cards}

    def model(self, kernel: str) -> Declaration:
        """What a variant declared.

        Raises:
            RowsError: no declaration of it was recorded.
        """
        if kernel not in self.declarations:
            raise RowsError(f"no recorded declaration of {kernel}: the audit needs variants.json")
        return self.declarations[kernel]

    def times(self, letter: str, series: str, kernel: str) -> Times:
        """The times of a kernel in a figure; empty where the figure does not draw it."""
        source = self.sources[letter]
        drawn = source.series[series]
        us = np.array(drawn.kernels.get(kernel, ()), dtype=float)
        sizes = np.array(drawn.sizes)[: us.size]
        return Times(drawn.figure, source.dtype, drawn.rows or 0, sizes, us)

    def stated_at(self, kind: str, at: str, kernel: str | None = None) -> Any:
        """One of the ``levels``, ``timings``, ``traffic`` or ``ratios`` that a place states."""
        for one in (one for source in self.sources.values() for one in getattr(source, kind)):
            place = one.at if hasattr(one, "at") else one.claim
            if place == at and kernel in (None, one.kernel):
                return one
        raise KeyError(f"{at} states no {kind} of {kernel}")

    def able_cards(self, kernel: str, drawn: Times, seconds: Floats) -> NDArray[np.bool_]:
        """By width and card, whether the memory moves in time what has to pass it.

        That is all that the variant asks for where one matrix alone exceeds L2; input and output
        where only both together do; nothing where both fit.
        """
        asked, both = drawn.moved(self.model(kernel).formula), drawn.moved(self.model(COPY).formula)
        matrix = (drawn.rows * drawn.sizes * ITEM_BYTES[drawn.dtype])[:, None]
        peaks, caches = self._limits()
        must_move = np.where(
            matrix > caches, asked[:, None], np.where(both[:, None] > caches, both[:, None], 0)
        )
        return must_move / seconds[:, None] <= peaks

    def beyond_any_cache(self, drawn: Times, seconds: Floats) -> NDArray[np.bool_]:
        """By width, whether no card could even if all its L2 spared reads once and writes once."""
        peaks, caches = self._limits()
        least = drawn.moved(self.model(COPY).formula)[:, None] - 2 * caches
        beyond: NDArray[np.bool_] = least / seconds[:, None] > peaks
        return np.asarray(beyond.all(axis=1))

    def _limits(self) -> tuple[Floats, Floats]:
        """Peak, bytes per second, and bytes of L2 of each card."""
        peaks = [(card.peak_gbps or 0) * 1e9 for card in self.cards]
        return np.array(peaks, float), np.array([card.l2_bytes or 0 for card in self.cards], float)


def gather(cards: Path = GPU_FILES, declared: Path = DECLARED) -> AuditContext:
    """What the checks work from: cards' datasheets, and a folder with ``variants.json``.

    Raises:
        RowsError: a declaration is malformed; it names the file.
    """
    return AuditContext(sources(), load_declarations(declared), known_cards(cards))


@cache
def limit(one: str, other: str) -> float:
    """What one formula over another tends to as N grows."""
    return float(sympy.limit(expression(one) / expression(other), N, sympy.oo))


def total(*parts: str) -> str:
    """The sum of formulas as printed: no signs between factors, widest term first."""
    added = sympy.expand(sum((expression(part) for part in parts), sympy.Integer(0)))
    terms = sympy.Poly(added, M, N).terms(order="grlex")
    sized = [("M" * m + "N" * n, int(size)) for (m, n), size in terms]
    return " + ".join(name if size == 1 and name else f"{size}{name}" for name, size in sized)


def same(one: Any, other: Mapping[str, str], kinds: Sequence[str]) -> bool:
    """Whether formulas of these kinds are the same for every shape."""
    mine = one if isinstance(one, Mapping) else one.model_dump()
    return all(equal(mine[kind], other[kind]) for kind in kinds)


def passes(stated: Traffic, wide: bool = False) -> dict[str, int]:
    """The passes that formulas count: 7 of ``5MN + 2M``, or the ``wide`` ones alone, 5."""
    counts = {}
    for kind, formula in (("reads", stated.reads), ("writes", stated.writes)):
        polynomial = sympy.Poly(expression(formula or ""), M, N)
        every = sum(polynomial.coeffs())
        counts[kind] = int(polynomial.coeff_monomial(M * N) if wide else every)
    return {**counts, "total": sum(counts.values())}


def number(value: float) -> str:
    """Three digits; from 100 on a whole number with its thousands apart."""
    return thousands(value) if value >= 100 else f"{value:.3g}"


def numbers(values: Sequence[float]) -> str:
    """Several, in order."""
    return " · ".join(map(number, values))


def decimals(values: Sequence[float], count: int) -> str:
    """Several with so many digits, without the zero before the point."""
    return " ".join(f"{value:.{count}f}".removeprefix("0") for value in values)


def gbps(value: float) -> str:
    """A bandwidth with its unit."""
    whole = value >= 1000 or value == int(value)
    return f"{thousands(value)} GB/s" if whole else f"{value:.2f} GB/s"


def widths(some: Sequence[int], every: Sequence[int]) -> str:
    """Widths out of a series: all from one on, or each."""
    if len(some) > 1 and list(some) == list(every)[-len(some) :]:
        return f"N ≥ {some[0]:,}" if len(some) < len(every) else "every N"
    return "N = " + ", ".join(f"{n:,}" for n in some)


def times_as(ratio: Ratio) -> str:
    """A stated ratio in words."""
    ends = f"{ratio.low:g}" if ratio.low == ratio.high else f"{ratio.low:g} to {ratio.high:g}"
    return f"{'about ' * ratio.about}{ends} times"


def written(values: Mapping[str, Any], kinds: Sequence[str]) -> str:
    """``reads 2MN, writes MN``: the values of these kinds."""
    return ", ".join(f"{kind} {values[kind]}" for kind in kinds)


def audit_tables(findings: Sequence[AuditFinding]) -> list[NamedTable]:
    """Every check and what was not audited; and what a reader should know first."""
    data = entries()
    lines = [[getattr(finding, head) for head in HEADS] for finding in findings]
    meaning = "“About” allows {about:.0%}; “significant” is at least {significant:.0%}."
    left_out = "; ".join("{at}: {says} ({why})".format(**one) for one in data.not_audited)
    notes = [NOTE, meaning.format(**data.meaning), f"Not audited: {left_out}."]
    every = Table("Audit of published numbers", HEADS, lines, notes)
    return [NamedTable("audit", every), NamedTable("audit_summary", _summary(findings))]


def _summary(findings: Sequence[AuditFinding]) -> Table:
    """One line for each subject that does not hold, worst verdict first; the rest counted.

    Findings of one verdict whose subjects are the same up to their comma share a line.
    """
    subjects: dict[tuple[str, str], list[AuditFinding]] = {}
    for finding in sorted(findings, key=lambda f: AUDIT_VERDICTS.index(f.verdict)):
        if finding.verdict != "consistent":
            head = finding.subject.split(",")[0]
            subjects.setdefault((finding.verdict, head), []).append(finding)
    lines = [
        [
            found[0].subject if len(found) == 1 else head,
            verdict,
            "; ".join(f.printed for f in found),
            "; ".join(f.computed for f in found),
        ]
        for (verdict, head), found in subjects.items()
    ]
    count = Counter(f.verdict for f in findings)
    counted = ", ".join(f"{count[one]} {one}" for one in AUDIT_VERDICTS if count[one])
    notes = [f"{len(findings)} checks: {counted}.", NOTE]
    heads = ["subject", "verdict", "printed", "computed"]
    return Table("What the audit found", heads, lines, notes)
