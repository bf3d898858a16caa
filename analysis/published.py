"""The sources' own numbers and formulas, and C's worked example beside the right numbers.

The one reader of ``published.yaml``. Formulas are expressions in M and N, such as ``8MN + 4M``, as
kernels declare and sources print them.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import sympy
import yaml
from pydantic import BaseModel

OPERATION = "softmax"  # the sources' operation, which file names leave out
M, N = sympy.symbols("M N", integer=True, positive=True)
_CASES = re.compile(r"(?P<small>[^<≤]+) if N (?P<sign>≤|<) (?P<width>\d{1,18}) else (?P<large>.+)")
_ONE = r"(?=[\dMN])\d{0,18}M?N?"
_POLYNOMIAL = re.compile(rf"-?{_ONE}(?: [+-] {_ONE})*")
PUBLISHED = Path(__file__).with_name("published.yaml")


class Series(BaseModel, frozen=True, extra="forbid"):
    """A source's numbers over a size; each kernel has one number for each of ``sizes``."""

    rows: int | None = None  # M, if the sizes are N
    cols: int | None = None  # N, if the sizes are M
    sizes: tuple[int, ...]
    kernels: dict[str, tuple[float, ...]]


class Level(BaseModel, frozen=True, extra="forbid"):
    """A bandwidth or a range of it, GB/s, that a source states for a kernel without a size."""

    kernel: str
    of: Literal["peak", "plateau", "floor"]
    low: float
    high: float


class Source(BaseModel, frozen=True, extra="forbid"):
    """One of the five texts; ``author``, ``date`` and ``card`` are None where it names none."""

    short: str  # its name where there is little room
    title: str
    author: str | None
    kind: str
    date: str | None
    url: str
    claim: str  # in a sentence
    card: str | None
    dtype: str
    series: dict[str, Series] = {}
    levels: tuple[Level, ...] = ()
    tables: dict[str, dict[str, dict[str, str]]] = {}  # the cells, by table, kernel and column
    example: dict[str, Any] = {}  # a small case worked by hand: its input, and its printed results
    statements: tuple[dict[str, str], ...] = ()  # lines of the audit: see `claims.Finding`


class Line(NamedTuple):
    """Numbers that C prints for a row of its worked example, if any, and the same in float32."""

    row: str
    quantity: str
    published: str
    recomputed: str  # with a digit more than is printed
    difference: str  # the largest
    agrees: str  # ``yes`` where each number is within one unit of its last digit


def name_of(letter: str) -> str:
    """A source's name in figures and tables, ``K4i fused (A)``; other words stay as they are."""
    source = sources().get(letter)
    return f"{source.short} ({letter})" if source else letter


@cache
def sources() -> dict[str, Source]:
    """The sources by letter."""
    read = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    return {letter: Source.model_validate(fields) for letter, fields in read.items()}


def series(name: str) -> Series:
    """A source's series by its name, such as ``"a_fig2"``."""
    return next(s.series[name] for s in sources().values() if name in s.series)


@cache
def worked_example() -> tuple[Line, ...]:
    """Every number of C's worked example, row by row; for the first row also the block sums.

    The right numbers are computed here in float32, block by block.
    """
    printed, lines = sources()["C"].example, list[Line]()
    for i, given in enumerate(np.array(printed["input"], np.float32)):
        row, maximum, total = str(i + 1), np.float32(-np.inf), np.float32(0)
        for j, part in enumerate(given.reshape(-1, printed["block"])):
            old, maximum = maximum, max(maximum, part.max())
            total = total * np.exp(old - maximum) + np.exp(part - maximum).sum()
            known = f"{maximum:.1f}, {total:.6f}"
            lines.append(Line(row, f"m, d after block {j + 1}", "", known, "", ""))
            if i == 0:
                own, sums = [np.exp(part - given.max()).sum()], [printed["block_sums"][j]]
                lines.append(_line(row, f"sum of block {j + 1}", own, sums))
        outputs, stated = np.exp(given - maximum) / total, printed["outputs"][i]
        one = [printed["row_sums"][i]]
        lines += [
            _line(row, "maximum", [maximum], [printed["maxima"][i]], digits=1),
            _line(row, "sum", [total], [printed["sums"][i]]),
            _line(row, "outputs", outputs, stated),
            _line(row, "sum of outputs", [sum(outputs.tolist())], one),
            _line(row, "sum of printed outputs", [sum(stated)], one),
        ]
    return tuple(lines)


def _line(row: str, quantity: str, found: Any, stated: Sequence[float], digits: int = 3) -> Line:
    apart = np.subtract(np.asarray(found, float), stated)
    worst = max(apart.tolist(), key=abs)
    printed = " ".join(f"{one:.{digits}f}" for one in stated)
    own = " ".join(f"{one:.{digits + 1}f}" for one in found)
    difference = f"{round(worst, digits + 1) + 0.0:+.{digits + 1}f}"  # no -0
    agrees = "yes" if abs(worst) <= 10.0**-digits * (1 + 1e-9) else "no"
    return Line(row, quantity, printed, own, difference, agrees)


@cache
def expression(text: str) -> sympy.Expr:
    """A formula as an expression; it may have two cases: ``2MN if N ≤ 4096 else 4MN``.

    Raises:
        ValueError: it is not a formula in M and N.
    """
    if cases := _CASES.fullmatch(text):
        width = int(cases["width"])
        small = width >= N if cases["sign"] == "≤" else width > N
        return sympy.Piecewise(
            (expression(cases["small"]), small), (expression(cases["large"]), True)
        )
    # sympy's parser runs its input, so that only polynomials in M and N may reach it
    if not _POLYNOMIAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a formula in M and N, such as 8MN + 4M")
    product = re.sub(r"(?<=[\dM])(?=[MN])", "*", text)
    return sympy.parse_expr(product, local_dict={"M": M, "N": N})


@cache
def elements(text: str, rows: int, cols: int) -> int:
    """The formula's value at a shape."""
    return int(expression(text).subs({M: rows, N: cols}))


@cache
def equal(one: str, other: str) -> bool:
    """Whether two formulas are the same for every shape."""
    return bool(sympy.simplify(expression(one) - expression(other)) == 0)
