"""The audit as tables: every check, and what a reader should know first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis.audit.finding import Finding, Verdict
from analysis.audit.words import ABOUT, LEAST_GAP
from analysis.format import NamedTable, Table
from analysis.published import Source, sources

ORDER: tuple[Verdict, ...] = (
    "physically impossible",
    "self-contradictory",
    "wrong",
    "consistent",
)
VERDICTS = (
    "Physically impossible: above the datasheet peak of every card described in conf/gpu, for "
    "matrices that its L2 does not hold. Self-contradictory: two statements of one source, of a "
    "source and its sequel, or of two accounts of the same code that cannot both hold. Wrong: "
    "against arithmetic, a variant's traffic model or a cited fact. A printed number stands for "
    "all that rounds to it, in the worked example for all within one unit of its last digit."
)


def audit_tables(findings: Sequence[Finding]) -> list[NamedTable]:
    """Both tables, named for their files."""
    return [
        NamedTable("audit", audit_table(findings)),
        NamedTable("audit_summary", audit_summary_table(findings)),
    ]


def audit_table(findings: Sequence[Finding], told: Mapping[str, Source] | None = None) -> Table:
    """Every check, consistent ones included, and below it what was not audited."""
    lines = [[f.source, f.subject, f.verdict, f.printed, f.computed, f.why] for f in findings]
    left_out = [
        f"{one.at}: {one.says} ({one.why})"
        for source in (told or sources()).values()
        for one in source.statements.left_out
    ]
    words = [f"“{word}” is at least {share:.0%}" for word, share in LEAST_GAP.items()]
    meant = f"“About” allows {ABOUT:.0%}; {'; '.join(words)}."
    notes = [VERDICTS, meant, "Not audited: " + "; ".join(left_out) + "."]
    heads = ["source", "subject", "verdict", "printed", "computed", "why"]
    return Table("Audit of published numbers", heads, lines, notes)


def audit_summary_table(findings: Sequence[Finding]) -> Table:
    """One line for each subject that does not hold, worst verdict first; the rest counted.

    Findings of one verdict whose subjects are the same up to their comma share a line.
    """
    subjects: dict[tuple[Verdict, str], list[Finding]] = {}
    for verdict in ORDER[:-1]:
        for finding in findings:
            if finding.verdict == verdict:
                head = finding.subject.split(",")[0]
                subjects.setdefault((verdict, head), []).append(finding)
    lines = [
        [
            found[0].subject if len(found) == 1 else head,
            verdict,
            "; ".join(f.printed for f in found),
            "; ".join(f.computed for f in found),
        ]
        for (verdict, head), found in subjects.items()
    ]
    count = Counter(f.verdict for f in findings)
    told = ", ".join(f"{count[verdict]} {verdict}" for verdict in ORDER if count[verdict])
    notes = [f"{len(findings)} checks: {told}.", VERDICTS]
    heads = ["subject", "verdict", "printed", "computed"]
    return Table("What the audit found", heads, lines, notes)
