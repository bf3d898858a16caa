"""``selftest``: the noise floor of rows in which variants stand against themselves."""

from __future__ import annotations

import argparse

from analysis.commands.telling import finish
from analysis.format import write
from analysis.load import read_inputs
from analysis.selftest.cold import probes_of
from analysis.selftest.figure import plates
from analysis.selftest.floor import floors
from analysis.selftest.judged import judged
from analysis.selftest.pairs import pairs_of
from analysis.selftest.tables import cold_table, floor_table, timers_table
from analysis.selftest.timers import agreements
from analysis.selftest.words import noise_floor
from experiments.data.files import RowsError


def run(options: argparse.Namespace) -> int:
    """Writes tables, figure and paragraph, and prints the paragraph.

    Raises:
        RowsError: no variant was measured under two names.
    """
    found = read_inputs(options.rows, options.out, "selftest")
    pairs = pairs_of(found.frame)
    if not pairs:
        raise RowsError(
            f"{found.rows}: no variant stands against itself under two names; the preset does: "
            "python -m experiments.run experiment=selftest"
        )
    floor, timers = floors(pairs), agreements(found.frame, found.records)
    probes = probes_of(found.rows)
    tables = [floor_table(floor)]
    missed = []
    if timers:
        tables.append(timers_table(timers))
    else:
        missed.append("timers needs the same points by two timers, timing=events,graph")
    if probes:
        tables.append(cold_table(probes))
    else:
        missed.append("cold needs probe.jsonl: python -m experiments.probe --out DIR, on the card")
    made = [path for one in tables for path in one.files(found.out)]
    made += [path for plate in plates(floor) for path in plate.files(found.out)]
    told = noise_floor(floor, judged(found.frame, pairs), timers, probes)
    made.append(write(found.out / "noise_floor.md", told))
    finish("selftest", found, made, missed)
    print(f"\n{told}", end="")
    return 0
