"""``python -m experiments.reproduce --rows DIR --out DIR2``: measures recorded points again.

Exactly the points that rows hold, at the configuration recorded beside them, in as many rounds,
into a folder of their own; then ``python -m analysis compare`` compares the two.
Exit status 0: every point was measured again as it was recorded (same code, GPU, libraries and
protocol), and none is slower. 1: not so, and each reason is named. 2: wrong input.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.child import ROOT
from experiments.data.files import validated
from experiments.data.jobs import ABOUT, CONF, Config, read_yaml
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
    rows, out = options.rows.resolve(), options.out.resolve()
    return command(lambda: reproduce(rows, out, options.dry_run), options.verbose)


def reproduce(rows: Path, out: Path, dry_run: bool) -> int:
    """Runs every recorded sweep again, accounts for its points, and compares.

    Raises:
        UserError: the rows cannot be repeated here; nothing was measured.
    """
    roots = sorted(path.parent for path in rows.rglob("sweep.json"))
    if not roots or not rows_files(rows):
        raise UserError(f"{rows}: no rows with their sweep.json; name a sweep's folder")
    outs = {root: out / root.relative_to(rows) for root in roots}
    if {*roots} & {*outs.values()}:
        raise UserError(f"--out {out} is a recorded sweep itself; name another folder")
    sweeps = {root: jobs_of(root, outs[root], dry_run) for root in roots}
    failed, reasons = False, Counter[str]()
    for root, jobs in sweeps.items():
        try:
            cards = {row.card for _, recorded in jobs for row in recorded.values()}
            run([job for job, _ in jobs], sorted(cards))
        except SweepFailed:
            failed = True
        for job, recorded in jobs:
            path = outs[root] / job.name / "rows.jsonl"
            again = by_place(read_rows(path) if path.exists() else ())
            reasons.update(difference(old, again.get(place)) for place, old in recorded.items())
    if dry_run:
        return 0
    same = reasons.pop("", 0)
    print(f"\n{same:,} of {same + reasons.total():,} points were measured again as recorded.")
    for reason, count in reasons.most_common():
        print(f"{count:,} could not be reproduced: {reason}")
    words = [sys.executable, "-m", "analysis", "compare", str(rows), str(out)]
    compared = subprocess.run([*words, "--out", str(out / "compare")], cwd=ROOT, check=False)
    return max(compared.returncode, int(failed or bool(reasons)))


def by_place(rows: Iterable[Row]) -> Rows:
    """The last row at each place."""
    return {(row.dtype, row.rows, row.cols, row.round): row for row in rows}


def jobs_of(root: Path, out: Path, dry_run: bool = False) -> list[tuple[Job, Rows]]:
    """What measures a sweep's points again and no others, each job with its points' last rows.

    Raises:
        UserError: the files beside rows do not say how they were measured.
        RowsError: a line is not a row; it names file and line.
    """
    found = [(one, by_place(one.rows)) for one in recorded_jobs(root) if one.rows]
    rounds = 1 + max((place[3] for _, rows in found for place in rows), default=0)
    changed = {"out": str(out), "dry_run": dry_run, "rounds": rounds}
    several = len({row.card for _, rows in found for row in rows.values()}) > 1
    return [(_job(root, one, rows, changed, several), rows) for one, rows in found]


def _job(root: Path, one: RecordedJob, rows: Rows, changed: dict[str, Any], pinned: bool) -> Job:
    """A recorded job, at the protocol and seed of its newest row.

    A recorded folder may be anybody's, so four things are ours: the kernel's class is one of
    ``kernels/``, nothing is sent to the tracker it names, the card's name must be the row's,
    whatever expression the configuration has for it, and a point takes minutes at most.
    """
    newest = [*rows.values()][-1]
    grid, setting, *variation = one.name.split("/")[:-1]
    dtype, _, gpu = setting.partition("-")
    try:
        config = {**(one.config or {}), **changed, "tracker": {"backend": "none"}}
        config |= {"overwrite": False, "only_failed": False}
        config |= {"seed": newest.environment.get("seed", config["seed"])}
        card = newest.card if pinned else config["gpu"]["card"]
        own = {"name": newest.gpu, "match": f"^{re.escape(newest.gpu)}$", "card": card}
        timing = config["timing"] | newest.environment.get("protocol", {})
        limits = {name: min(timing[name], MOST_SECONDS) for name in timing if "limit" in name}
        config |= {"gpu": config["gpu"] | own, "timing": timing | limits}
        config["kernel"] = of_today(newest.kernel, config["kernel"])
        found = validated(Config, config).model_dump()
    except (ValueError, TypeError, KeyError) as error:
        where = f"{root}: {one.name}"
        raise UserError(f"{where}: config.json is no job's configuration: {error}") from None
    if timing["warmup"] > MOST_WARMUP:
        raise UserError(f"{root}: timing.warmup is {timing['warmup']}; at most {MOST_WARMUP}")
    if not re.fullmatch(KERNEL, target := str((one.config or {})["kernel"].get("_target_"))):
        raise UserError(f"{root}: kernel._target_ is {target[:100]!r}, no class below kernels")
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


def of_today(name: str, recorded: dict[str, Any]) -> dict[str, Any]:
    """A recorded kernel's configuration with the class and the tunables that its file has today.

    Where a tunable is gone, its rows cannot come back under their keys, and `difference` says why.
    """
    today = read_yaml(CONF / "kernel").get(name.partition("-")[0])  # a twin has a mark
    if today is None:
        return recorded
    tunables = {key: recorded.get(key, value) for key, value in today.items() if key not in ABOUT}
    return tunables | {"_target_": today["_target_"]}


def difference(old: Row, new: Row | None) -> str:
    """Why a point is another than it was; empty where it is the same."""
    if new is None or new.key == old.key:
        return "" if new else "it was not measured"
    was, now = (
        {"GPU": row.gpu, "tunables": row.params}
        | row.environment
        | row.environment.get("packages", {})
        for row in (old, new)
    )
    shown = ("GPU", *LIBRARIES, *was.get("packages", {}))
    found = [f"{n} {was.get(n)} → {now.get(n)}" for n in shown if was.get(n) != now.get(n)]
    names = ("source", "target", "protocol", "seed", "tunables")
    found += [
        f"{name} of {old.kernel} changed"
        for name in names
        if name in was and was[name] != now.get(name)
    ]
    return "; ".join(found) or "something that rows of that age do not record"


if __name__ == "__main__":
    sys.exit(main())
