"""``python -m experiments.reproduce --rows DIR --out DIR2``: measures recorded points again.

Exactly the points that rows hold, at the configuration recorded beside them, in as many rounds,
into a folder of their own; then ``python -m analysis compare`` compares the two.
Exit status 0: every point was measured again as it was recorded (same code, GPU, libraries and
protocol), and none is slower. 1: not so, and each reason is named. 2: wrong input.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.child import ROOT
from experiments.data.files import RowsError, validated
from experiments.data.jobs import Config, TrackerConfig
from experiments.data.recordings import RecordedJob, recorded_jobs
from experiments.data.rows import MOST_SAMPLES, Row, read_rows, rows_files
from experiments.errors import Parser, SweepFailed, UserError, command, on_one_line
from experiments.sweep.driver import run
from experiments.sweep.jobs import Job
from experiments.sweep.plan import LIBRARIES

KERNEL = re.compile(r"kernels(\.[A-Za-z_][A-Za-z0-9_]*)+")
OTHER_PROTOCOL = "its row was measured by another protocol or seed than the newest beside it"
UNKNOWN = "something that rows of that age do not record"
# The most that a stranger's rows may ask of a point here
MOST_WARMUP = 10_000
MOST_SECONDS = 600.0

Place = tuple[str, int, int, int]  # dtype, rows, cols, round
Rows = Mapping[Place, Row]


class Recorded(NamedTuple):
    """One recorded sweep.

    Attributes:
        root: Its folder, which holds ``sweep.json``.
        jobs: What measures its points again and no others, each with its points' last rows.
        left: How many points no job can measure as they were, by another protocol.
    """

    root: Path
    jobs: list[tuple[Job, Rows]]
    left: int


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
    sweeps = recorded(rows)
    below = [one.root.relative_to(rows) if one.root.is_relative_to(rows) else "" for one in sweeps]
    outs = [out / folder for folder in below]
    if {sweep.root for sweep in sweeps} & {*outs}:
        raise UserError(f"--out {options.out} is a recorded sweep itself; name another folder")
    failed = [_fails(sweep, one, options.dry_run) for sweep, one in zip(sweeps, outs, strict=True)]
    if options.dry_run:
        return 0
    same, reasons = 0, Counter[str]()
    for sweep, one in zip(sweeps, outs, strict=True):
        mine, why = account(sweep, one)
        same, reasons = same + mine, reasons + why
    print(f"\n{same:,} of {same + reasons.total():,} points were measured again as recorded.")
    for reason, count in reasons.most_common():
        print(f"{count:,} could not be reproduced: {reason}")
    words = [sys.executable, "-m", "analysis", "compare", str(rows), str(out)]
    words += ["--out", str(out / "compare")]
    compared = subprocess.run(words, cwd=ROOT, check=False).returncode
    return max(compared, int(any(failed) or reasons.total() > 0))


def recorded(folder: Path) -> list[Recorded]:
    """The sweeps whose rows lie below ``folder``, in a fixed order.

    Raises:
        UserError: there are none, or the files beside rows do not say how they were measured.
        RowsError: a line is not a row; it names file and line.
    """
    roots = set()
    for path in rows_files(folder):
        root = next((a for a in path.resolve().parents if (a / "sweep.json").is_file()), None)
        if root is None:
            raise UserError(f"{path}: no sweep.json above it; a sweep's whole folder is repeated")
        roots.add(root)
    if not roots:
        raise UserError(f"{folder}: no rows in it; --rows names recorded rows")
    return [_sweep(root) for root in sorted(roots)]


def _sweep(root: Path) -> Recorded:
    found, left = [], 0
    for job in recorded_jobs(root):
        rows = {(r.dtype, r.rows, r.cols, r.round): r for r in job.rows}
        if rows:
            made, kept = _job(root, job, rows)
            found.append((made, kept))
            left += len(rows) - len(kept)
    if not found:
        raise UserError(f"{root}: its rows files are empty")
    rounds = {"rounds": 1 + max(place[3] for _, rows in found for place in rows)}
    jobs = [(dataclasses.replace(j, config=j.config | rounds), rows) for j, rows in found]
    return Recorded(root, jobs, left)


def _job(root: Path, recorded_job: RecordedJob, rows: Rows) -> tuple[Job, Rows]:
    """A job, and those of its recorded rows that it would measure as they were."""
    place, parts = f"{root}: {recorded_job.name}", recorded_job.name.split("/")
    if len(parts) not in (3, 4) or "-" not in parts[1]:
        raise UserError(f"{place} is no job's folder, such as wide/native-auto/online")
    dtype, _, gpu = parts[1].partition("-")
    newest = list(rows.values())[-1]

    def protocol(row: Row) -> dict[str, Any]:  # older rows have none
        return {n: row.environment[n] for n in ("protocol", "seed") if n in row.environment}

    kept = {place: row for place, row in rows.items() if protocol(row) in ({}, protocol(newest))}
    shapes = dict.fromkeys(place[1:3] for place in kept)
    dtypes = dict.fromkeys(place[0] for place in kept)
    product = {(name, *shape) for name in dtypes for shape in shapes}
    job = Job(
        kernel=newest.kernel,
        label=parts[-1],
        grid=parts[0],
        dtypes=tuple(dtypes),
        dtype=dtype,
        gpu=gpu,
        variation=parts[2] if len(parts) == 4 else "",
        shapes=tuple(shapes),
        config=_config(place, recorded_job.config, newest),
        overrides=(),
        skipped=frozenset(product - {place[:3] for place in kept}),
    )
    return job, kept


def _config(place: str, recorded: dict[str, Any] | None, newest: Row) -> dict[str, Any]:
    """A job's configuration as it was recorded; the types give the options that it lacks.

    A recorded folder may be anybody's, so four things are ours: the kernel's class is one of
    ``kernels/``, nothing is sent to the tracker it names, the card's name must be the row's,
    whatever expression the configuration has for it, and a point takes minutes at most.
    """
    if recorded is None:
        raise UserError(f"{place}: no config.json; without it rows cannot be repeated")
    try:
        found = dict(recorded)
        found["tracker"] = TrackerConfig(backend="none").model_dump()
        card = {"name": newest.gpu, "match": f"^{re.escape(newest.gpu)}$"}
        found["gpu"] = {**found["gpu"], **card}
        found["timing"] = {**found["timing"], **newest.environment.get("protocol", {})}
        found["seed"] = newest.environment.get("seed", found["seed"])
        config = validated(Config, found).model_dump()
    except (RowsError, ValueError, TypeError, KeyError) as error:
        reason = on_one_line(str(error)) or type(error).__name__
        raise UserError(f"{place}: no job's configuration: {reason[:200]}") from None
    timing = config["timing"]
    for name, most in (("warmup", MOST_WARMUP), ("max_samples", MOST_SAMPLES)):
        if timing[name] > most:
            raise UserError(f"{place}: timing.{name} is {timing[name]}; at most {most} is taken")
    for name in ("sampling_limit_s", "compile_limit_s"):
        timing[name] = min(timing[name], MOST_SECONDS)
    if newest.device == "cpu" and newest.card:
        raise UserError(f"{place}: its rows are of card {newest.card} of a CPU, which has none")
    target = str(config["kernel"].get("_target_"))
    if not KERNEL.fullmatch(target):
        raise UserError(
            f"{place}: kernel._target_ is {target[:100]!r}; only a class below kernels is measured "
            "again, as in kernels.copy.copy.Copy"
        )
    return config


def _fails(sweep: Recorded, out: Path, dry_run: bool) -> bool:
    """Measures a sweep again, and says whether some point failed."""
    cards = sorted({row.card for _, rows in sweep.jobs for row in rows.values()})
    jobs = []
    for job, rows in sweep.jobs:
        gpu = dict(job.config["gpu"])
        if len(cards) > 1:  # each shard on the card that it was recorded on
            gpu["card"] = list(rows.values())[-1].card
        changed = {"out": str(out), "overwrite": False, "only_failed": False, "gpu": gpu}
        config = job.config | changed | {"dry_run": dry_run}
        jobs.append(dataclasses.replace(job, config=config))
    try:
        run(jobs, cards)
    except SweepFailed:
        return True
    return False


def account(sweep: Recorded, out: Path) -> tuple[int, Counter[str]]:
    """How many points were measured again as they were, and by reason how many were not."""
    same, reasons = 0, +Counter({OTHER_PROTOCOL: sweep.left})
    for job, rows in sweep.jobs:
        path = out / job.name / "rows.jsonl"
        found = read_rows(path) if path.exists() else ()
        again = {(r.dtype, r.rows, r.cols, r.round): r for r in found}
        for place, old in rows.items():
            new = again.get(place)
            if new is None:
                reasons["it was not measured"] += 1
            elif new.key == old.key:
                same += 1
            else:
                reasons["; ".join(differences(old, new)) or UNKNOWN] += 1
    return same, reasons


def differences(old: Row, new: Row) -> list[str]:
    """What decides a row's key and differs, a few words each."""
    was, now = old.environment, new.environment
    found = [f"GPU {old.gpu} → {new.gpu}"] if old.gpu != new.gpu else []
    before, after = (
        {name: e.get(name) for name in LIBRARIES} | (e.get("packages") or {}) for e in (was, now)
    )
    found += [
        f"{name} {before.get(name)} → {after.get(name)}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]
    changed = {n for n in was if n in now and was[n] != now[n]}
    if changed & {"source", "target"}:
        found.append(f"source of {old.kernel} changed")
    found += [f"{name} differs" for name in ("protocol", "seed") if name in changed]
    return found + (["tunables differ"] if old.params != new.params else [])


if __name__ == "__main__":
    sys.exit(main())
