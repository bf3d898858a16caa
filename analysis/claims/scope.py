"""What a check is about, as a claims file names it: shapes, dtypes, variants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from analysis.formula import expression
from experiments.data.jobs import named_grids
from experiments.data.rows import Dtype

CONF = Path(__file__).parents[2] / "conf"
ANY_ROWS = 64  # of a command, where any M will do: quick under the interpreter too
PLACE = ["rows", "cols", "dtype"]


class Strict(BaseModel):
    """Part of a claims file; it has no other fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Sizes(Strict):
    """Sizes as a claims file writes them: one, a list, or ``{from, to}`` with ends left open."""

    listed: tuple[PositiveInt, ...] = Field((), min_length=1)
    first: PositiveInt = Field(1, alias="from")
    last: PositiveInt | None = Field(None, alias="to")

    @model_validator(mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        if isinstance(given, dict):
            return given
        return {"listed": given if isinstance(given, list) else [given]}

    def among(self, sizes: pd.Series) -> pd.Series:
        """Which sizes are among them."""
        if self.listed:
            return sizes.isin(self.listed)
        return sizes.ge(self.first) & sizes.le(self.last or float("inf"))

    @property
    def argument(self) -> str:
        """As the command line of a sweep takes them; of a range its ends."""
        ends = self.listed or sorted({self.first, self.last or self.first})
        return str(ends[0]) if len(ends) == 1 else f"'[{','.join(map(str, ends))}]'"

    def __str__(self) -> str:
        if self.listed:
            return f"= {', '.join(map(str, self.listed))}"
        return f"≥ {self.first}" if self.last is None else f"= {self.first} to {self.last}"


def each(names: Any) -> Any:
    """One or several, as a tuple."""
    return (names,) if isinstance(names, str) else names


def _known(what: str, name: str, known: Iterable[str]) -> str:
    if name not in known:
        raise ValueError(f"no {what} {name!r}; known are {', '.join(sorted(known))}")
    return name


Grid = Annotated[str, AfterValidator(lambda name: _known("grid", name, named_grids()))]


class Where(Strict):
    """Grids of conf/grid, or sizes M (``rows``) and N (``cols``), or grids narrowed by sizes.

    A grid brings its dtypes along; ``dtype`` narrows them.
    """

    grid: Annotated[tuple[Grid, ...], BeforeValidator(each)] = ()
    rows: Sizes | None = None
    cols: Sizes | None = None
    dtype: Annotated[tuple[Dtype, ...], BeforeValidator(each)] = ()

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The lines of a frame that lie there."""
        here = pd.Series(True, frame.index)
        for side, sizes in (("rows", self.rows), ("cols", self.cols)):
            if sizes:
                here &= sizes.among(frame[side])
        if self.dtype:
            here &= frame["dtype"].isin(self.dtype)
        if self.grid:
            here &= pd.MultiIndex.from_frame(frame[PLACE]).isin(self._named())
        return frame[here]

    @property
    def places(self) -> pd.DataFrame:
        """The points it names, a line each; none where it leaves M, N or dtype open."""
        return self.of(pd.DataFrame(self._named(), columns=PLACE).drop_duplicates())

    def fixes(self, name: Literal["rows", "cols", "dtype"]) -> bool:
        """Whether all of its points have the same."""
        given = self.dtype if name == "dtype" else getattr(getattr(self, name), "listed", ())
        return len(given or self.places[name].unique()) == 1

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

    def _named(self) -> list[tuple[int, int, str]]:
        if self.grid:
            return [place for name in self.grid for place in named_grids()[name]]
        rows, cols = (sizes.listed if sizes else () for sizes in (self.rows, self.cols))
        return list(product(rows, cols, self.dtype))


@dataclass(frozen=True)
class Variant:
    """A kernel with the tunables ``named``; the others are as its file in conf/kernel has them."""

    name: str
    named: tuple[tuple[str, Any], ...] = ()

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows or records of it.

        A tunable that they do not record, or left to the kernel, is as in the file, unless named.
        """
        filed, named = _tunables()[self.name], dict(self.named)
        mine = frame[frame["kernel"] == self.name]
        own = [
            all(
                params.get(key, filed[key]) == value
                or (key not in named and params.get(key, value) is None)
                for key, value in (filed | named).items()
            )
            for params in mine["params"]
        ]
        return mine[np.array(own, dtype=bool)]

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
    name, *settings = (part.strip() for part in str(text).split(","))
    known, named = _tunables()[_known("kernel", name, _tunables())], []
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or key not in known:
            raise ValueError(f"{name} has no tunable {key!r}; it has {', '.join(known) or 'none'}")
        named.append((key, yaml.safe_load(value)))
    return Variant(name, tuple(named))


@cache
def _tunables() -> dict[str, dict[str, Any]]:
    """Every kernel that a sweep can name, with its tunables as its file sets them."""
    files = {p.stem: yaml.safe_load(p.read_text("utf-8")) for p in CONF.glob("kernel/*.yaml")}
    return {
        name: {key: value for key, value in (fields or {}).items() if not key.startswith("_")}
        for name, fields in files.items()
    }


def kernels() -> Iterable[str]:
    """The names of all kernels that a sweep can name."""
    return _tunables().keys()


def _formula(text: str) -> str:
    expression(text)
    return text


Formula = Annotated[str, AfterValidator(_formula)]  # such as 8MN + 4M
Name = Annotated[Variant, BeforeValidator(parse_variant)]  # a variant in a claims file


def command(variants: Iterable[Variant], where: Where, module: str = "run") -> str:
    """The command that measures variants there; settings of one kernel need one each."""
    distinct = list(dict.fromkeys(variants))
    plain = [variant.name for variant in distinct if not variant.named]
    chosen = [f"kernel={','.join(plain)}"] * bool(plain)
    chosen += [variant.arguments for variant in distinct if variant.named]
    return "; ".join(f"python -m experiments.{module} {c} {where.arguments}" for c in chosen)
