"""Checks of what a variant moves, how its points ended, and whether two variants agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, get_args

from pydantic import field_validator, model_validator

from analysis.claims.points import (
    Context,
    Finding,
    exact_points,
    listed,
    many,
    middle,
    missing,
    one,
    own_labels,
    taken,
)
from analysis.claims.scope import (
    PLACE,
    Formula,
    Name,
    Place,
    Strict,
    Variant,
    Where,
    command,
)
from analysis.claims.verdict import REFUTED, SUPPORTED, Band
from analysis.estimate import Estimate
from analysis.formula import elements
from analysis.load import kernel_name, records_hash
from experiments.data.records import Count, Counters, Trace
from experiments.data.rows import ITEM_BYTES, Status

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LEAST_NORMAL = 2.0**-126  # of float32: smaller values are compared as if they were this large


class Traffic(Strict):
    """Traffic over a ``formula``'s, or ``relative_to`` another variant's, at each point.

    ``by: counts`` are the elements requested, counted by executing the variant's code and the same
    for every machine; ``by: counters`` the bytes that a card's counters saw at DRAM.
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
        variants = [self.variant, *([self.relative_to] if self.relative_to else [])]
        used = [r for r in self._recorded(context) if any(_is_of(r, v) for v in variants)]
        sizes = self._sizes(used, self.variant)
        if self.relative_to:
            others = self._sizes(used, self.relative_to)
        else:
            others = {place: self._of_formula(*place) for place in sizes}
        pairs = [(p, sizes[p] / others[p]) for p in sorted(sizes) if others.get(p)]
        if not pairs:
            named = " and ".join(map(str, variants if self.by == "counts" else variants[:1]))
            needs = "make counts" if self.by == "counts" else command(variants, self.where, self.by)
            return missing(f"needs {self.by} of {named} at {self.where}", needs)
        notes = dict.fromkeys(d for r in used if (d := getattr(r, "difference", None)))
        text = "; ".join([f"{self.by} {records_hash(used)} ({len(used)})", *notes])
        return taken(exact_points(pairs), "each", band, text)

    def _recorded(self, context: Context) -> list[Count | Counters]:
        records: list[Count | Counters] = [
            # what is nominal was taken from the model, not counted
            *(c for c in context.records.counts if c.method != "none" and c.reason is None)
        ] if self.by == "counts" else [
            *(c for c in context.records.counters if c.gpu == context.gpu)
        ]  # fmt: skip
        return [r for r in records if self.where.has(r.rows, r.cols, r.dtype)]

    def _sizes(self, records: Iterable[Count | Counters], variant: Variant) -> dict[Place, int]:
        kinds = ("reads", "writes") if self.kind == "total" else (self.kind,)
        return {
            (r.rows, r.cols, r.dtype): sum(_moved(r, kind) for kind in kinds)
            for r in records
            if _is_of(r, variant)
        }

    def _of_formula(self, rows: int, cols: int, dtype: str) -> int:
        assert self.formula is not None
        size = elements(self.formula, rows, cols)
        return size if self.by == "counts" else size * ITEM_BYTES[dtype]


def _is_of(record: Count | Counters, variant: Variant) -> bool:
    return variant.is_of(kernel_name(record.kernel), record.params)


def _moved(record: Count | Counters, kind: str) -> int:
    """Elements requested, or bytes at DRAM."""
    if isinstance(record, Counters):
        return record.dram_read_bytes if kind == "reads" else record.dram_write_bytes
    return sum(t.loads if kind == "reads" else t.stores for t in record.tensors)


