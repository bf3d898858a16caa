"""Something that a source prints, and where it stands."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Printed(BaseModel):
    """Something printed; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Statement(Printed):
    """Something printed at a place of a source."""

    at: str


class LeftOut(Statement):
    """A statement that arithmetic cannot judge, and why."""

    says: str
    why: str
