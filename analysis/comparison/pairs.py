"""Points of two sets of rows, matched by what they are and not by the code that they ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.selection import name_variants, records_of

PROTOCOL = ("timer", "cache")
ARROW = " → "  # from the GPU of BASE to the one of HEAD, where those were allowed to differ
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Visits:
    """A point in one set: all its visits, each the last row of its sweep, card and round."""

    rows: tuple[Row, ...]

    @property
    def timed(self) -> list[Row]:
        """The visits with a time that means something."""
        return [r for r in self.rows if _is_timed(r)]

    @property
    def status(self) -> str:
        """``ok`` where every visit was; else what the first that was not came to."""
        return next((r["status"] for r in self.rows if r["status"] != "ok"), "ok")

    @property
    def reason(self) -> str:
        """Why it is not ``ok``, and in how many rounds."""
        bad = [r for r in self.rows if r["status"] != "ok"]
        told = next((str(r["reason"]) for r in bad if r["reason"]), "")
        share = f"in {len(bad)} of {len(self.rows)} rounds" if len(self.rows) > 1 and bad else ""
        return ": ".join(filter(None, (share, told)))

    @property
    def suspect(self) -> bool:
        """Whether some visit was flagged as it was measured."""
        return any(r["suspect"] for r in self.rows)


@dataclass(frozen=True)
class Pair:
    """A point and what each set has of it; None where it has nothing.

    Attributes:
        place: What identifies it: kernel, variant, rows, cols, dtype, gpu, card, timer, cache.
        base: Its visits in BASE.
        head: Its visits in HEAD.
    """

    place: Mapping[str, Any]
    base: Visits | None
    head: Visits | None

    @property
    def timed(self) -> bool:
        """Whether both have a time."""
        return bool(self.base and self.head and self.base.timed and self.head.timed)

    @property
    def name(self) -> str:
        """The point in words."""
        p = self.place
        return f"{p['variant']} {p['rows']}×{p['cols']} {p['dtype']}"


def pairs_of(base: pd.DataFrame, head: pd.DataFrame, across_gpus: bool = False) -> list[Pair]:
    """Every point of either, in an order of its own.

    Identity is operation, kernel, parameters, shape, dtype, GPU model, card and protocol. A point
    that failed before it was timed has no protocol: it stands for those that its other rows have.
    Each sweep and round of a set is a visit of its own.
    """
    named = name_variants(pd.concat([base, head], ignore_index=True))
    rows = [{**row, "_side": i >= len(base)} for i, row in enumerate(records_of(named))]
    points: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        points.setdefault(_identity(row, across_gpus), []).append(row)
    pairs = [pair for visits in points.values() for pair in _by_protocol(visits)]
    return sorted(pairs, key=lambda pair: json.dumps(_order(pair.place)))


def _identity(row: Row, across_gpus: bool) -> tuple[str, ...]:
    params = json.dumps(row["params"], sort_keys=True, default=str)
    place = () if across_gpus else (row["gpu"], str(row["card"]))
    return (row["operation"], row["kernel"], params, str(row["rows"]), str(row["cols"]),
            row["dtype"], *place)  # fmt: skip


def _by_protocol(rows: Iterable[dict[str, Any]]) -> list[Pair]:
    rows = list(rows)
    known = sorted({_protocol(r) for r in rows if None not in _protocol(r)}, key=str)
    found = []
    for protocol in known or [(None, None)]:
        mine = [r for r in rows if _protocol(r) == protocol or None in _protocol(r)]
        sides = [_visits(r for r in mine if r["_side"] is side) for side in (False, True)]
        first = next(r for r in mine if _protocol(r) == protocol or not known)
        keep = ("operation", "kernel", "variant", "rows", "cols", "dtype", "gpu", "card")
        place = {name: first[name] for name in keep} | dict(zip(PROTOCOL, protocol, strict=True))
        place["gpu"] = ARROW.join(dict.fromkeys(str(r["gpu"]) for r in mine))
        found.append(Pair(place, *sides))
    return found


def _visits(rows: Iterable[dict[str, Any]]) -> Visits | None:
    # code edited since leaves stale rows of another key before the newest one
    newest = {(r["sweep"], r["card"], r["round"]): r for r in rows}
    return Visits(tuple(newest.values())) if newest else None


def _protocol(row: Row) -> tuple[str | None, str | None]:
    timer, cache = (row[n] if isinstance(row[n], str) else None for n in PROTOCOL)
    return timer, cache


def _is_timed(row: Row) -> bool:
    # under Triton's interpreter time means nothing
    good = row["status"] == "ok" and row["backend"] != "interpreter"
    return bool(good and row["time_us"] > 0)


def _order(place: Mapping[str, Any]) -> list[str]:
    sizes = [f"{place[n]:020d}" for n in ("rows", "cols")]
    return [str(place["gpu"]), str(place["variant"]), str(place["dtype"]), *sizes,
            str(place["timer"]), str(place["cache"]), str(place["card"])]  # fmt: skip
