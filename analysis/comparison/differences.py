"""What differs between two sets of rows besides their times: versions, sources, points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.comparison.pairs import Pair
from analysis.load import kernel_name
from experiments.data.files import RowsError
from experiments.data.jobs import Declaration

SHORT = 12  # letters of a version or hash
UNSET = "unknown"


def check_gpus(base: pd.DataFrame, head: pd.DataFrame, across: bool) -> None:
    """Refuses what cannot be compared.

    Raises:
        RowsError: in one line, why.
    """
    was, now = (sorted(set(frame["gpu"])) for frame in (base, head))
    if across and (len(was), len(now)) != (1, 1):
        raise RowsError(
            f"--across-gpus compares one GPU model with one; BASE has {', '.join(was)}, "
            f"HEAD {', '.join(now)}"
        )
    if not across and not set(was) & set(now):
        raise RowsError(
            f"BASE was measured on {', '.join(was)}, HEAD on {', '.join(now)}: times of different "
            "GPU models tell nothing of the code; --across-gpus compares them all the same"
        )


def differences(
    base: tuple[pd.DataFrame, Mapping[str, Declaration]],
    head: tuple[pd.DataFrame, Mapping[str, Declaration]],
    pairs: Sequence[Pair],
) -> list[str]:
    """Sentences on what else differs, most telling first; none where nothing does."""
    told = _environments(base[0], head[0])
    shared = base[1].keys() & head[1].keys()
    edited = sorted({kernel_name(k) for k in shared if base[1][k].source != head[1][k].source})
    if edited:
        told.append(f"source differs: {', '.join(edited)}")
    both = [p for p in pairs if p.base and p.head]
    other = [p for p in both if p.base and p.head and _keys(p.base.rows) != _keys(p.head.rows)]
    if other and not told:
        told.append(
            f"{len(other):,} of {len(both):,} points have other keys: source, seed, or how long "
            "was sampled differ"
        )
    return told


def only(pairs: Sequence[Pair], side: str) -> list[Pair]:
    """The points that only ``"base"`` or only ``"head"`` has."""
    other = "head" if side == "base" else "base"
    return [pair for pair in pairs if getattr(pair, other) is None]


def _keys(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row["key"] for row in rows}


def _environments(base: pd.DataFrame, head: pd.DataFrame) -> list[str]:
    was, now = (_versions(frame) for frame in (base, head))
    names = [*was, *(name for name in now if name not in was)]
    return [
        f"{name} {was.get(name, UNSET)} → {now.get(name, UNSET)}"
        for name in names
        if was.get(name) != now.get(name)
    ]


def _versions(frame: pd.DataFrame) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for facts in frame["environment"]:
        for name, value in facts.items():
            text = str(value)[: SHORT if name == "commit" else None]
            if text not in found.setdefault(name, []):
                found[name].append(text)
    return {name: "/".join(sorted(values)) for name, values in found.items()}
