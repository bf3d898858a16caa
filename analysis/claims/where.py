"""Which shapes and dtypes a check is about."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pydantic import ValidationInfo, field_validator

from analysis.claims.expect import Strict
from analysis.claims.sizes import Sizes, argument, finite, has, listed_sizes, words
from experiments.data.jobs import expand
from experiments.data.rows import ITEM_BYTES

GRIDS = Path(__file__).parents[2] / "conf" / "grid"
ANY_ROWS = 64  # of a command, where any M will do: quick under the interpreter too
Place = tuple[int, int, str]


class Where(Strict):
    """Grids of conf/grid, or sizes M (``rows``) and N (``cols``), or grids narrowed by sizes.

    A grid brings its dtypes along; ``dtype`` narrows them.
    """

    grid: str | list[str] | None = None
    rows: Sizes | None = None
    cols: Sizes | None = None
    dtype: str | list[str] | None = None

    @field_validator("grid", "dtype")
    @classmethod
    def _known(cls, told: str | list[str] | None, info: ValidationInfo) -> str | list[str] | None:
        grids = sorted(path.stem for path in GRIDS.glob("*.yaml") if _is_grid(path))
        known = grids if info.field_name == "grid" else list(ITEM_BYTES)
        for name in _each(told):
            if name not in known:
                raise ValueError(f"no {info.field_name} {name!r}; known are {', '.join(known)}")
        return told

    @property
    def places(self) -> frozenset[Place] | None:
        """The points (M, N, dtype) it names; None where it leaves any of the three open."""
        if self.grid is not None:
            return frozenset(
                place for name in _each(self.grid) for place in _grid(name) if self._admits(place)
            )
        if self.dtype is None or not finite(self.rows) or not finite(self.cols):
            return None
        return frozenset(
            product(listed_sizes(self.rows), listed_sizes(self.cols), _each(self.dtype))
        )

    @property
    def points(self) -> int | None:
        """How many points it names; None where it leaves them open."""
        return None if self.places is None else len(self.places)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes it names; none where any will do."""
        if self.dtype is not None or self.places is None:
            return tuple(_each(self.dtype))
        return tuple(sorted({dtype for _, _, dtype in self.places}))

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows that lie there."""
        places = frame[["rows", "cols", "dtype"]].drop_duplicates()
        named = self.places
        found = {
            place
            for place in places.itertuples(index=False, name=None)
            if (self._admits(place) if named is None else place in named)
        }
        every = frame[["rows", "cols", "dtype"]].itertuples(index=False, name=None)
        return frame[np.array([place in found for place in every], dtype=bool)]

    def has(self, rows: int, cols: int, dtype: str) -> bool:
        """Whether a point lies there."""
        place = rows, cols, dtype
        return self._admits(place) if self.places is None else place in self.places

    @property
    def arguments(self) -> str:
        """What chooses it on the command line of a sweep."""
        if self.grid:
            told = [f"grid={','.join(_each(self.grid))}"]
        elif self.cols is None:
            told = ["grid=tutorial"]
        else:
            rows = argument(ANY_ROWS if self.rows is None else self.rows)
            told = [f"grid=point grid.rows={rows} grid.cols={argument(self.cols)}"]
        return " ".join([*told, *([f"dtype={','.join(_each(self.dtype))}"] if self.dtype else [])])

    def __str__(self) -> str:
        told = [f"grid {' and '.join(_each(self.grid))}"] if self.grid else []
        told += [f"M {words(self.rows)}"] if self.rows is not None else []
        told += [f"N {words(self.cols)}"] if self.cols is not None else []
        told += [" or ".join(_each(self.dtype))] if self.dtype else []
        return ", ".join(told) or "any shape"

    def _admits(self, place: Place) -> bool:
        rows, cols, dtype = place
        known = self.dtype is None or dtype in _each(self.dtype)
        return known and has(self.rows, rows) and has(self.cols, cols)


@cache
def _grid(name: str) -> tuple[Place, ...]:
    told: dict[str, Any] = yaml.safe_load((GRIDS / f"{name}.yaml").read_text(encoding="utf-8"))
    return tuple((m, n, dtype) for m, n in expand(told) for dtype in told["dtypes"])


@cache
def _is_grid(path: Path) -> bool:
    told = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return "dtypes" in told


def _each(told: str | list[str] | None) -> list[str]:
    """One or several, as a list."""
    if told is None:
        return []
    return told if isinstance(told, list) else [told]


def one_dtype(where: Where, what: str) -> None:
    """Raises ValueError where numbers of several dtypes would become one."""
    if len(where.dtypes) != 1:
        raise ValueError(f"{what} never mixes dtypes: where has to name one")


def one_line(where: Where, over: str, what: str) -> None:
    """The same, and where the other size is not fixed."""
    one_dtype(where, what)
    side, fixed = (0, where.rows) if over == "cols" else (1, where.cols)
    if isinstance(fixed, int) or (where.places and len({p[side] for p in where.places}) == 1):
        return
    other = "rows" if over == "cols" else "cols"
    raise ValueError(f"{what} runs along {over}: where has to fix {other}")
