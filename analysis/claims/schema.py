"""A claims file: each claim with the checks that decide it; a mistake in it is one line."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from analysis.claims.points import plain
from analysis.claims.printed import Example, Implied, Printed, Unrecorded
from analysis.claims.records import Agreement, Host, Outcome, Traffic
from analysis.claims.scope import Strict
from analysis.claims.times import Limit, Ratio, Value
from analysis.claims.verdict import Band
from analysis.published import sources
from experiments.data.cards import known_cards
from experiments.data.files import RowsError

CLAIMS = Path(__file__).parents[1] / "claims.yaml"  # the sources'
OWN_CLAIMS = CLAIMS.with_name("own_claims.yaml")  # this project's, of its own kernels
OURS = "this project"  # whose own claims have that for a source


def _share(value: Any) -> Any:
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip().removesuffix("%")) / 100
    return value


class Expect(Strict):
    """One of these; ``about`` has ``within`` beside it, a share such as ``15%``."""

    about: float | None = None
    within: Annotated[float | None, BeforeValidator(_share), Field(ge=0, lt=1)] = None
    at_least: float | None = None
    at_most: float | Literal["fastest card"] | None = None  # of those with a datasheet in conf/gpu
    above: float | None = None
    below: float | None = None
    between: tuple[float, float] | None = None
    equals: float | None = None
    other_than: float | None = None

    @model_validator(mode="after")
    def _one(self) -> Expect:
        given = set(self.model_dump(exclude_none=True))
        if given != {"about", "within"} and (len(given) != 1 or given & {"about", "within"}):
            raise ValueError(f"give one of {', '.join(type(self).model_fields)}; within with about")
        if self.between and self.between[0] > self.between[1]:
            raise ValueError("between takes the lower end first")
        return self

    def band(self) -> Band:
        """The numbers allowed."""
        name, value = self._given()
        if name == "about":
            slack = abs(value) * (self.within or 0)
            return Band(value - slack, value + slack)
        if name == "between":
            return Band(*value)
        if name == "other_than":
            return Band(hole=value)
        low = {} if name in ("below", "at_most") else {"low": value}
        high = {} if name in ("above", "at_least") else {"high": value}
        return Band(**low, **high, open=name in ("above", "below"))

    def text(self) -> str:
        """In words."""
        name, value = self._given()
        if name == "about":
            return f"about {plain(value)}, within {100 * (self.within or 0):g} %"
        if name == "between":
            return f"{plain(value[0])} to {plain(value[1])}"
        unit = " GB/s, the fastest card's" if isinstance(self.at_most, str) else ""
        return f"{name.replace('_', ' ')} {plain(value)}{unit}"

    def _given(self) -> tuple[str, Any]:
        (name, value), *_ = self.model_dump(exclude_none=True).items()
        return name, _fastest() if isinstance(value, str) else value


class Check(Strict):
    """One kind of row or record and what is expected of it.

    Attributes:
        part: Which part of the claim it decides, in a few words.
        optional: It only counts where its rows or records exist; their absence is not reported.
    """

    ratio: Ratio | None = None
    value: Value | None = None
    limit: Limit | None = None
    traffic: Traffic | None = None
    host: Host | None = None
    outcome: Outcome | None = None
    agreement: Agreement | None = None
    example: Example | None = None
    implied: Implied | None = None
    printed: Printed | None = None
    unrecorded: Unrecorded | None = None
    expect: Expect | None = None
    part: str
    optional: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> Check:
        if len(self._kinds()) != 1:
            known = ", ".join(list(type(self).model_fields)[:-3])
            raise ValueError(f"give one of {known}, not {', '.join(self._kinds()) or 'none'}")
        ((name, kind),) = self._kinds().items()
        without = isinstance(kind, Outcome | Unrecorded)
        if without != (self.expect is None):
            raise ValueError(f"{name} takes {'no' if without else 'an'} expect")
        return self

    @property
    def kind(self) -> Any:
        """The one kind that is given."""
        (kind,) = self._kinds().values()
        return kind

    @property
    def expected(self) -> str:
        """What it expects, in words."""
        if self.outcome:
            return f"every point {' or '.join(self.outcome.among)}"
        if self.expect is None:
            return ""
        asked = {"each": "every point ", "most": "most points "}
        return asked.get(getattr(self.kind, "take", ""), "") + self.expect.text()

    def _kinds(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: kind for name, kind in fields.items() if hasattr(kind, "judge")}


class Claim(Strict):
    """A claim of a source or of this project, and the checks that all have to hold.

    Attributes:
        statement: What is claimed, in short.
        words: The source's own words; our own claims, and a source that we only have reports of,
            need none.
        place: Where in the source they stand; our own claims need none.
        note: How the words were read, or what else bears on it.
    """

    id: str
    source: str
    statement: str
    checks: tuple[Check, ...] = Field(min_length=1)
    place: str = ""
    words: str = ""
    note: str = ""

    @field_validator("source")
    @classmethod
    def _known(cls, source: str) -> str:
        known = [*sources(), OURS]
        if source not in known:
            raise ValueError(f"no source {source!r}; known are {', '.join(known)}")
        return source

    @model_validator(mode="after")
    def _placed(self) -> Claim:
        if self.source != OURS and not self.place:
            raise ValueError(f"place is missing: where {self.source} says so")
        return self


@cache
def _fastest() -> float:
    """The highest memory bandwidth of any card in conf/gpu, GB/s."""
    return known_cards()[0].peak_gbps or 0.0


def read_claims(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """The claims of a file, in its order.

    Raises:
        RowsError: in one line, the file, the claim, the field and what would be right.
        OSError: the file cannot be read.
    """
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RowsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(given, list) or not given:
        raise RowsError(f"{path}: a list of claims is expected, each with id, source, statement")
    claims = tuple(_claim(path, place, one) for place, one in enumerate(given, start=1))
    name, times = Counter(claim.id for claim in claims).most_common(1)[0]
    if times > 1:
        raise RowsError(f"{path}: claim {name} is there {times} times")
    return claims


def _claim(path: Path, place: int, given: Any) -> Claim:
    name = given.get("id", f"number {place}") if isinstance(given, dict) else f"number {place}"
    try:
        return Claim.model_validate(given)
    except ValidationError as error:
        raise RowsError(f"{path}: claim {name}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """The first mistake in one line, after its field: ``check 2, ratio.where.cols``."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    message = " ".join(first["msg"].removeprefix("Value error, ").split())
    numbered = re.sub(r"^checks\.(\d+)\.?", lambda at: f"check {int(at[1]) + 1}, ", field)
    return f"{numbered.removesuffix(', ') or 'the claim'}: {message}"
