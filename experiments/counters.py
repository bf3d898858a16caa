"""The command line: ``python -m experiments.counters experiment=counters out=DIR``.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes what the counters of its launches come to into ``counters.jsonl`` below ``out``, in place of
what that file held of the same kernels, shapes and cards. ``ncu.csv`` beside it is ncu's own table.
ncu runs all points once for each of its passes, and what they print comes as often. Where it ends
without a table it profiles each kernel by itself, into ``ncu_KERNEL.csv``: one that fails costs no
other its record.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from experiments.data.files import RowsError
from experiments.data.records import COUNTERS, Counters, Record, read_records, write_records
from experiments.errors import UserError
from experiments.profile.ncu import find_ncu, read_launches, remarks, run_ncu, summed, version
from experiments.profile.profiling import LIST, Profiled

CACHE_CONTROL = "none, L2 flushed before the call"  # older records: all, before each launch


def main() -> None:
    """Collects, and turns errors into one line and an exit status."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    try:
        sys.exit(collect(arguments))
    except (UserError, RowsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; the kernels that were recorded stay so", file=sys.stderr)
        sys.exit(130)


@dataclass(frozen=True)
class Run:
    """What one run of ncu came to.

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
    whole = _run(ncu, arguments, out, "ncu.csv")
    labels = {point.kernel: None for point in whole.points if point.status == "profiled"}
    if whole.lost and len(labels) < 2:
        raise UserError(f"{whole.lost} (see {out / 'ncu.csv'})")
    if not whole.points:
        return whole.status  # a dry run, or the command itself has printed what is wrong
    statuses, wrong, release = Counter[str](), [], version(ncu)
    for run in _each(ncu, arguments, out, whole, list(labels)) if whole.lost else [whole]:
        records = list(counters_of(run, release))
        _keep(out / COUNTERS, records)
        found = Counter(point.status for point in run.points)
        without = found.pop("profiled", 0) - len(records)
        statuses += found + Counter({"recorded": len(records)})
        statuses["failed" if run.lost else "without kernels"] += without
        wrong += run.wrong
    statuses["failed"] += len(whole.points) - statuses.total()  # of a command that ended at once
    kinds = ("recorded", "without kernels", "unsupported", "failed")
    counted = ", ".join(f"{statuses[kind]} {kind}" for kind in kinds)
    print(f"{len(whole.points)} points: {counted} -> {out / COUNTERS}")
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or statuses["failed"] else 0


def _run(ncu: str, arguments: Sequence[str], out: Path, log: str) -> Run:
    """Profiles what the arguments ask for."""
    points = out / LIST
    points.unlink(missing_ok=True)  # of an earlier run
    command = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    status, text = run_ncu(ncu, command, out / log)
    listed = list(read_records(points, Profiled)) if points.exists() else []
    return Run(status, listed, read_launches(text), remarks(text))


def _each(
    ncu: str, arguments: Sequence[str], out: Path, whole: Run, labels: Sequence[str]
) -> Iterator[Run]:
    """A run for each of these kernels by itself, after one for all of them that gave no table."""
    print(f"{whole.lost} Now each kernel by itself.", flush=True)
    others = [point for point in whole.points if point.kernel not in labels]
    yield replace(whole, points=others, wrong=[])
    for label in labels:
        alone = [*arguments, f"hydra.launcher.only='{label}'"]
        yield _run(ncu, alone, out, f"ncu_{label}.csv")


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
        if mine.empty:
            why = run.lost or "ncu saw no kernel, as of a copy by the driver"
            print(f"{point.range}: {why}; no record")
            continue
        try:
            fields = summed(mine)
        except UserError as error:
            print(f"{point.range}: {error}; no record")
            continue
        environment = {**point.environment, "ncu": release, "cache_control": CACHE_CONTROL}
        yield Counters(**point.model_dump(include=shared), environment=environment, **fields)


if __name__ == "__main__":
    main()
