"""A claims file: each claim with the checks that decide it; a mistake in it is one line."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, ValidationError, field_validator, model_validator

from analysis.claims.points import plain
from analysis.claims.printed import Example, Implied, Printed, Unrecorded
from analysis.claims.records import Agreement, Outcome, Traffic
from analysis.claims.scope import Strict
from analysis.claims.times import Limit, Ratio, Value
from analysis.claims.verdict import Band
from analysis.published import sources
from experiments.data.cards import known_cards
from experiments.data.files import RowsError

CLAIMS = Path(__file__).parents[1] / "claims.yaml"  # the sources'
OWN_CLAIMS = CLAIMS.with_name("own_claims.yaml")  # this project's, of its own kernels
OURS = "this project"  # whose own claims have that for a source
FASTEST = "fastest card"  # of those with a datasheet in conf/gpu


def _share(value: Any) -> Any:
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip().removesuffix("%")) / 100
    return value


class Expect(Strict):
    """One of these; ``about`` has ``within`` beside it, a share such as ``15%``."""

    about: float | None = None
    within: Annotated[float | None, BeforeValidator(_share)] = None
    at_least: float | None = None
    at_most: float | Literal["fastest card"] | None = None
    above: float | None = None
    below: float | None = None
    between: tuple[float, float] | None = None
    equals: float | None = None
    other_than: float | None = None

    @model_validator(mode="after")
    def _one(self) -> Expect:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if set(given) == {"about", "within"}:
            if not 0 <= (self.within or 0) < 1:
                raise ValueError("within takes a share from 0% to 100%")
        elif len(given) != 1 or given[0] in ("about", "within"):
            raise ValueError(
                "give one of at_least, at_most, above, below, between, equals, other_than, "
                f"or about and within together, not {', '.join(given) or 'nothing'}"
            )
        elif self.between and self.between[0] > self.between[1]:
            raise ValueError("between takes the lower end first")
        return self

    def band(self, fastest: float) -> Band:
        """The numbers allowed; ``fastest`` is the bandwidth of the fastest card, GB/s."""
        if self.about is not None:
            slack = abs(self.about) * (self.within or 0)
            return Band(self.about - slack, self.about + slack)
        ((name, value),) = self.model_dump(exclude_none=True).items()
        if name == "between":
            return Band(*value)
        if name == "other_than":
            return Band(hole=value)
        number = fastest if value == FASTEST else float(value)
        return {
            "equals": Band(number, number),
            "above": Band(low=number, open=True),
            "below": Band(high=number, open=True),
            "at_least": Band(low=number),
            "at_most": Band(high=number),
        }[name]

    def text(self, fastest: float) -> str:
        """In words."""
        if self.about is not None:
            return f"about {plain(self.about)}, within {100 * (self.within or 0):g} %"
        if self.between is not None:
            return f"{plain(self.between[0])} to {plain(self.between[1])}"
        if self.at_most == FASTEST:
            return f"at most {plain(fastest)} GB/s, the fastest card's"
        ((name, value),) = self.model_dump(exclude_none=True).items()
        return f"{name.replace('_', ' ')} {plain(value)}"


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
        kinds = [name for name in type(self).model_fields if name not in NOT_KINDS]
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(kinds)}, not {', '.join(given) or 'none'}")
        without = given[0] in ("outcome", "unrecorded")
        if without != (self.expect is None):
            raise ValueError(f"{given[0]} takes {'no' if without else 'an'} expect")
        return self

    @property
    def kind(self) -> Any:
        """The one kind that is given."""
        fields = (getattr(self, name) for name in type(self).model_fields if name not in NOT_KINDS)
        return next(kind for kind in fields if kind is not None)

    @property
    def expected(self) -> str:
        """What it expects, in words."""
        if self.outcome:
            return f"every point {' or '.join(self.outcome.among)}"
        if self.expect is None:
            return ""
        asked = {"each": "every point ", "most": "most points "}
        return asked.get(getattr(self.kind, "take", ""), "") + self.expect.text(fastest())


NOT_KINDS = ("expect", "part", "optional")


class Claim(Strict):
    """A claim of a source or of this project, and the checks that all have to hold.

    ``note`` explains how the words were read, or what else bears on it.
    """

    id: str
    source: str
    statement: str
    checks: tuple[Check, ...]
    note: str | None = None

    @field_validator("source")
    @classmethod
    def _known(cls, source: str) -> str:
        known = [*sources(), OURS]
        if source not in known:
            raise ValueError(f"no source {source!r}; known are {', '.join(known)}")
        return source

    @field_validator("checks")
    @classmethod
    def _some(cls, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        if not checks:
            raise ValueError("a claim needs at least one check")
        return checks


@cache
def fastest() -> float:
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
    ids = [claim.id for claim in claims]
    for name in ids:
        if ids.count(name) > 1:
            raise RowsError(f"{path}: claim {name} is there {ids.count(name)} times")
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
    place = [str(part) for part in first["loc"]]
    if place[:1] == ["checks"] and len(place) > 1:
        place = [", ".join([f"check {int(place[1]) + 1}", *filter(None, [".".join(place[2:])])])]
    message = " ".join(first["msg"].removeprefix("Value error, ").split())
    return f"{'.'.join(place) or 'the claim'}: {message}"
