"""``python -m experiments.reproduce --rows DIR --out DIR2``: measures recorded points again.

Exactly the points that rows hold, at the configuration recorded beside them, in as many rounds,
into a folder of their own; then ``python -m analysis compare`` holds the two against each other.
Exit status 0: every point was measured again as it was recorded (same code, GPU, libraries and
protocol), and none is slower. 1: not so, and each reason is named. 2: wrong input.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.child import ROOT
from experiments.count import configurations
from experiments.data.files import RowsError
from experiments.data.packed import recording
from experiments.errors import Parser, SweepFailed, UserError, on_one_line
from experiments.reproduced import account
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.driver import run
from experiments.sweep.jobs import Job
from experiments.sweep.recorded import Recorded, recorded


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures again and compares; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return reproduce(options)
    except (UserError, RowsError, WorkerError, OSError) as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {on_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130


def reproduce(options: argparse.Namespace) -> int:
    """Runs every recorded sweep again, accounts for its points, and compares.

    Raises:
        UserError: the rows cannot be repeated here; nothing was measured.
    """
    sweeps = recorded(recording(options.rows))
    outs = [options.out / _below(sweep, sweeps) for sweep in sweeps]
    for sweep, out in zip(sweeps, outs, strict=True):
        if any(one.root == out.resolve() for one in sweeps):
            raise UserError(f"--out {out} is a recorded sweep itself; name another folder")
        _check_place(sweep, options)
    failed = [_measured(sweep, out, options) for sweep, out in zip(sweeps, outs, strict=True)]
    if options.dry_run:
        return 0
    same, reasons = 0, Counter[str]()
    for sweep, out in zip(sweeps, outs, strict=True):
        mine, why = account(sweep, out)
        same, reasons = same + mine, reasons + why
    print(f"\n{same:,} of {same + reasons.total():,} points were measured again as recorded.")
    for reason, count in reasons.most_common():
        print(f"{count:,} could not be reproduced: {reason}")
    compared = subprocess.run(_compare(options), cwd=ROOT, check=False).returncode
    return max(compared, int(any(failed) or reasons.total() > 0))


def _below(sweep: Recorded, sweeps: Sequence[Recorded]) -> str:
    """Where a sweep goes below ``--out``: several sweeps stay apart."""
    return "" if len(sweeps) == 1 else sweep.root.name


def _check_place(sweep: Recorded, options: argparse.Namespace) -> None:
    rows = [row for mine in sweep.rows.values() for row in mine.values()]
    device = sweep.jobs[0].config["gpu"]["device"]
    worker = Worker(device, rows[0].card, options.out / "worker.log")
    try:
        here = worker.start()["device"]["name"]
    except WorkerError as error:
        raise UserError(f"rows of {rows[0].gpu} cannot be repeated here: {error}") from None
    finally:
        worker.stop()
    others = sorted({row.gpu for row in rows} - {here})
    if others and not options.anyway:
        raise UserError(
            f"the rows are of {', '.join(others)}, and this is {here}: its times reproduce "
            "nothing; --anyway measures them all the same"
        )


def _measured(sweep: Recorded, out: Path, options: argparse.Namespace) -> bool:
    """Whether some point failed."""
    changed: dict[str, Any] = {"out": str(out), "overwrite": False, "only_failed": False,
               "dry_run": options.dry_run}  # fmt: skip
    cards = sorted({row.card for rows in sweep.rows.values() for row in rows.values()})
    jobs = []
    for job in sweep.jobs:
        config = job.config | changed
        if len(cards) > 1:  # each shard on the card that it was recorded on
            newest = list(sweep.rows[job.name].values())[-1]
            config["gpu"] = config["gpu"] | {"card": newest.card}
        config["tracker"] = config["tracker"] | {"backend": "none"}
        if options.anyway:
            config["gpu"] = config["gpu"] | {"match": None, "device": "auto"}
        jobs.append(dataclasses.replace(job, config=config))

    def roof(overrides: list[str]) -> Job:
        [of] = [job for job in jobs if job.overrides[0] == overrides[0]]
        copy = configurations(["copy"])["copy"]
        config = of.config | {"kernel": copy, "twin": None}
        return dataclasses.replace(of, kernel="copy", label="copy", config=config)

    try:
        run(jobs, roof, cards, time.perf_counter())
    except SweepFailed:
        return True
    return False


def _compare(options: argparse.Namespace) -> list[str]:
    rows, out = options.rows.resolve(), options.out.resolve()
    command = [sys.executable, "-m", "analysis", "compare", str(rows), str(out)]
    across = ["--across-gpus"] if options.anyway else []
    return [*command, "--out", str(out / "compare"), *across]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m experiments.reproduce", description="Measures rows again.")
    parser.add_argument("--rows", type=Path, required=True, metavar="DIR", help="what was recorded")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the new rows")
    parser.add_argument("--dry-run", action="store_true", help="list the points, measure nothing")
    parser.add_argument("--anyway", action="store_true", help="on another GPU model all the same")
    parser.add_argument("--verbose", action="store_true", help="show the traceback of an error")
    return parser


if __name__ == "__main__":
    sys.exit(main())
