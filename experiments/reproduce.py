"""``python -m experiments.reproduce --rows DIR --out DIR2``: measures recorded points again.

Exactly the points that rows hold, at the configuration recorded beside them, in as many rounds,
into a folder of their own; then ``python -m analysis compare`` compares the two. Exit status 0: all
came back as recorded (same code, GPU, libraries, protocol), and none is slower. 2: wrong input.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from experiments.child import ROOT
from experiments.data.files import validated
from experiments.data.jobs import ABOUT, CONF, Config, read_yaml
from experiments.data.recordings import recorded_jobs
from experiments.data.rows import ROWS, Row, read_rows
from experiments.errors import Parser, SweepFailed, UserError, command
from experiments.sweep.driver import run
from experiments.sweep.jobs import Job

Rows = dict[tuple[str, int, int, int], Row]  # by dtype, rows, cols and round the last


def main(arguments: list[str] | None = None) -> int:
    """Measures again and compares; returns the exit status."""
    parser = Parser(prog="python -m experiments.reproduce", description="Measures rows again.")
    parser.add_argument("--rows", type=Path, required=True, metavar="DIR", help="what was recorded")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the new rows")
    parser.add_argument("--dry-run", action="store_true", help="list the points, measure nothing")
    options = vars(parser.parse_args(arguments))
    return command(lambda: reproduce(**options))


def reproduce(rows: Path, out: Path, dry_run: bool) -> int:
    """Runs every recorded sweep again, accounts for its points, and compares.

    Raises:
        UserError: the rows cannot be repeated here; nothing was measured.
    """
    rows, out = rows.resolve(), out.resolve()
    roots = {path.parent: out / path.parent.relative_to(rows) for path in rows.rglob("sweep.json")}
    if {*roots} & {*roots.values()}:
        raise UserError(f"--out {out} is a recorded sweep itself; name another folder")
    sweeps = [jobs_of(root, roots[root], dry_run) for root in sorted(roots)]
    if not any(sweeps):
        raise UserError(f"{rows}: no rows with their sweep.json; name a sweep's folder")
    failed, reasons = False, Counter[str]()
    for jobs in filter(None, sweeps):
        try:
            run([job for job, _ in jobs], sorted({r.card for _, old in jobs for r in old.values()}))
        except SweepFailed:
            failed = True
        for job, recorded in jobs:
            path = Path(job.config["out"]) / job.name / ROWS
            again = by_place(read_rows(path)) if path.exists() else {}
            reasons.update(difference(old, again.get(place)) for place, old in recorded.items())
    if dry_run:
        return 0
    print(f"\n{reasons.pop('', 0):,} points were measured again as recorded.")
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

    A recorded folder may be anybody's: nothing is sent to its tracker, its kernels are of
    ``kernels/``, with the class and the tunables of today, and the card must be the rows' own.

    Raises:
        UserError: the files beside rows do not say how they were measured.
    """
    found = [(one, by_place(one.rows)) for one in recorded_jobs(root) if one.rows]
    rounds = 1 + max((place[3] for _, rows in found for place in rows), default=0)
    changed = {"out": str(out), "dry_run": dry_run, "rounds": rounds, "only_failed": False}
    changed |= {"tracker": {"backend": "none"}, "overwrite": False}
    files, jobs = read_yaml(CONF / "kernel"), []
    for one, rows in found:
        new = [*rows.values()][-1]
        try:
            config = {**(one.config or {}), **changed}
            if not re.fullmatch(r"kernels(\.\w+)+", str(config["kernel"]["_target_"])):
                raise ValueError("kernel._target_ is no class below kernels")
            if today := files.get(new.kernel.partition("-")[0]):  # a twin has a mark
                own = {key: config["kernel"].get(key, today[key]) for key in {*today} - {*ABOUT}}
                config["kernel"] = own | {"_target_": today["_target_"]}
            config["seed"] = new.environment.get("seed", config["seed"])
            card = {"name": new.gpu, "match": f"^{re.escape(new.gpu)}$"}
            config["gpu"] = config["gpu"] | card
            config["timing"] = config["timing"] | new.environment.get("protocol", {})
            config = validated(Config, config).model_dump()
        except (ValueError, TypeError, KeyError) as error:
            where = f"{root}: {one.name}: config.json"
            raise UserError(f"{where} is no job's configuration: {error}") from None
        dtypes, shapes = {key[0]: 0 for key in rows}, {key[1:3]: 0 for key in rows}
        absent = {(d, *s) for d in dtypes for s in shapes} - {key[:3] for key in rows}
        places = tuple(shapes), tuple(dtypes), (), frozenset(absent)
        jobs.append((Job(one.name, new.kernel, config, *places), rows))
    return jobs


def difference(old: Row, new: Row | None) -> str:
    """What is another than it was where a point has another key; empty where it has the same."""
    if new is None or new.key == old.key:
        return "" if new else "it was not measured"
    was, now = ({"gpu": r.gpu, "tunables": r.params} | r.environment for r in (old, new))
    changed = [f"{n} {was[n]} → {now.get(n)}" for n in was if was[n] != now.get(n)]
    return f"{old.kernel}: {'; '.join(changed) or 'something that its rows do not record'}"


if __name__ == "__main__":
    sys.exit(main())
