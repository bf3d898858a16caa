"""Tables, the roofline's check and the stepper as the page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import stepper
from analysis.format import Table
from analysis.lines import variant_order
from analysis.load import Inputs
from analysis.report.contents import CONTENTS, anchor_of
from analysis.report.results import Results
from analysis.tables import tables_of
from analysis.verdicts import check_table, checked, summary_table

TRAFFIC = ("traffic", "cards")  # tables that stand in the section of traffic


@dataclass(frozen=True)
class Entry:
    """A table and its anchor; its label is the id in the sources, if it has one."""

    anchor: str
    table: Table

    @property
    def label(self) -> str:
        """The id that the sources' index knows it by."""
        return self.anchor if self.anchor in {shown.id for shown in CONTENTS} else ""

    @property
    def title(self) -> str:
        """What the table tells, without the id before it."""
        return self.table.title.removeprefix(f"{self.label}: ")


@dataclass(frozen=True)
class Tables:
    """The tables by section, and what each missing one needs."""

    sourced: tuple[Entry, ...]
    traffic: tuple[Entry, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """The roofline's check: points by verdict, and each point."""

    summary: Table
    points: Table
    explained: str


@dataclass(frozen=True)
class Stepper:
    """The stepper's markup, data, script and styles."""

    markup: str
    data: dict[str, object]
    script: str
    style: str


def tables(material: Inputs, anchors: set[str]) -> Tables:
    """Every table that the material allows; ``anchors`` gains theirs."""
    named, missing = tables_of(material)
    entries = {n.stem: Entry(anchor_of(n.stem, f"table-{n.stem}", anchors), n.table) for n in named}
    traffic = tuple(entries.pop(stem) for stem in TRAFFIC if stem in entries)
    return Tables(tuple(entries.values()), traffic, tuple(missing))


def check(material: Inputs) -> Check | None:
    """Which times traffic explains; None where no point has a roof."""
    points = checked(material.frame, material.records)
    if points.empty:
        return None
    share = (points["verdict"] == "traffic").mean()
    told = f"Of {len(points):,} timed points, traffic explains {100 * share:.0f} % within 10 %."
    return Check(summary_table(points), check_table(points), told)


def steps(material: Inputs) -> Stepper | None:
    """The stepper over the recorded traces; None without any."""
    if not material.records.traces:
        return None
    folder = Path(stepper.__file__).parent
    markup, script, style = (
        (folder / f"stepper.{kind}").read_text(encoding="utf-8") for kind in ("html", "js", "css")
    )
    return Stepper(markup, stepper.stepper_data(material.records), script, style)


def standings_table(results: Results) -> Table | None:
    """The variants of one GPU, best first; None where no roof was measured."""
    if not results.standings:
        return None
    lines = [
        [
            one.variant,
            f"{100 * one.share:.1f} %",
            "" if one.over_naive is None else f"{one.over_naive:.2f}×",
            "" if one.over_torch is None else f"{one.over_torch:.2f}×",
            "" if one.highest is None else f"{100 * one.highest:.1f} %",
            one.where,
        ]
        for one in results.standings
    ]
    where = " larger than L2" if results.beyond_l2 else ""
    notes = [
        f"Geometric means of time ratios over the {results.compared:,} points{where} at which all "
        "of these variants have a valid time. The highest share is over all its points there, "
        "without those above the roof by more than their interval."
    ]
    if results.left_out:
        notes.append(f"At too few points to be compared: {', '.join(results.left_out)}.")
    heads = ["variant", "share of the roof", "over naive", "over torch", "highest share", "at"]
    return Table(f"Every variant on {results.card.name}", heads, lines, notes)


def counters_missing(material: Inputs) -> str:
    """What hardware counters are missing, a sentence, or nothing."""
    seen = {record.gpu for record in material.records.counters}
    lacking = sorted(set(material.frame["gpu"].unique()) - seen, key=variant_order)
    if not lacking:
        return ""
    names = ", ".join(map(str, lacking))
    return f"No hardware counters of {names}: make counters records some, on the GPU, with ncu."


def devices(frame: pd.DataFrame) -> str:
    """The GPUs in words."""
    names = [str(gpu) for gpu in sorted(frame["gpu"].unique())]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
