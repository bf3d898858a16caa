"""What is known apart from the sources and this project's rows; it reads ``facts.yaml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

FACTS = Path(__file__).with_name("facts.yaml")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Number(_Strict):
    """A number and where it stands."""

    value: int
    source: str


class Name(_Strict):
    """A word and where it stands."""

    value: str
    source: str


class Facts(_Strict):
    """Facts by kind; see the comments of ``facts.yaml``."""

    index_bytes: dict[str, Number]
    default_warps: Number
    warp_threads: Number
    scopes: dict[str, Name]
    least: dict[str, Number]


@cache
def facts(path: Path = FACTS) -> Facts:
    """The facts.

    Raises:
        pydantic.ValidationError: the file holds something else.
    """
    return Facts.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
