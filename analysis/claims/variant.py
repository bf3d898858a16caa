"""A variant as a claim names it: ``fused``, or ``online, block_size=4096``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator

KERNELS = Path(__file__).parents[2] / "conf" / "kernel"


@dataclass(frozen=True)
class Variant:
    """A kernel with the tunables named; the others are as its file in conf/kernel has them.

    Attributes:
        name: As rows spell it.
        named: Tunables that differ from the file's.
    """

    name: str
    named: tuple[tuple[str, Any], ...] = ()

    def is_of(self, kernel: str, params: Mapping[str, Any]) -> bool:
        """Whether a row or record is this variant's; what it does not record is as in the file."""
        if kernel != self.name:
            return False
        wanted = tunables(self.name) | dict(self.named)
        return all(params.get(key, value) == value for key, value in wanted.items())

    @property
    def arguments(self) -> str:
        """What chooses it on the command line of a sweep."""
        return " ".join([f"kernel={self.name}", *(f"kernel.{k}={v}" for k, v in self.named)])

    def __str__(self) -> str:
        return ", ".join([self.name, *(f"{key}={value}" for key, value in self.named)])


def parse(text: str) -> Variant:
    """A variant as written.

    Raises:
        ValueError: no kernel of that name is in conf/kernel, or it has no such tunable.
    """
    name, *settings = (part.strip() for part in text.split(","))
    if name not in names():
        raise ValueError(f"no kernel {name!r}; known are {', '.join(names())}")
    named = []
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or key not in tunables(name):
            known = ", ".join(tunables(name)) or "none"
            raise ValueError(f"{name} has no tunable {key!r}; it has {known}")
        named.append((key, yaml.safe_load(value)))
    return Variant(name, tuple(named))


@cache
def names() -> tuple[str, ...]:
    """Every kernel that a sweep can name."""
    return tuple(sorted(path.stem for path in KERNELS.glob("*.yaml")))


@cache
def tunables(name: str) -> dict[str, Any]:
    """A kernel's tunables as its file sets them."""
    told = yaml.safe_load((KERNELS / f"{name}.yaml").read_text(encoding="utf-8")) or {}
    return {key: value for key, value in told.items() if not key.startswith("_")}


def _written(text: str) -> str:
    parse(text)
    return text


Name = Annotated[str, AfterValidator(_written)]  # a variant in a claims file
