"""Sizes as a claims file writes them: one, a list, or a range."""

from __future__ import annotations

from typing import Annotated, TypeGuard

from pydantic import ConfigDict, Field

from analysis.claims.expect import Strict

Size = Annotated[int, Field(ge=1, strict=True)]


class Span(Strict):
    """Sizes from one to another, both included; an end left out is open."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    first: Size = Field(1, alias="from")
    last: Size | None = Field(None, alias="to")


Sizes = Size | list[Size] | Span


def has(sizes: Sizes | None, size: int) -> bool:
    """Whether a size is among them; None has every size."""
    if isinstance(sizes, Span):
        return sizes.first <= size and (sizes.last is None or size <= sizes.last)
    return sizes is None or size in listed_sizes(sizes)


def finite(sizes: Sizes | None) -> TypeGuard[int | list[int]]:
    """Whether each is named."""
    return isinstance(sizes, int | list)


def listed_sizes(sizes: int | list[int]) -> list[int]:
    """One or several, as a list."""
    return [sizes] if isinstance(sizes, int) else sizes


def argument(sizes: Sizes) -> str:
    """As the command line of a sweep takes them; of a range its ends."""
    if isinstance(sizes, Span):
        sizes = sorted({sizes.first, sizes.last or sizes.first})
    each = listed_sizes(sizes)
    return str(each[0]) if len(each) == 1 else f"'[{','.join(map(str, each))}]'"


def words(sizes: Sizes) -> str:
    """After the size's symbol: ``= 4096``, ``≥ 1024``."""
    if not isinstance(sizes, Span):
        return f"= {', '.join(map(str, listed_sizes(sizes)))}"
    if sizes.last is None:
        return f"≥ {sizes.first}"
    return f"= {sizes.first} to {sizes.last}"
