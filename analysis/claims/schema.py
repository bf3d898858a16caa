"""What a claims file holds: each claim and the checks that decide it."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import field_validator, model_validator

from analysis.claims.answers import Agreement, Outcome, Traced
from analysis.claims.example import Example
from analysis.claims.expect import Expect, Strict
from analysis.claims.limit import Limit
from analysis.claims.printed import Implied, Printed, Unrecorded, fastest
from analysis.claims.ratio import Ratio
from analysis.claims.traffic import Counted, Moved
from analysis.claims.value import Spread, Trend, Value
from analysis.published import sources

OURS = "this project"  # whose own claims have that for a source


class Check(Strict):
    """One kind of evidence and what is expected of it.

    Attributes:
        part: Which part of the claim it decides, in a few words.
        optional: It only speaks where its evidence exists, and is no lack where that does not.
    """

    ratio: Ratio | None = None
    value: Value | None = None
    trend: Trend | None = None
    spread: Spread | None = None
    limit: Limit | None = None
    counted: Counted | None = None
    moved: Moved | None = None
    outcome: Outcome | None = None
    agreement: Agreement | None = None
    traced: Traced | None = None
    example: Example | None = None
    implied: Implied | None = None
    printed: Printed | None = None
    unrecorded: Unrecorded | None = None
    expect: Expect | None = None
    part: str
    optional: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> Check:
        given = [name for name in KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(KINDS)}, not {', '.join(given) or 'none'}")
        silent = given[0] in ("outcome", "unrecorded")
        if silent != (self.expect is None):
            raise ValueError(f"{given[0]} takes {'no' if silent else 'an'} expect")
        return self

    @property
    def kind(self) -> Any:
        """The one kind that is given."""
        return next(found for name in KINDS if (found := getattr(self, name)) is not None)

    @property
    def expected(self) -> str:
        """What it expects, in words."""
        if self.expect is not None:
            asked = {"each": "every point ", "most": "most points "}
            return asked.get(getattr(self.kind, "take", ""), "") + self.expect.text(fastest())
        return f"every point {' or '.join(self.outcome.among)}" if self.outcome else ""


KINDS = tuple(
    name
    for name, field in Check.model_fields.items()
    if any(isinstance(t, type) and issubclass(t, Strict) and t is not Expect
           for t in get_args(field.annotation))
)  # fmt: skip


class Claim(Strict):
    """A claim of a source or of this project, and the checks that all have to hold.

    ``note`` tells a reader how the words were read, or what else bears on it.
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
