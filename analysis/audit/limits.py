"""Rules: shapes that are drawn or claimed must be ones that the kernel can run."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.finding import Finding
from analysis.audit.known import Known, itemsize
from analysis.audit.wording import numbers, widths
from analysis.statements.launched import Shape

KB = 1024


def on_chip(known: Known) -> Iterator[Finding]:
    """Points drawn for a kernel whose row, by the same text, is larger than what a chip holds."""
    for letter, source in known.sources.items():
        for limit in source.statements.on_chip:
            for other, series in known.drawn(letter, limit.kernel):
                size = itemsize(known.sources[other].dtype)
                beyond = [n for n in series.sizes if n * size > limit.high_kb * KB]
                told = beyond or [max(series.sizes)]
                where = f", {widths(beyond, series.sizes)}" if beyond else ""
                yield Finding(
                    other,
                    f"{series.figure} {limit.kernel} against {limit.at}{where}",
                    "self-contradictory" if beyond else "consistent",
                    f"times at N = {', '.join(f'{n:,}' for n in told)}",
                    f"rows of {numbers([n * size / KB for n in told])} KB",
                    f"By {limit.at} no row beyond {limit.low_kb} to {limit.high_kb} KB fits on "
                    f"chip, where {limit.kernel} holds it.",
                )


def offsets(known: Known) -> Iterator[Finding]:
    """Signed indices of the stated width reach every element of the shapes drawn or claimed."""
    for letter, source in known.sources.items():
        bits = source.statements.offset_bits
        for shape in source.statements.shapes:
            if bits is not None:
                yield _reach(letter, shape, bits)


def _reach(letter: str, shape: Shape, bits: int) -> Finding:
    reach = 2 ** (bits - 1)
    limited = shape.rows is not None and shape.cols is not None
    elements = (shape.rows or 0) * (shape.cols or 0)
    claimed = f"{shape.rows or 'any M'}×{shape.cols or 'any N'}"
    has = f"has {elements:,}" if limited else "has no bound"
    return Finding(
        letter,
        f"{shape.at}, {bits}-bit offsets",
        "consistent" if limited and elements <= reach else "wrong",
        claimed,
        f"at most {reach:,} elements",
        f"Signed {bits}-bit offsets end at {reach:,} elements, and {claimed} {has}.",
    )
