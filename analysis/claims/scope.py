"""What a check is about, as a claims file names it: shapes, dtypes, variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from analysis.formula import expression
from experiments.data.jobs import expand
from experiments.data.rows import ITEM_BYTES

CONF = Path(__file__).parents[2] / "conf"
ANY_ROWS = 64  # of a command, where any M will do: quick under the interpreter too
Place = tuple[int, int, str]  # M, N, dtype
PLACE = ["rows", "cols", "dtype"]


class Strict(BaseModel):
    """Part of a claims file; an unknown field is refused with those that there are."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for name in given if isinstance(given, dict) else ():
            if name not in known and name not in cls.model_fields:
                raise ValueError(f"{name} is unknown; it may be one of {', '.join(known)}")
        return given


@dataclass(frozen=True)
class Sizes:
    """Sizes as a claims file writes them: one, a list, or a range whose open end is None."""

    listed: tuple[int, ...] = ()
    first: int = 1
    last: int | None = None

    def has(self, size: int) -> bool:
        """Whether a size is among them."""
        if self.listed:
            return size in self.listed
        return self.first <= size and (self.last is None or size <= self.last)

    @property
    def argument(self) -> str:
        """As the command line of a sweep takes them; of a range its ends."""
        each = self.listed or sorted({self.first, self.last or self.first})
        return str(each[0]) if len(each) == 1 else f"'[{','.join(map(str, each))}]'"

    def __str__(self) -> str:
        if self.listed:
            return f"= {', '.join(map(str, self.listed))}"
        return f"≥ {self.first}" if self.last is None else f"= {self.first} to {self.last}"


def _sizes(given: Any) -> Sizes | None:
    def is_size(size: Any) -> bool:
        return isinstance(size, int) and not isinstance(size, bool) and size >= 1

    if given is None or isinstance(given, Sizes):
        return given
    if is_size(given):
        return Sizes((given,))
    if isinstance(given, list) and given and all(map(is_size, given)):
        return Sizes(tuple(given))
    if isinstance(given, dict) and given.keys() <= {"from", "to"}:
        first, last = given.get("from", 1), given.get("to")
        if is_size(first) and (last is None or is_size(last)):
            return Sizes((), first, last)
    raise ValueError("takes a size from 1, a list of them or {from, to}")


def _each(names: Any) -> Any:
    """One or several, as a tuple."""
    return (names,) if isinstance(names, str) else names


def _known_grids(names: tuple[str, ...]) -> tuple[str, ...]:
    _refuse_unknown("grid", names, sorted(_grids()))
    return names


def _known_dtypes(names: tuple[str, ...]) -> tuple[str, ...]:
    _refuse_unknown("dtype", names, list(ITEM_BYTES))
    return names


def _refuse_unknown(what: str, names: tuple[str, ...], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"no {what} {name!r}; known are {', '.join(known)}")


