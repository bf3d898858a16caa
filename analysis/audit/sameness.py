"""Rule: a kernel said to move as much as another does so by the formulas printed of both."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.finding import Finding
from analysis.audit.formulas import text, total
from analysis.audit.known import Known
from analysis.formula import equal
from analysis.statements.moved import TrafficStatement


def same_as(known: Known) -> Iterator[Finding]:
    """Against each formula of the same text: of the other kernel, and of the kernel itself.

    Of the other, all that both print is compared. Of itself, the total is compared with the other
    kernel's total, which the statement says it is.
    """
    for letter, source in known.sources.items():
        for told in source.statements.traffic:
            for other, place in known.sources.items():
                if told.same_as is None or not known.same_text(letter, other):
                    continue
                for there in place.statements.traffic:
                    if there.kernel == told.same_as:
                        yield _against(letter, told, there)
                    elif there.kernel == told.kernel and there.total and there != told:
                        yield from _itself(known, letter, told, there)


def _against(letter: str, told: TrafficStatement, there: TrafficStatement) -> Finding:
    mine, theirs = _printed(told), _printed(there)
    both = [what for what in mine if what in theirs]
    agrees = all(equal(mine[what], theirs[what]) for what in both)
    return Finding(
        letter,
        f"{told.at} against {there.at} {there.kernel}",
        "consistent" if agrees else "self-contradictory",
        f"{told.kernel}: {_shown(mine, both)}, same as {told.same_as}",
        f"{there.kernel}: {_shown(theirs, both)}",
        f"{told.at} has {_shown(mine, both)} and calls it the same as {told.same_as}, of which "
        f"{there.at} has {_shown(theirs, both)}.",
    )


def _itself(
    known: Known, letter: str, told: TrafficStatement, there: TrafficStatement
) -> Iterator[Finding]:
    model = known.model(str(told.same_as)).formula
    agrees = equal(str(there.total), model)
    yield Finding(
        letter,
        f"{told.at} against {there.at}",
        "consistent" if agrees else "self-contradictory",
        f"{told.kernel} moves the same as {told.same_as}",
        f"{there.total} against {model}",
        f"{there.at} has {there.total} for {told.kernel}, and {told.same_as} moves {model}.",
    )


def _printed(told: TrafficStatement) -> dict[str, str]:
    found = {"reads": told.reads, "writes": told.writes, "total": told.total}
    known = {what: formula for what, formula in found.items() if formula}
    if told.reads and told.writes:
        known["total"] = text(total(told.reads, told.writes))
    return known


def _shown(formulas: dict[str, str], names: list[str]) -> str:
    return ", ".join(f"{what} {formulas[what]}" for what in names)
