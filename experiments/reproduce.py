"""``python -m experiments.reproduce --rows DIR --out DIR2``: measures recorded points again.

Exactly the points that rows hold, at the configuration recorded beside them, in as many rounds,
into a folder of their own; then ``python -m analysis compare`` compares the two.
Exit status 0: every point was measured again as it was recorded (same code, GPU, libraries and
protocol), and none is slower. 1: not so, and each reason is named. 2: wrong input.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.child import ROOT
from experiments.data.files import validated
from experiments.data.jobs import Config
from experiments.data.recordings import RecordedJob, recorded_jobs
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import Parser, SweepFailed, UserError, command
from experiments.sweep.driver import run
from experiments.sweep.jobs import Job
from experiments.sweep.plan import LIBRARIES

KERNEL = r"kernels(\.[A-Za-z_][A-Za-z0-9_]*)+"
MOST_WARMUP, MOST_SECONDS = 10_000, 600.0  # that a stranger's rows may ask of a point here

Rows = Mapping[tuple[str, int, int, int], Row]  # by dtype, rows, cols and round


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures again and compares; returns the exit status."""
    parser = Parser(prog="python -m experiments.reproduce", description="Measures rows again.")
    parser.add_argument("--rows", type=Path, required=True, metavar="DIR", help="what was recorded")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the new rows")
    parser.add_argument("--dry-run", action="store_true", help="list the points, measure nothing")
    parser.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    options = parser.parse_args(arguments)
    return command(lambda: reproduce(options), options.verbose)


def reproduce(options: argparse.Namespace) -> int:
    """Runs every recorded sweep again, accounts for its points, and compares.

    Raises:
        UserError: the rows cannot be repeated here; nothing was measured.
    """
    rows, out = options.rows.resolve(), options.out.resolve()
    roots = sorted(path.parent for path in rows.rglob("sweep.json"))
    if not roots or not rows_files(rows):
        raise UserError(f"{options.rows}: no rows with their sweep.json; name a sweep's folder")
    outs = {root: out / root.relative_to(rows) for root in roots}
    if {*roots} & {*outs.values()}:
        raise UserError(f"--out {options.out} is a recorded sweep itself; name another folder")
    sweeps = {root: jobs_of(root, outs[root], options.dry_run) for root in roots}
    failed, same, reasons = False, 0, Counter[str]()
    for root, jobs in sweeps.items():
        try:
            cards = {row.card for _, recorded in jobs for row in recorded.values()}
            run([job for job, _ in jobs], sorted(cards))
        except SweepFailed:
            failed = True
        mine, why = account(jobs, outs[root])
        same, reasons = same + mine, reasons + why
    if options.dry_run:
        return 0
    print(f"\n{same:,} of {same + reasons.total():,} points were measured again as recorded.")
    for reason, count in reasons.most_common():
        print(f"{count:,} could not be reproduced: {reason}")
    words = [sys.executable, "-m", "analysis", "compare", str(rows), str(out)]
    compared = subprocess.run([*words, "--out", str(out / "compare")], cwd=ROOT, check=False)
    return max(compared.returncode, int(failed or bool(reasons)))


def jobs_of(root: Path, out: Path, dry_run: bool = False) -> list[tuple[Job, Rows]]:
    """What measures a sweep's points again and no others, each job with its points' last rows.

    Raises:
        UserError: the files beside rows do not say how they were measured.
        RowsError: a line is not a row; it names file and line.
    """
    found = [
        (one, {(row.dtype, row.rows, row.cols, row.round): row for row in one.rows})
        for one in recorded_jobs(root)
        if one.rows
    ]
    changed: dict[str, Any] = {"out": str(out), "dry_run": dry_run, "rounds": 1}
    changed["rounds"] += max((place[3] for _, rows in found for place in rows), default=0)
    cards = {row.card for _, rows in found for row in rows.values()}
    return [(_job(root, one, rows, changed, len(cards) > 1), rows) for one, rows in found]