class Outcome(Strict):
    """How a variant's points ended: every one with a status ``among`` these.

    ``reason`` is a text that every reason has to hold. Rows of Triton's interpreter count too,
    unless the claim is about a card's limits, which it does not have: ``interpreted: false``.
    """

    variant: Name
    among: tuple[str, ...]
    reason: str | None = None
    interpreted: bool = True
    where: Where = Where()

    @field_validator("among")
    @classmethod
    def _known_statuses(cls, among: tuple[str, ...]) -> tuple[str, ...]:
        for status in among:
            if status not in get_args(Status):
                known = ", ".join(get_args(Status))
                raise ValueError(f"no status {status!r}; known are {known}")
        return among

    def judge(self, context: Context, band: Band) -> Finding:
        """The verdict on one GPU."""
        rows = context.rows_of(self.variant, self.where)
        if not self.interpreted:
            rows = rows[rows["backend"] != "interpreter"]
        if rows.empty:
            what = f"needs rows of {self.variant} at {self.where}"
            return missing(what, command([self.variant], self.where))
        good = rows["status"].isin(self.among)
        if self.reason is not None:
            good &= rows["reason"].fillna("").str.contains(self.reason, regex=False)
        share = float(good.mean())
        tally = Counter(rows["status"])
        ends = dict.fromkeys([int(rows["cols"].min()), int(rows["cols"].max())])
        text = (
            f"{listed([f'{tally[name]} {name}' for name in sorted(tally)])} of "
            f"{many(len(rows), 'point')}, N = {' to '.join(map(str, ends))}"
        )
        deciding = rows if good.all() else rows[~good]
        reasons = deciding["reason"].dropna()
        return Finding(
            SUPPORTED if good.all() else REFUTED, text, text, Estimate(share, share, share),
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
            rows = rows[rows["relative_error"].notna() & rows["dtype"].isin(list(EPSILON))]
            sides.append(rows[[*place, "relative_error"]].assign(labels=own_labels(rows)))
        both = sides[0].merge(sides[1], on=place, suffixes=("", " of other"))
        if both.empty:
            what = f"needs answers of {' and '.join(map(str, self.variants))} at {self.where}"
            return missing(what, command(self.variants, self.where))
        one_error, other = both["relative_error"], both["relative_error of other"]
        epsilon = both["dtype"].map(EPSILON)
        farthest = (one_error + other) / epsilon
        points = both[PLACE].assign(
            value=farthest,
            low=(one_error - other).abs() / epsilon,
            high=farthest,
            labels=both["labels"] + both["labels of other"],
        )
        return taken(middle(points), "each", band)

    def _traced(self, context: Context, band: Band) -> Finding:
        first, second = (
            {_case(t): t for t in context.records.traces if kernel_name(t.kernel) == variant.name}
            for variant in self.variants
        )
        worst, values = 0.0, 0
        for case in sorted(first.keys() & second.keys(), key=str):
            mine, other = stored(first[case]), stored(second[case])
            for place in mine.keys() & other.keys():
                values += 1
                size = max(abs(other[place]), LEAST_NORMAL)
                worst = max(worst, abs(mine[place] - other[place]) / size)
        if not values:
            names = " and ".join(map(str, self.variants))
            return missing(f"needs traces of {names}", "make counts")
        return one(Estimate(worst, worst, worst), band, f"{values} traced values")


def _case(trace: Trace) -> tuple[int, int, str, str, str]:
    """What a traced call was given: shape, dtype, tile and input."""
    tile, given = str(trace.params.get("block_size")), str(trace.input)
    return trace.rows, trace.cols, trace.dtype, tile, given


def stored(trace: Trace) -> dict[Any, float]:
    """What the call stored by row and column; without values, each row's last statistics."""
    values: dict[Any, float] = {}
    for access in trace.accesses:
        if access.kind == "store" and access.tensor == "y" and access.values is not None:
            columns = range(access.first, access.last + 1)
            pairs = zip(columns, access.values, strict=True)
            values |= {(access.row, column): float(value) for column, value in pairs}
    if values:
        return values
    return {
        (access.row, name): float(value)
        for access in trace.accesses
        for name in ("maximum", "total")
        if (value := getattr(access, name)) is not None
    }
