"""Samples that stay on disk until somebody looks at them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.data.rows import RowsError


class SamplesFile:
    """All samples of a unit, one after the other."""

    def __init__(self, path: Path, values: np.ndarray | None = None) -> None:
        """``path`` is named after the digest of what it holds; ``values`` if they are at hand."""
        self._path, self._values = path, values

    @property
    def values(self) -> np.ndarray:
        """The samples in µs, read once.

        Raises:
            RowsError: the file is gone or damaged since its rows were read.
        """
        if self._values is None:
            self._values = self._read()
        return self._values

    def _read(self) -> np.ndarray:
        with contextlib.suppress(OSError):
            data = self._path.read_bytes()
            if hashlib.sha256(data).hexdigest() == self._path.stem:
                return np.asarray(pq.read_table(pa.BufferReader(data)).column(0).to_numpy())
        with contextlib.suppress(OSError):  # so that the next run reads the rows themselves
            self._path.with_name("index.json").unlink()
        raise RowsError(f"{self._path}: gone or damaged since it was written; run it again")


class Samples(Sequence[float]):
    """The samples of one row, µs. Their number is known, they are read when one is asked for."""

    __slots__ = ("_file", "_size", "_start")

    def __init__(self, file: SamplesFile, start: int, size: int) -> None:
        """``size`` samples of ``file``, from the one at ``start`` on."""
        self._file, self._start, self._size = file, start, size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> list[float]: ...
    def __getitem__(self, index: int | slice) -> float | list[float]:
        return self._list()[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self._list())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._list(), dtype=dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | Samples) and self._list() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._list())

    def _list(self) -> list[float]:
        told: list[float] = self._file.values[self._start : self._start + self._size].tolist()
        return told
