"""The sources' own numbers, as they printed them: the one reader of ``published.yaml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

OPERATION = "softmax"  # the sources' operation, which names and titles leave out
PUBLISHED = Path(__file__).with_name("published.yaml")


class _Printed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Series(_Printed):
    """Numbers of a figure or table over a size; ``sizes`` and each kernel's list run together."""

    quantity: Literal["time_us", "effective_gbps"]
    rows: int | None = None
    cols: int | None = None
    over: Literal["rows", "cols"]
    sizes: tuple[int, ...]
    kernels: dict[str, tuple[float, ...]]


class Stated(_Printed):
    """A number that a claim states of a kernel without a size, or its two ends.

    It is a bandwidth, or how many times as fast the kernel is ``over`` another.
    """

    claim: str
    kernel: str
    low: float
    high: float
    quantity: Literal["effective_gbps"] | None = None
    of: Literal["peak", "plateau", "floor"] | None = None
    over: str = ""
    label: str = ""


class Traffic(_Printed):
    """A kernel's traffic and memory at a place of the text: formulas in M and N, elements."""

    at: str
    kernel: str
    reads: str | None = None
    writes: str | None = None
    total: str | None = None
    on_chip: str | None = None  # the part of a row that it holds, as an order such as ``O(B)``
    any_width: bool | None = None


class Source(_Printed):
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
    levels: tuple[Stated, ...] = ()
    ratios: tuple[Stated, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    example: dict[str, Any] = {}  # a small case worked by hand: its input, and its printed results
    statements: tuple[dict[str, str], ...] = ()  # lines of the audit: see `claims.audit.Finding`

    @property
    def by(self) -> str:
        """Author, kind and date in words."""
        return f"{self.author or 'author not named'}, {self.kind}, {self.date or 'not dated'}"


def name_of(letter: str) -> str:
    """A source as figures and tables name it: ``K4i fused (A)``; other words as they are."""
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
