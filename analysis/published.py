"""The sources' own numbers, as they printed them: the one reader of ``published.yaml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

PUBLISHED = Path(__file__).with_name("published.yaml")
Quantity = Literal["time_us", "effective_gbps"]


class _Printed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Series(_Printed):
    """Numbers of a figure or table over a size; ``sizes`` and each kernel's list run together."""

    figure: str
    quantity: Quantity
    rows: int | None = None
    cols: int | None = None
    over: Literal["rows", "cols"]
    sizes: tuple[int, ...]
    kernels: dict[str, tuple[float, ...]]


class Level(_Printed):
    """A bandwidth or time that a claim states without a size: a line, or a band of two ends."""

    claim: str
    kernel: str
    quantity: Quantity
    low: float
    high: float


class Source(_Printed):
    """One of the five texts; ``card`` is None where it names none."""

    title: str
    kind: str
    card: str | None
    dtype: str
    series: dict[str, Series] = {}
    levels: tuple[Level, ...] = ()


@cache
def sources(path: Path = PUBLISHED) -> dict[str, Source]:
    """The sources by letter.

    Raises:
        pydantic.ValidationError: the file holds something else.
    """
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {letter: Source.model_validate(told) for letter, told in read.items()}


def series(name: str) -> Series:
    """A source's series by its name, such as ``"a_fig2"``."""
    return next(s.series[name] for s in sources().values() if name in s.series)
