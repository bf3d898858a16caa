"""What a variant moves: as counted by executing it, and as counters saw it at DRAM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, model_validator

from analysis.claims import points as verdicts
from analysis.claims.band import Band, exactly
from analysis.claims.bench import Bench, Seen, command, missing
from analysis.claims.expect import Strict
from analysis.claims.pool import Place, Point
from analysis.claims.variant import Name, Variant, parse
from analysis.claims.where import Where
from analysis.formula import elements, expression
from analysis.load import kernel_name, records_hash
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES

R = TypeVar("R", Count, Counters)


def _formula(text: str) -> str:
    expression(text)
    return text


Formula = Annotated[str, AfterValidator(_formula)]


class _Traffic(Strict):
    """Traffic over a ``formula``'s, or ``relative_to`` another variant's, at each point."""

    variant: Name
    kind: Literal["reads", "writes", "total"] = "total"
    formula: Formula | None = None
    relative_to: Name | None = None
    where: Where = Where()

    @model_validator(mode="after")
    def _sound(self) -> _Traffic:
        if (self.formula is None) == (self.relative_to is None):
            raise ValueError("give one of formula and relative_to")
        return self

    def _kinds(self) -> tuple[str, ...]:
        return ("reads", "writes") if self.kind == "total" else (self.kind,)


class Counted(_Traffic):
    """Elements requested, counted by executing the variant's code."""

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict, the same for every machine."""
        # what is nominal was taken from the model, not seen
        seen = [c for c in bench.evidence.counts if c.method != "none" and c.reason is None]
        sizes = _sizes(self, seen, self.variant, _requested)
        others = _sizes(self, seen, self.relative_to, _requested) if self.relative_to else None
        points = _ratios(self, sizes, others, bytes_each=False)
        if not points:
            names = " and ".join(filter(None, (self.variant, self.relative_to)))
            return missing(f"needs counts of {names} at {self.where}", "make counts")
        used = _used(self, seen)
        told = dict.fromkeys(c.difference for c in used if c.difference)
        evidence = "; ".join([f"counts {records_hash(used)} ({len(used)})", *told])
        return verdicts.each(points, band, evidence)


class Moved(_Traffic):
    """Bytes that a card's counters saw at DRAM."""

    def judge(self, bench: Bench, band: Band) -> Seen:
        """The verdict on one GPU."""
        seen = [c for c in bench.evidence.counters if c.gpu == bench.gpu]
        sizes = _sizes(self, seen, self.variant, _at_dram)
        others = _sizes(self, seen, self.relative_to, _at_dram) if self.relative_to else None
        points = _ratios(self, sizes, others, bytes_each=True)
        if not points:
            both = [parse(name) for name in (self.variant, self.relative_to) if name]
            needs = command(both, self.where, "counters")
            return missing(f"needs counters of {self.variant} at {self.where}", needs)
        used = _used(self, seen)
        return verdicts.each(points, band, f"counters {records_hash(used)} ({len(used)})")


def _sizes(
    told: _Traffic, records: Iterable[R], name: str, size: Callable[[R, str], int]
) -> dict[Place, int]:
    variant = parse(name)
    return {
        (r.rows, r.cols, r.dtype): sum(size(r, kind) for kind in told._kinds())
        for r in records
        if _is_of(r, variant) and told.where.has(r.rows, r.cols, r.dtype)
    }


def _used(told: _Traffic, records: Iterable[R]) -> list[R]:
    variants = [parse(name) for name in (told.variant, told.relative_to) if name]
    here = [r for r in records if told.where.has(r.rows, r.cols, r.dtype)]
    return [r for r in here if any(_is_of(r, variant) for variant in variants)]


def _ratios(
    told: _Traffic, sizes: dict[Place, int], others: dict[Place, int] | None, bytes_each: bool
) -> list[Point]:
    if others is None:
        assert told.formula is not None
        others = {
            (m, n, dtype): elements(told.formula, m, n) * (ITEM_BYTES[dtype] if bytes_each else 1)
            for m, n, dtype in sizes
        }
    return [Point(p, exactly(sizes[p] / others[p])) for p in sorted(sizes) if others.get(p)]


def _is_of(record: Count | Counters, variant: Variant) -> bool:
    return variant.is_of(kernel_name(record.kernel), record.params)


def _requested(count: Count, kind: str) -> int:
    return sum(t.loads if kind == "reads" else t.stores for t in count.tensors)


def _at_dram(counters: Counters, kind: str) -> int:
    return counters.dram_read_bytes if kind == "reads" else counters.dram_write_bytes
