"""The traffic of each kernel three ways: by its model, as counted, and by hardware counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.figures.style import variant_order
from analysis.load import Inputs, kernel_name
from analysis.tables.frames import Named, table, texts
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES

AGREES = 0.01  # of the model, or of one M×N matrix; more than counters vary by
KINDS = ("reads", "writes")
SEEN = ("L2 reads", "DRAM reads", "DRAM writes")  # no counter tells L2's writes apart
Moved = dict[str, tuple[float, str]]  # by level and kind: the bytes, and the verdict or the reason


def traffic(inputs: Inputs) -> Named:
    """A line per variant and shape that counters saw, with the count of the case nearest to it.

    A variant that no counter saw stands at its largest counted shape in each dtype.
    """
    kernels, counts = set(inputs.frame["kernel"]), inputs.records.counts
    counted: dict[tuple[str, str], list[Count]] = {}
    for known in sorted(filter(_matrix, counts), key=_matrix, reverse=True):
        counted.setdefault((known.kernel, known.dtype), []).append(known)
    places: list[Count | Counters] = [one for one in inputs.records.counters if _matrix(one)]
    seen = {(one.kernel, one.dtype) for one in places}
    places += [found[0] for at, found in counted.items() if at not in seen]
    cells, data = [], []
    for one in sorted(places, key=_order):
        if kernel_name(one.kernel) not in kernels:
            continue
        moved: Moved = {f"modelled {kind}": (_model_bytes(one, kind), "") for kind in KINDS}
        units: dict[str, int] = {}  # of an M×N matrix, where counted at another shape
        if (count := _nearest(one, counted.get((one.kernel, one.dtype), []))) is not None:
            moved |= _counted(count)
            units = dict.fromkeys(_counted(count), _matrix(count))
        moved |= _measured(one) if isinstance(one, Counters) else {}
        place = {"variant": one.kernel, "M×N": f"{one.rows}×{one.cols}", "dtype": one.dtype}
        place["GPU"] = getattr(one, "gpu", "any")
        shown = {
            name: _cell(size / units.get(name, _matrix(one)), verdict)
            for name, (size, verdict) in moved.items()
        }
        cells.append(place | shown)
        data.append(place | {f"{name}, bytes": size for name, (size, _) in moved.items()})
    frame = pd.DataFrame(cells).fillna("")
    columns = [*(f"{way} {kind}" for way in ("modelled", "counted") for kind in KINDS), *SEEN]
    lines = frame.reindex(columns=["variant", "M×N", "dtype", "GPU", *columns], fill_value="")
    title = "Traffic: modelled, counted, measured"
    yield "traffic", table(title, lines, texts("traffic"), pd.DataFrame(data))


def _order(record: Count | Counters) -> tuple[Any, ...]:
    """Those of a GPU first, then by dtype and size, the largest first."""
    gpu, size = getattr(record, "gpu", ""), record.rows * record.cols
    order = variant_order(record.kernel.replace(",", " "))
    return (not gpu, gpu, record.dtype, -size, record.cols, order)


def _cell(units: float, verdict: str) -> str:
    return ", ".join(filter(None, ["" if math.isnan(units) else f"{units:.3f}", verdict]))


def _matrix(record: Count | Counters) -> int:
    return record.rows * record.cols * ITEM_BYTES[record.dtype]


def _nearest(record: Count | Counters, counts: Sequence[Count]) -> Count | None:
    """The count of the same case, one pass or three: its model is nearest in matrix passes."""

    def passes(one: Count | Counters) -> float:
        return (one.model_reads + one.model_writes) / (one.rows * one.cols)

    return min(counts, key=lambda one: round(abs(passes(one) - passes(record)), 1), default=None)


def _model_bytes(record: Count | Counters, kind: str) -> int:
    own = getattr(record, f"model_{kind[:-1]}_bytes", None)  # of counts whose dtypes differ
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype] if own is None else int(own)


def _counted(count: Count) -> Moved:
    """What the program requested: exact, nominal, or how it differs in the record's own words."""
    if count.method == "none":
        why = (count.reason or "not countable").split(":")[0]
        return {f"counted {kind}": (math.nan, why) for kind in KINDS}
    moved: Moved = {}
    for kind in KINDS:
        size = sum(t.load_bytes if kind == "reads" else t.store_bytes for t in count.tensors)
        differs = [one for one in (count.difference or "").split("; ") if one.startswith(kind)]
        verdict = differs[0] if differs else "nominal" if count.nominal else "exact"
        moved[f"counted {kind}"] = size, verdict
    return moved


def _measured(seen: Counters) -> Moved:
    """What the counters of L2 and DRAM saw, and by how much that is more than the model says."""
    moved: Moved = {}
    counted = (seen.l2_to_sm_bytes, seen.dram_read_bytes, seen.dram_write_bytes)
    for name, size in zip(SEEN, counted, strict=True):
        if size is not None:
            model = _model_bytes(seen, name.split()[1])
            near = abs(size - model) <= AGREES * max(model, _matrix(seen))
            moved[name] = size, "agrees" if near else f"{size / max(model, 1) - 1:+.0%}"
    return moved
