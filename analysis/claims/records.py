"""Checks of what a variant moves, what a call costs the host, how points ended, and agreement."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import pandas as pd
from pydantic import model_validator

from analysis.claims.points import (
    POINT,
    Context,
    Finding,
    exact,
    exact_points,
    listed,
    many,
    middle,
    missing,
    one,
    own_labels,
    plain,
    taken,
)
from analysis.claims.scope import PLACE, Formula, Name, Strict, Variant, Where, command
from analysis.claims.verdict import REFUTED, SUPPORTED, Band
from analysis.estimate import Estimate
from analysis.formula import elements
from analysis.load import kernel_name, records_hash
from experiments.data.records import HOSTCOST, Count, Counters
from experiments.data.rows import ITEM_BYTES, Status

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
HOST_COMMAND = "python -m experiments.hostcost"
LEAST_NORMAL = 2.0**-126  # of float32: smaller values are compared as if they were this large


class Traffic(Strict):
    """Traffic over a ``formula``'s, or ``relative_to`` another variant's, at each point.

    ``by: counts`` are the elements requested, counted by executing the variant's code and the same
    for every machine, of PyTorch's operations nominally (`Count.nominal`); ``by: counters`` the
    bytes that a card's counters saw at DRAM.
    """

    by: Literal["counts", "counters"]
    variant: Name
    kind: Literal["reads", "writes", "total"] = "total"
    formula: Formula | None = None
    relative_to: Name | None = None
    where: Where = Where()

    @model_validator(mode="after")
    def _sound(self) -> Traffic:
        if (self.formula is None) == (self.relative_to is None):
            raise ValueError("give one of formula and relative_to")
        return self

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        recorded = self._recorded(context)
        variants = [variant for variant in (self.variant, self.relative_to) if variant]
        mine, *other = (v.of(recorded).drop_duplicates(PLACE, keep="last") for v in variants)
        if self.formula is None:
            pairs = mine.merge(other[0][[*PLACE, "moved"]], on=PLACE, suffixes=("", "_other"))
        else:
            pairs = mine.assign(moved_other=[*map(self._of_formula, *mine[PLACE].to_numpy().T)])
        pairs = pairs[pairs["moved_other"] != 0].sort_values(PLACE)
        if pairs.empty:
            named = " and ".join(map(str, variants if self.by == "counts" else variants[:1]))
            needs = "make counts" if self.by == "counts" else command(variants, self.where, self.by)
            return missing(f"needs {self.by} of {named} at {self.where}", needs)
        used = recorded.loc[pd.concat([mine, *other]).index.unique().sort_values(), "record"]
        nominal = [kernel_name(r.kernel) for r in used if isinstance(r, Count) and r.nominal]
        notes = dict.fromkeys(f"{name} nominally" for name in nominal)
        notes |= dict.fromkeys(d for r in used if (d := getattr(r, "difference", None)))
        text = "; ".join([f"{self.by} {records_hash(used)} ({len(used)})", *notes])
        points = pairs.assign(value=pairs["moved"] / pairs["moved_other"])
        return taken(exact_points(points), "each", band, text)

    def _recorded(self, context: Context) -> pd.DataFrame:
        records: list[Any] = [c for c in context.records.counters if c.gpu == context.gpu]
        if self.by == "counts":  # one operation's count is taken from the model
            counts = context.records.counts
            records = [c for c in counts if c.method != "none" and c.reason is None]
        lines = [
            (kernel_name(r.kernel), r.params, r.rows, r.cols, r.dtype, self._moved(r), r)
            for r in records
        ]
        columns = ["kernel", "params", *PLACE, "moved", "record"]
        return self.where.of(pd.DataFrame(lines, columns=columns))

    def _moved(self, record: Count | Counters) -> int:
        """Elements requested, or bytes at DRAM."""
        if isinstance(record, Counters):
            reads, writes = record.dram_read_bytes, record.dram_write_bytes
        else:
            reads = sum(tensor.loads for tensor in record.tensors)
            writes = sum(tensor.stores for tensor in record.tensors)
        return {"reads": reads, "writes": writes, "total": reads + writes}[self.kind]

    def _of_formula(self, rows: int, cols: int, dtype: str) -> int:
        size = elements(str(self.formula), rows, cols)
        return size if self.by == "counts" else size * ITEM_BYTES[dtype]


class Host(Strict):
    """What a call of ``layer`` costs the host, over PyTorch's beside it or over another ``layer``.

    A ratio's interval is that of the batches where it was recorded, else that of both layers' µs.
    """

    layer: str
    over: str | None = None

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        found = [one for one in context.records.hosts if one.gpu == context.gpu]
        layers = {one.layer: one for one in found[-1].layers} if found else {}
        if missed := [name for name in (self.layer, self.over) if name and name not in layers]:
            return missing(f"needs the host's cost of {' and '.join(missed)}", HOST_COMMAND)
        mine = layers[self.layer]
        other = layers[self.over or mine.base]
        if self.over or mine.ratio_low is None or mine.ratio_high is None:
            ratio = Estimate(
                mine.host_us / other.host_us if self.over else mine.ratio,
                mine.host_low_us / other.host_high_us,
                mine.host_high_us / other.host_low_us,
            )
        else:
            ratio = Estimate(mine.ratio, mine.ratio_low, mine.ratio_high)
        note = f"{plain(mine.host_us)} over {plain(other.host_us)} µs"
        return one(ratio, band, f"{HOSTCOST} {records_hash(found[-1:])}", note)


class Outcome(Strict):
    """How a variant's points ended: every one with a status ``among`` these.

    ``reason`` is a text that every reason has to hold. Rows of Triton's interpreter count too, and
    those of points that the variant itself refused, unless the claim is about a card's limits:
    ``launched: true`` leaves what no card decided.
    """

    variant: Name
    among: tuple[Status, ...]
    reason: str = ""
    launched: bool = False
    where: Where = Where()

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        rows = context.rows_of(self.variant, self.where)
        if self.launched:
            rows = rows[(rows["backend"] != "interpreter") & (rows["status"] != "unsupported")]
        if rows.empty:
            decided = " that a card decided" if self.launched else ""
            what = f"needs rows of {self.variant} at {self.where}{decided}"
            return missing(what, command([self.variant], self.where))
        good = rows["status"].isin(self.among)
        good &= rows["reason"].fillna("").str.contains(self.reason, regex=False)
        tally = sorted(Counter(rows["status"]).items())
        ends = dict.fromkeys([int(rows["cols"].min()), int(rows["cols"].max())])
        text = (
            f"{listed([f'{count} {status}' for status, count in tally])} of "
            f"{many(len(rows), 'point')}, N = {' to '.join(map(str, ends))}"
        )
        reasons = (rows if good.all() else rows[~good])["reason"].dropna()
        return Finding(
            SUPPORTED if good.all() else REFUTED, text, text, exact(float(good.mean())),
            many(len(rows), "row"), tuple(map(int, rows.index)),
            str(reasons.iloc[0]) if len(reasons) else "",
        )  # fmt: skip


class Agreement(Strict):
    """How far two variants' answers are apart.

    ``by: rows`` is their distance at each point in units of the dtype's epsilon, from ‖y − ref‖ /
    ‖ref‖ of each against float64: at least the difference of the two errors and at most the sum.
    Rows of Triton's interpreter count too. ``by: traces`` is the largest relative difference of
    what the two stored for the same traced input, the same for every machine.
    """

    variants: tuple[Name, Name]
    by: Literal["rows", "traces"] = "rows"
    where: Where = Where()

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        return self._traced(context, band) if self.by == "traces" else self._of_rows(context, band)

    def _of_rows(self, context: Context, band: Band) -> Finding:
        place = ["sweep", "card", "round", *PLACE]
        sides = []
        for variant in self.variants:
            rows = context.rows_of(variant, self.where)
            errors = rows["relative_error"] / rows["dtype"].map(EPSILON).astype(float)
            side = rows[place].assign(error=errors, labels=own_labels(rows))
            sides.append(side[errors.notna()])
        both = sides[0].merge(sides[1], on=place, suffixes=("", "_other"))
        if both.empty:
            what = f"needs answers of {' and '.join(map(str, self.variants))} at {self.where}"
            return missing(what, command(self.variants, self.where))
        points = both.assign(
            value=both["error"] + both["error_other"],
            low=(both["error"] - both["error_other"]).abs(),
            high=both["error"] + both["error_other"],
            labels=both["labels"] + both["labels_other"],
        )
        return taken(middle(points[POINT]), "each", band)

    def _traced(self, context: Context, band: Band) -> Finding:
        first, second = (_stored(context, variant) for variant in self.variants)
        both = first.merge(second, on=list(first.columns[:-1]), suffixes=("", "_other"))
        if both.empty:
            names = " and ".join(map(str, self.variants))
            return missing(f"needs traces of {names}", "make counts")
        size = both["value_other"].abs().clip(lower=LEAST_NORMAL)
        worst = float(((both["value"] - both["value_other"]).abs() / size).max())
        return one(exact(worst), band, f"{len(both)} traced values")


def _stored(context: Context, variant: Variant) -> pd.DataFrame:
    """What traced calls of a variant stored, by shape, dtype, tile, input, row and column."""
    lines = [
        (trace.rows, trace.cols, trace.dtype, str(trace.params.get("block_size")),
         str(trace.input), access.row, column, float(value))
        for trace in context.records.traces
        if kernel_name(trace.kernel) == variant.name
        for access in trace.accesses
        if access.kind == "store" and access.tensor == "y"
        for column, value in enumerate(access.values or (), start=access.first)
    ]  # fmt: skip
    columns = [*PLACE, "tile", "input", "row", "column", "value"]
    return pd.DataFrame(lines, columns=columns).drop_duplicates(columns[:-1], keep="last")
