"""A probe's record: one buffer read many times, cold or warm, by one timer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from experiments.data.records import Record

FILE = "probe.jsonl"


class Probe(Record):
    """A buffer of ``rows`` × ``cols`` elements that is read and hardly anything else; µs.

    ``cold`` by events is the runner's own flush before each read; by a graph it is the rotation
    over buffers that no L2 holds together. Where the two agree, the flush empties L2.
    """

    gpu: str
    timer: Literal["events", "graph"]
    cache: Literal["cold", "warm"]
    bytes: int = Field(gt=0, description="of the buffer that is read")
    l2_bytes: int = Field(gt=0)
    flush_bytes: int = Field(gt=0, description="that one flush reads")
    samples_us: list[float] = Field(min_length=1)
    time_us: float = Field(gt=0, description="their median")
    time_low_us: float = Field(gt=0)
    time_high_us: float = Field(gt=0)
    stop_reason: str
    environment: dict[str, Any] = Field({})
