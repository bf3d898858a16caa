"""Whether a point measured again is the point that was recorded, and if not, what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.data.rows import Row, read_rows
from experiments.sweep.folder import read_json
from experiments.sweep.points import LIBRARIES
from experiments.sweep.recorded import Recorded

UNTOLD = "something that rows of that age do not tell"


def account(recorded: Recorded, out: Path) -> tuple[int, Counter[str]]:
    """How many points were measured again as they were, and by reason how many were not."""
    reasons = Counter(recorded.left)
    same = 0
    for old, new in _both(recorded, out):
        if new is None:
            reasons["it was not measured"] += 1
        elif new.key == old.key:
            same += 1
        else:
            reasons["; ".join(differences(old, new)) or UNTOLD] += 1
    return same, reasons


def differences(old: Row, new: Row) -> list[str]:
    """What decides a row's key and differs, a few words each."""
    was, now = old.environment, new.environment
    told = [f"GPU {old.gpu} → {new.gpu}"] if old.gpu != new.gpu else []
    before, after = _libraries(was), _libraries(now)
    told += [
        f"{name} {before.get(name)} → {after.get(name)}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]
    if _given(was, now, "source") or _given(was, now, "target"):
        told.append(f"source of {old.kernel} changed")
    told += [f"{name} differs" for name in ("protocol", "seed") if _given(was, now, name)]
    return told + (["tunables differ"] if old.params != new.params else [])


def _libraries(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {n: environment.get(n) for n in LIBRARIES} | (environment.get("packages") or {})


def _given(was: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    return name in was and name in now and bool(was[name] != now[name])


def _both(recorded: Recorded, out: Path) -> Iterator[tuple[Row, Row | None]]:
    sources = [_sources(recorded.root), _sources(out)]
    for job in recorded.jobs:
        path = out / job.name / "rows.jsonl"
        found = read_rows(path) if path.exists() else iter(())
        again = {(r.rows, r.cols, r.dtype, r.round): r for r in found}
        known = [told.get(job.label) for told in sources]
        for place, old in recorded.rows[job.name].items():
            new = again.get(place)
            yield _sourced(old, known[0]), None if new is None else _sourced(new, known[1])


def _sourced(row: Row, source: str | None) -> Row:
    """With the source's hash in its environment, where an older row lacks it."""
    if source is None or "source" in row.environment:
        return row
    return row.model_copy(update={"environment": {**row.environment, "source": source}})


def _sources(folder: Path) -> dict[str, str]:
    told = read_json(folder / "variants.json")
    return {
        label: str(v["source"])
        for label, v in told.items()
        if isinstance(v, dict) and "source" in v
    }
