"""The command line: ``python -m experiments.counters experiment=counters out=DIR``.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes the sums over the counters of its launches into ``counters.jsonl`` below ``out``, in place of
its records of the same kernels, shapes and cards. ``ncu.csv`` beside it is ncu's own table.
ncu runs all points once for each of its passes, and their output comes as often. Where it ends
without a table it profiles each kernel by itself, into ``ncu_KERNEL.csv``: one that fails costs no
other its record.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.data.records import COUNTERS, Counters, Record, read_records, write_records
from experiments.errors import UserError, command
from experiments.profile.ncu import find_ncu, read_launches, remarks, run_ncu, summed, version
from experiments.profile.profiling import LIST, Profiled

CACHE_CONTROL = "none, L2 flushed before the call"  # older records: all, before each launch
KINDS = ("recorded", "without kernels", "unsupported", "failed")


def main() -> None:
    """Collects, and turns errors into one line and an exit status."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    sys.exit(command(lambda: collect(arguments)))


@dataclass(frozen=True)
class Run:
    """One run of ncu.

    Attributes:
        status: The exit status of the profiled command.
        points: The points it listed, none of a dry run or where it failed at once.
        launches: As `read_launches` gives them.
        wrong: ncu's own complaints.
    """

    status: int
    points: list[Profiled]
    launches: pd.DataFrame
    wrong: list[str]

    @property
    def lost(self) -> str | None:
        """Why there is no table of launches, None where there is one."""
        return f"ncu: {self.wrong[0]}" if self.wrong and self.launches.empty else None


def collect(arguments: Sequence[str]) -> int:
    """Profiles what the arguments ask for and records it.

    Returns:
        0 when every supported point that launches kernels has a record, else another status.

    Raises:
        UserError: ncu is missing, forbidden, or failed; nothing was recorded.
    """
    ncu = find_ncu()
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith("out=")]
    out = Path(given[-1] if given else "outputs/counters")
    out.mkdir(parents=True, exist_ok=True)
    runs = [_run(ncu, arguments, out, "ncu.csv")]
    points, lost = runs[0].points, runs[0].lost
    labels = list(dict.fromkeys(p.kernel for p in points if p.status == "profiled"))
    if lost and len(labels) < 2:
        raise UserError(f"{lost} (see {out / 'ncu.csv'})")
    if not points:
        return runs[0].status  # a dry run, or the command itself has printed what is wrong
    if lost:
        print(f"{lost} Now each kernel by itself.", flush=True)
        runs = [
            _run(ncu, [*arguments, f"hydra.launcher.only='{label}'"], out, f"ncu_{label}.csv")
            for label in labels
        ]
    # of a kernel whose own run ended at once the first list has the points
    statuses = Counter[str](p.status for p in points if p.status != "profiled")
    release = version(ncu)
    for run in runs:
        records = list(counters_of(run, release))
        _keep(out / COUNTERS, records)
        without = sum(point.status == "profiled" for point in run.points) - len(records)
        statuses += Counter({"recorded": len(records)})
        statuses["failed" if run.lost else "without kernels"] += without
    statuses["failed"] += len(points) - statuses.total()
    counted = ", ".join(f"{statuses[kind]} {kind}" for kind in KINDS)
    print(f"{len(points)} points: {counted} -> {out / COUNTERS}")
    wrong = [complaint for run in runs for complaint in run.wrong]
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or statuses["failed"] else 0


def _run(ncu: str, arguments: Sequence[str], out: Path, log: str) -> Run:
    """Profiles what the arguments ask for."""
    points = out / LIST
    points.unlink(missing_ok=True)  # of an earlier run
    words = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    status, text = run_ncu(ncu, words, out / log)
    listed = list(read_records(points, Profiled)) if points.exists() else []
    return Run(status, listed, read_launches(text), remarks(text))


def _keep(path: Path, records: Sequence[Counters]) -> None:
    """Adds records to a file, in place of those of the same kernels, shapes and cards."""
    kept = list(read_records(path, Counters)) if path.exists() else []
    points_of = {(r.gpu, r.kernel, r.rows, r.cols, r.dtype): r for r in [*kept, *records]}
    write_records(path, points_of.values())


def counters_of(run: Run, release: str | None) -> Iterator[Counters]:
    """A record for every point with launches; a line is printed for those without.

    Args:
        run: Has the points, with the range each was called in, and the launches.
        release: ncu's version, for the record's environment.
    """
    shared = set(Record.model_fields) | {"gpu", "model_reads", "model_writes"}
    for point in run.points:
        mine = run.launches[run.launches["range"] == point.range]
        if point.status != "profiled":
            continue
        try:
            if mine.empty:
                raise UserError(run.lost or "ncu saw no kernel, as of a copy by the driver")
            fields = summed(mine)
        except UserError as error:
            print(f"{point.range}: {error}; no record")
            continue
        environment = {**point.environment, "ncu": release, "cache_control": CACHE_CONTROL}
        yield Counters(**point.model_dump(include=shared), environment=environment, **fields)


if __name__ == "__main__":
    main()