class Where(Strict):
    """Grids of conf/grid, or sizes M (``rows``) and N (``cols``), or grids narrowed by sizes.

    A grid brings its dtypes along; ``dtype`` narrows them.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    grid: Annotated[tuple[str, ...], BeforeValidator(_each), AfterValidator(_known_grids)] = ()
    rows: Annotated[Sizes | None, BeforeValidator(_sizes)] = None
    cols: Annotated[Sizes | None, BeforeValidator(_sizes)] = None
    dtype: Annotated[tuple[str, ...], BeforeValidator(_each), AfterValidator(_known_dtypes)] = ()

    @cached_property
    def places(self) -> frozenset[Place] | None:
        """The points it names; None where it leaves M, N or dtype open."""
        if self.grid:
            every = (place for name in self.grid for place in _grids()[name])
            return frozenset(place for place in every if self._admits(place))
        if not (self.dtype and self.rows and self.rows.listed and self.cols and self.cols.listed):
            return None
        return frozenset(product(self.rows.listed, self.cols.listed, self.dtype))

    def narrowed(self, side: str, sizes: Sizes) -> Where:
        """The same with other ``rows`` or ``cols``."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return Where(**given | {side: sizes})

    @property
    def points(self) -> int:
        """How many points it names; 0 where it leaves them open."""
        return len(self.places or ())

    def has(self, rows: int, cols: int, dtype: str) -> bool:
        """Whether a point lies there."""
        place = rows, cols, dtype
        return self._admits(place) if self.places is None else place in self.places

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows that lie there."""
        every = list(frame[PLACE].itertuples(index=False, name=None))
        here = {place: self.has(*place) for place in set(every)}
        return frame[np.array([here[place] for place in every], dtype=bool)]

    def fixes(self, side: str) -> bool:
        """Whether it names one dtype and, of ``rows`` or ``cols``, one size."""
        sizes: Sizes | None = getattr(self, side)
        place = PLACE.index(side)
        one = sizes is not None and len(sizes.listed) == 1
        return one or len({point[place] for point in self.places or ()}) == 1

    @property
    def one_dtype(self) -> bool:
        """Whether it names one dtype."""
        return len(self.dtype or {dtype for _, _, dtype in self.places or ()}) == 1

    @property
    def arguments(self) -> str:
        """What chooses it on the command line of a sweep."""
        if self.grid:
            shape = f"grid={','.join(self.grid)}"
        elif self.cols is None:
            shape = "grid=tutorial"
        else:
            rows = self.rows.argument if self.rows else str(ANY_ROWS)
            shape = f"grid=point grid.rows={rows} grid.cols={self.cols.argument}"
        return " ".join([shape, *([f"dtype={','.join(self.dtype)}"] if self.dtype else [])])

    def __str__(self) -> str:
        parts = [f"grid {' and '.join(self.grid)}"] if self.grid else []
        parts += [f"M {self.rows}"] if self.rows else []
        parts += [f"N {self.cols}"] if self.cols else []
        parts += [" or ".join(self.dtype)] if self.dtype else []
        return ", ".join(parts) or "any shape"

    def _admits(self, place: Place) -> bool:
        rows, cols, dtype = place
        sizes = (self.rows is None or self.rows.has(rows)) and (
            self.cols is None or self.cols.has(cols)
        )
        return sizes and (not self.dtype or dtype in self.dtype)


@cache
def _grids() -> dict[str, tuple[Place, ...]]:
    """The points of every grid in conf/grid that names its dtypes."""
    found = {}
    for path in CONF.glob("grid/*.yaml"):
        grid: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if "dtypes" in grid:
            found[path.stem] = tuple((m, n, d) for m, n in expand(grid) for d in grid["dtypes"])
    return found


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
        asked = _tunables()[self.name] | dict(self.named)
        return all(params.get(key, value) == value for key, value in asked.items())

    @property
    def arguments(self) -> str:
        """What chooses it on the command line of a sweep."""
        return " ".join([f"kernel={self.name}", *(f"kernel.{k}={v}" for k, v in self.named)])

    def __str__(self) -> str:
        return ", ".join([self.name, *(f"{key}={value}" for key, value in self.named)])


def parse_variant(text: Any) -> Variant:
    """A variant as written: ``fused``, or ``online, block_size=4096``.

    Raises:
        ValueError: no kernel of that name is in conf/kernel, or it has no such tunable.
    """
    if isinstance(text, Variant):
        return text
    name, *settings = (part.strip() for part in str(text).split(","))
    _refuse_unknown("kernel", (name,), sorted(_tunables()))
    known, named = _tunables()[name], []
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or key not in known:
            raise ValueError(f"{name} has no tunable {key!r}; it has {', '.join(known) or 'none'}")
        named.append((key, yaml.safe_load(value)))
    return Variant(name, tuple(named))


@cache
def _tunables() -> dict[str, dict[str, Any]]:
    """Every kernel that a sweep can name, with its tunables as its file sets them."""
    files = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        for path in CONF.glob("kernel/*.yaml")
    }
    return {
        name: {key: value for key, value in fields.items() if not key.startswith("_")}
        for name, fields in files.items()
    }


def _formula(text: str) -> str:
    expression(text)
    return text


Formula = Annotated[str, AfterValidator(_formula)]  # such as 8MN + 4M
Name = Annotated[Variant, BeforeValidator(parse_variant)]  # a variant in a claims file


def command(variants: Any, where: Where, module: str = "run") -> str:
    """The command that measures variants there; settings of one kernel need one each."""
    each = list(dict.fromkeys(variants))
    plain = [variant.name for variant in each if not variant.named]
    chosen = [f"kernel={','.join(plain)}"] * bool(plain)
    chosen += [variant.arguments for variant in each if variant.named]
    return "; ".join(f"python -m experiments.{module} {c} {where.arguments}" for c in chosen)