def _job(root: Path, one: RecordedJob, rows: Rows, changed: dict[str, Any], pinned: bool) -> Job:
    """A recorded job, at the protocol and seed of its newest row.

    A recorded folder may be anybody's, so four things are ours: the kernel's class is one of
    ``kernels/``, nothing is sent to the tracker it names, the card's name must be the row's,
    whatever expression the configuration has for it, and a point takes minutes at most.
    """
    newest, place = [*rows.values()][-1], f"{root}: {one.name}"
    grid, setting, *variation = one.name.split("/")[:-1]
    dtype, _, gpu = setting.partition("-")
    try:
        config = {**(one.config or {}), **changed, "tracker": {"backend": "none"}}
        card = newest.card if pinned else config["gpu"]["card"]
        match = f"^{re.escape(newest.gpu)}$"
        config["gpu"] = {**config["gpu"], "name": newest.gpu, "match": match, "card": card}
        timing = {**config["timing"], **newest.environment.get("protocol", {})}
        for name in ("sampling_limit_s", "compile_limit_s"):
            timing[name] = min(timing[name], MOST_SECONDS)
        config |= {"timing": timing, "seed": newest.environment.get("seed", config["seed"])}
        config |= {"overwrite": False, "only_failed": False}
        found = validated(Config, config).model_dump()
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{place}: config.json is no job's configuration: {error}") from None
    if not re.fullmatch(KERNEL, target := str(found["kernel"].get("_target_"))):
        raise UserError(f"{place}: kernel._target_ is {target[:100]!r}, no class below kernels")
    if timing["warmup"] > MOST_WARMUP:
        raise UserError(f"{place}: timing.warmup is {timing['warmup']}; at most {MOST_WARMUP}")
    shapes = dict.fromkeys((m, n) for _, m, n, _ in rows)
    dtypes = dict.fromkeys(name for name, *_ in rows)
    return Job(
        kernel=newest.kernel,
        label=one.name.rpartition("/")[2],
        grid=grid,
        dtypes=tuple(dtypes),
        dtype=dtype,
        gpu=gpu,
        variation="/".join(variation),
        shapes=tuple(shapes),
        config=found,
        overrides=(),
        skipped=frozenset({(d, *s) for d in dtypes for s in shapes} - {key[:3] for key in rows}),
    )


def account(jobs: Sequence[tuple[Job, Rows]], out: Path) -> tuple[int, Counter[str]]:
    """How many points were measured again as they were, and by reason how many were not."""
    same, reasons = 0, Counter[str]()
    for job, rows in jobs:
        path = out / job.name / "rows.jsonl"
        found = read_rows(path) if path.exists() else ()
        again = {(row.dtype, row.rows, row.cols, row.round): row for row in found}
        for place, old in rows.items():
            if (new := again.get(place)) is None:
                reasons["it was not measured"] += 1
            elif new.key == old.key:
                same += 1
            else:
                reasons["; ".join(differences(old, new))] += 1
    return same, reasons


def differences(old: Row, new: Row) -> list[str]:
    """What decides a row's key and differs, a few words each."""
    was: dict[str, Any] = {"GPU": old.gpu, "tunables": old.params} | old.environment
    now: dict[str, Any] = {"GPU": new.gpu, "tunables": new.params} | new.environment
    before, after = (
        {name: one.get(name) for name in ("GPU", *LIBRARIES)} | (one.get("packages") or {})
        for one in (was, now)
    )
    found = [
        f"{name} {before.get(name)} → {after.get(name)}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    names = ("source", "target", "protocol", "seed", "tunables")
    found += [f"{name} of {old.kernel} changed" for name in names
              if name in was and was[name] != now.get(name)]  # fmt: skip
    return found or ["something that rows of that age do not record"]


if __name__ == "__main__":
    sys.exit(main())
