"""Rules: what kernels are said to move must add up, and be what their algorithm moves."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.audit.drawn import said
from analysis.audit.finding import Finding, Verdict
from analysis.audit.formulas import limit, text, total
from analysis.audit.known import Known
from analysis.formula import equal
from analysis.load import Declaration
from analysis.statements.moved import TrafficStatement


def parts(known: Known) -> Iterator[Finding]:
    """Reads and writes add up to the total, and calls to reads and writes."""
    for letter, source in known.sources.items():
        for told in source.statements.traffic:
            if told.reads and told.writes and told.total:
                subject = f"{told.at} {told.kernel}, reads + writes"
                summed = text(total(told.reads, told.writes))
                yield _sum(letter, subject, told.total, summed)
        for calls in source.statements.steps:
            for told in source.statements.traffic:
                if told.at != calls.at or told.kernel != calls.kernel:
                    continue
                for what, printed in (("reads", told.reads), ("writes", told.writes)):
                    if printed:
                        summed = text(total(*(getattr(step, what) for step in calls.steps)))
                        subject = f"{told.at} {told.kernel}, {what} of its {len(calls.steps)} calls"
                        yield _sum(letter, subject, printed, summed)


def against_models(known: Known) -> Iterator[Finding]:
    """Formulas are those of this project's variant, as recorded with its rows."""
    for letter, source in known.sources.items():
        for told in source.statements.traffic:
            model = known.model(told.kernel)
            held = ((told.reads, model.reads), (told.writes, model.writes))
            pairs = [(here, has) for here, has in (*held, (told.total, model.formula)) if here]
            agrees = told.unit == "elements" and all(equal(here, has) for here, has in pairs)
            printed = ", ".join(f"{here} {told.unit}" for here, _ in pairs)
            computed = ", ".join(f"{has} elements" for _, has in pairs)
            why = f"{model.kernel} reads {model.reads} and writes {model.writes} elements."
            if not agrees and told.total:
                why = f"{why[:-1]}{_as_ratio(known, letter, told)}."
            yield Finding(
                letter,
                f"{told.at} {told.kernel}, against its model",
                "consistent" if agrees else "wrong",
                printed,
                computed,
                why,
            )


def on_chip(known: Known) -> Iterator[Finding]:
    """A kernel's share on chip is of its variant's order; only an O(N) share ends at a width."""
    for letter, source in known.sources.items():
        for told in source.statements.traffic:
            if told.on_chip is None:
                continue
            order = _order(known.model(told.kernel))
            fits = told.any_width is None or told.any_width == (order != "O(N)")
            any_width = {None: "", True: ", any N", False: ", not any N"}
            held = known.model(told.kernel).on_chip
            yield Finding(
                letter,
                f"{told.at} {told.kernel}, on chip",
                "consistent" if told.on_chip == order and fits else "wrong",
                f"{told.on_chip}{any_width[told.any_width]}",
                f"{order}{any_width[order != 'O(N)']}",
                f"On chip it holds {held} element{'s' * (held != '1')} a row.",
            )


def index_writes(known: Known) -> Iterator[Finding]:
    """A library call writes all that its documentation returns, indices too."""
    for letter, source in known.sources.items():
        for calls in source.statements.steps:
            for step in calls.steps:
                fact = known.facts.index_bytes.get(step.call)
                if fact is None:
                    continue
                off = fact.value - step.index_bytes
                yield Finding(
                    letter,
                    f"{calls.at} {calls.kernel}, writes of {step.call}",
                    "wrong" if off else "consistent",
                    f"{step.writes} elements"
                    + f", {step.index_bytes}M bytes" * bool(step.index_bytes),
                    f"{step.writes} elements, {fact.value}M bytes of indices",
                    f"{off}M bytes are left out: {fact.source}." if off else f"{fact.source}.",
                )


def _sum(letter: str, subject: str, printed: str, summed: str) -> Finding:
    verdict: Verdict = "consistent" if equal(printed, summed) else "wrong"
    return Finding(letter, subject, verdict, printed, summed, f"The parts add up to {summed}.")


def _as_ratio(known: Known, letter: str, told: TrafficStatement) -> str:
    """What the printed total would make of the source's own ratios to other kernels."""
    assert told.total
    found = []
    for other, ratio, slower in known.ratios():
        if other != letter or ratio.kernel != told.kernel:
            continue
        formula = known.model(slower).formula
        times = limit(formula, told.total)
        if times > ratio.high:
            found.append(
                f"; {told.total} would make {slower}'s {formula} {times:g} times as much, where "
                f"{ratio.claim} has {said(ratio)}"
            )
    return "".join(found)


def _order(model: Declaration) -> str:
    if "N" in model.on_chip:
        return "O(N)"
    return "O(B)" if model.on_chip == str(model.params.get("block_size")) else "O(1)"
