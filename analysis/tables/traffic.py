"""The traffic of each kernel three ways: by its model, as counted, and by hardware counters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from analysis.figures.style import variant_order
from analysis.load import Inputs, kernel_name
from analysis.tables.frames import Named, table, texts
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES

AGREES = 0.01  # of the model, or of one M×N matrix; more than counters vary by
KINDS = ("reads", "writes")
SEEN = {  # no counter tells L2's writes apart
    "L2 reads": "l2_to_sm_bytes",
    "DRAM reads": "dram_read_bytes",
    "DRAM writes": "dram_write_bytes",
}
Moved = dict[str, tuple[float, int, str]]  # by way: the bytes, those of a matrix, and the verdict


def traffic(inputs: Inputs) -> Named:
    """A line per variant and shape that counters saw, with the count of the case nearest to it.

    A variant that no counter saw stands at its largest counted shape in each dtype.
    """
    kernels = set(inputs.frame["kernel"])

    def known(records: Iterable[Any]) -> list[Any]:
        return [one for one in records if kernel_name(one.kernel) in kernels and _matrix(one)]

    counts: dict[tuple[str, str], list[Count]] = defaultdict(list)
    for count in sorted(known(inputs.records.counts), key=_matrix, reverse=True):
        counts[count.kernel, count.dtype].append(count)
    seen = known(inputs.records.counters)
    measured = {(one.kernel, one.dtype) for one in seen}
    seen += [found[0] for at, found in counts.items() if at not in measured]
    cells, data = [], []
    for one in sorted(seen, key=_order):
        place = {"variant": one.kernel, "M×N": f"{one.rows}×{one.cols}", "dtype": one.dtype}
        place["GPU"] = getattr(one, "gpu", "any")
        moved = _moved(one, counts.get((one.kernel, one.dtype), []))
        cells.append(place | {name: _cell(*found) for name, found in moved.items()})
        data.append(place | {f"{name}, bytes": size for name, (size, _, _) in moved.items()})
    columns = [*(f"{way} {kind}" for way in ("modelled", "counted") for kind in KINDS), *SEEN]
    shown = pd.DataFrame(cells, columns=["variant", "M×N", "dtype", "GPU", *columns]).fillna("")
    title = "Traffic: modelled, counted, measured"
    yield "traffic", table(title, shown, texts("traffic"), pd.DataFrame(data))


def _order(record: Count | Counters) -> tuple[Any, ...]:
    """Those of a GPU first, then by dtype and size, the largest first."""
    gpu, size = getattr(record, "gpu", ""), record.rows * record.cols
    order = variant_order(record.kernel.replace(",", " "))
    return (not gpu, gpu, record.dtype, -size, record.cols, order)


def _moved(record: Count | Counters, counts: Sequence[Count]) -> Moved:
    """What a kernel moves by its model, by the nearest count of it, and as counters saw it."""
    matrix = _matrix(record)
    moved: Moved = {f"modelled {kind}": (_model(record, kind), matrix, "") for kind in KINDS}

    def passes(one: Count | Counters) -> float:
        return (one.model_reads + one.model_writes) / (one.rows * one.cols)

    # the same case, one pass or three, is the one whose model is nearest in passes
    apart = [round(abs(passes(one) - passes(record)), 1) for one in counts]
    for kind in KINDS if counts else ():
        moved[f"counted {kind}"] = _counted(counts[apart.index(min(apart))], kind)
    for name, column in SEEN.items():
        if (size := getattr(record, column, None)) is not None:
            model = _model(record, name.split()[1])
            near = abs(size - model) <= AGREES * max(model, matrix)
            moved[name] = size, matrix, "agrees" if near else f"{size / max(model, 1) - 1:+.0%}"
    return moved


def _counted(count: Count, kind: str) -> tuple[float, int, str]:
    """The bytes requested: exact, nominal, or how they differ in the record's own words."""
    if count.method == "none":
        return math.nan, 1, (count.reason or "not countable").split(":")[0]
    size = sum(t.load_bytes if kind == "reads" else t.store_bytes for t in count.tensors)
    differs = [one for one in (count.difference or "").split("; ") if one.startswith(kind)]
    return size, _matrix(count), [*differs, "nominal" if count.nominal else "exact"][0]


def _cell(size: float, matrix: int, verdict: str) -> str:
    return ", ".join(filter(None, ["" if math.isnan(size) else f"{size / matrix:.3f}", verdict]))


def _matrix(record: Count | Counters) -> int:
    return record.rows * record.cols * ITEM_BYTES[record.dtype]


def _model(record: Count | Counters, kind: str) -> int:
    own = getattr(record, f"model_{kind[:-1]}_bytes", None)  # of counts whose dtypes differ
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype] if own is None else int(own)
