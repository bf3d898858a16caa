"""``python -m experiments.reproduce --rows DIR --out DIR2``: measures recorded points again.

It measures exactly the recorded points, as configured then, into DIR2, and compares both by
``python -m analysis compare``. Exit status 0: all came back as recorded, and none is slower.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from experiments.data.errors import Parser, SweepFailed, UserError, command
from experiments.data.files import validated
from experiments.data.jobs import ROOT, Config
from experiments.data.rows import Row, Visit, recorded_jobs
from experiments.parent.driver import run
from experiments.parent.jobs import Job, kernel_of_today


def main(arguments: list[str] | None = None) -> int:
    """Measures again and compares; returns the exit status."""
    parser = Parser(prog="python -m experiments.reproduce", description="Measures rows again.")
    parser.add_argument("--rows", type=Path, required=True, metavar="DIR", help="what was recorded")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the new rows")
    parser.add_argument("--dry-run", action="store_true", help="list the points, measure nothing")
    return command(lambda: _reproduce(**vars(parser.parse_args(arguments))))


def _reproduce(rows: Path, out: Path, dry_run: bool) -> int:
    """Runs every recorded sweep again, prints which points deviate, compares the times."""
    rows, out = rows.resolve(), out.resolve()
    roots = {path.parent: out / path.parent.relative_to(rows) for path in rows.rglob("sweep.json")}
    if {*roots} & {*roots.values()}:
        raise UserError(f"--out {out} is a recorded sweep itself; name another folder")
    every = [(to, [*_jobs_of(root, to)]) for root, to in sorted(roots.items())]
    sweeps = [(to, jobs) for to, jobs in every if jobs]
    if not sweeps:
        raise UserError(f"{rows}: no rows with their sweep.json; name a sweep's folder")
    if dry_run:  # needs no card
        listed = [(len(old), to / job.name) for to, jobs in sweeps for job, old in jobs]
        print(*(f"{points:7,} {job.relative_to(out)}" for points, job in listed), sep="\n")
        print(f"{sum(points for points, _ in listed):7,} points to measure again")
        return 0
    reasons = Counter[str]()
    for to, jobs in sweeps:
        with suppress(SweepFailed):  # `deviation` reports the points that failed
            run([job for job, _ in jobs], sorted({r.card for _, old in jobs for r in old.values()}))
        again = {(one.name, at): row for one in recorded_jobs(to) for at, row in one.last.items()}
        for job, old in jobs:
            reasons.update(deviation(row, again.get((job.name, at))) for at, row in old.items())
    print(f"\n{reasons.pop('', 0):,} points were measured again as recorded.")
    for reason, count in reasons.most_common():
        print(f"{count:,} could not be reproduced: {reason}")
    words = [sys.executable, "-m", "analysis", "compare", str(rows), str(out)]
    compared = subprocess.run([*words, "--out", str(out / "compare")], cwd=ROOT, check=False)
    return max(compared.returncode, int(bool(reasons)))


def _jobs_of(root: Path, out: Path) -> Iterator[tuple[Job, dict[Visit, Row]]]:
    """The jobs that measure exactly a sweep's recorded points, each with the points' last rows."""
    found = [(one, one.last) for one in recorded_jobs(root) if one.rows]
    rounds = 1 + max((visit[3] for _, rows in found for visit in rows), default=0)
    # anybody may have made the folder: use no tracker, and load no kernel outside kernels/
    ours = {"out": str(out), "rounds": rounds, "tracker": {"backend": "none"}}
    ours |= dict.fromkeys(("dry_run", "only_failed", "only_beside", "overwrite"), False)
    for one, rows in found:
        new = one.rows[-1]
        try:
            now = validated(Config, one.config).model_dump() | ours
            now["kernel"] = kernel_of_today(new.kernel, now["kernel"])
            now["gpu"] |= {"name": new.gpu, "match": f"^{re.escape(new.gpu)}$"}
            now["timing"] |= new.environment.get("protocol", {})
            now["seed"] = new.environment.get("seed", now["seed"])
            config = validated(Config, now).model_dump()
        except ValueError as error:
            why = f"config.json is no job's configuration: {error}"
            raise UserError(f"{root}: {one.name}: {why}") from None
        shapes, dtypes = {visit[1:3]: 0 for visit in rows}, {visit[0]: 0 for visit in rows}
        points = frozenset(visit[:3] for visit in rows)
        yield Job(one.name, new.kernel, config, (*shapes,), (*dtypes,), (), points), rows


def deviation(old: Row, new: Row | None) -> str:
    """What differs between a recorded row and the new one; "" if key and status are the same."""
    if new is None or (new.key, new.status) == (old.key, old.status):
        return "" if new else "it was not measured"
    own = {"gpu", "params", "status"}
    was, now = (one.model_dump(include=own) | one.environment for one in (old, new))
    changed = [f"{n} {was[n]} → {now.get(n)}" for n in was if was[n] != now.get(n)]
    return f"{old.kernel}: {'; '.join(changed) or 'something that its rows do not record'}"


if __name__ == "__main__":
    sys.exit(main())
