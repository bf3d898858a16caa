"""Rows as dictionaries to Arrow columns, and these to the table that the dictionaries make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.columns.samples import Samples, SamplesFile
from analysis.columns.schema import FLAG, JSON, KINDS, SAMPLES, SAMPLES_SCHEMA, SCHEMA


@dataclass(frozen=True)
class Part:
    """The rows of one unit.

    Attributes:
        table: Of `SCHEMA`, a line a row.
        samples: Where the samples lie, row after row.
    """

    table: pa.Table
    samples: SamplesFile


def to_arrow(records: Sequence[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """The rows of `SCHEMA`, and all their samples of `SAMPLES_SCHEMA`."""
    columns = []
    for field in SCHEMA:
        values = [record[field.name] for record in records]
        if field.name in JSON:
            values = [None if v is None else json.dumps(v, ensure_ascii=False) for v in values]
        elif field.name == SAMPLES:
            values = [None if v is None else len(v) for v in values]
        elif field.name == FLAG:
            values = [v is True for v in values]
        columns.append(pa.array(values, field.type))
    samples = [one for record in records for one in record[SAMPLES] or ()]
    flat = pa.Table.from_arrays([pa.array(samples, pa.float64())], schema=SAMPLES_SCHEMA)
    return pa.Table.from_arrays(columns, schema=SCHEMA), flat


def to_frame(parts: Sequence[Part]) -> pd.DataFrame:
    """All parts, in order, as one table. Rows share their lists and mappings: do not change them.

    Samples are a `Samples` each, which reads them when they are looked at.
    """
    table = pa.concat_tables([part.table for part in parts]).unify_dictionaries()
    columns = {name: _column(name, table.column(name)) for name in KINDS}
    columns[SAMPLES] = pd.Series([one for part in parts for one in _samples(part)], dtype=object)
    return pd.DataFrame(columns)


def _column(name: str, column: pa.ChunkedArray) -> pd.Series:
    if name in JSON:
        return _objects(column)
    if not pa.types.is_dictionary(column.type):
        return pd.Series(column.to_numpy())
    if column.null_count == len(column):  # as pandas has it of nothing but None
        return pd.Series([None] * len(column), dtype=object)
    return pd.Series(column.cast(pa.string()).to_pandas())


def _objects(column: pa.ChunkedArray) -> pd.Series:
    texts = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    known = np.empty(len(texts) + 1, dtype=object)
    known[:-1] = [json.loads(text) for text in texts]  # the last stands for null
    codes = [chunk.indices.fill_null(len(texts)).to_numpy() for chunk in column.chunks]
    return pd.Series(known[np.concatenate(codes)], dtype=object)


def _samples(part: Part) -> list[Samples | None]:
    sizes = part.table.column(SAMPLES).to_pylist()
    found: list[Samples | None] = []
    start = 0
    for size in sizes:
        found.append(None if size is None else Samples(part.samples, start, size))
        start += size or 0
    return found
