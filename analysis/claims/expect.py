"""What a check expects of a number, as a claims file writes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from analysis.claims.band import Band
from analysis.claims.telling import plain

FASTEST = "fastest card"  # of those with a datasheet in conf/gpu


class Strict(BaseModel):
    """Part of a claims file; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _share(value: Any) -> Any:
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip().removesuffix("%")) / 100
    return value


Share = Annotated[float, BeforeValidator(_share)]


class Expect(Strict):
    """One of these; ``about`` has ``within`` beside it, a share such as ``15%``."""

    about: float | None = None
    within: Share | None = None
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
            return self
        if len(given) != 1 or given[0] in ("about", "within"):
            raise ValueError(
                "give one of at_least, at_most, above, below, between, equals, other_than, "
                f"or about and within together, not {', '.join(given) or 'nothing'}"
            )
        if self.between and self.between[0] > self.between[1]:
            raise ValueError("between takes the lower end first")
        return self

    def band(self, fastest: float) -> Band:
        """The numbers allowed; ``fastest`` is the bandwidth of the fastest card, GB/s."""
        if self.about is not None:
            slack = abs(self.about) * (self.within or 0)
            return Band(self.about - slack, self.about + slack)
        if self.between is not None:
            return Band(*self.between)
        if self.equals is not None:
            return Band(self.equals, self.equals)
        if self.other_than is not None:
            return Band(hole=self.other_than)
        if self.above is not None:
            return Band(low=self.above, open=True)
        if self.below is not None:
            return Band(high=self.below, open=True)
        if self.at_least is not None:
            return Band(low=self.at_least)
        assert self.at_most is not None
        return Band(high=fastest if self.at_most == FASTEST else float(self.at_most))

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
