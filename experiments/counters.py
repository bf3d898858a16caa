"""The command line: ``python -m experiments.counters experiment=counters out=DIR``.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes what the counters of its launches come to into ``counters.jsonl`` below ``out``, in place of
what that file held of the same kernels, shapes and cards. ``ncu.csv`` beside it is ncu's own table.
ncu runs all points once for each of its passes, and what they print comes as often.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
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
        print("interrupted; nothing was recorded", file=sys.stderr)
        sys.exit(130)


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
    points, log = out / LIST, out / "ncu.csv"
    points.unlink(missing_ok=True)  # of an earlier run
    command = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    status, text = run_ncu(ncu, command, log)
    wrong = remarks(text)
    launches = read_launches(text)
    if wrong and launches.empty:
        raise UserError(f"ncu: {wrong[0]} (see {log})")
    if not points.exists():
        return status  # a dry run, or the command itself has printed what is wrong
    profiled = list(read_records(points, Profiled))
    records = list(counters_of(profiled, launches, version(ncu)))
    path = out / COUNTERS
    kept = list(read_records(path, Counters)) if path.exists() else []
    points_of = {(r.gpu, r.kernel, r.rows, r.cols, r.dtype): r for r in [*kept, *records]}
    write_records(path, points_of.values())
    count = [point.status for point in profiled].count
    without = count("profiled") - len(records)
    print(
        f"{len(profiled)} points: {len(records)} recorded, {without} without kernels, "
        f"{count('unsupported')} unsupported, {count('failed')} failed -> {path}"
    )
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or count("failed") else 0


def counters_of(
    profiled: Iterable[Profiled], launches: pd.DataFrame, ncu: str | None
) -> Iterator[Counters]:
    """A record for every point with launches; a line is printed for those without.

    Args:
        profiled: The points, with the range each was called in.
        launches: As `read_launches` gives them.
        ncu: Its version, for the record's environment.
    """
    shared = set(Record.model_fields) | {"gpu", "model_reads", "model_writes"}
    for point in profiled:
        mine = launches[launches["range"] == point.range]
        if point.status != "profiled":
            continue
        if mine.empty:
            print(f"{point.range}: ncu saw no kernel, as of a copy by the driver; no record")
            continue
        try:
            fields = summed(mine)
        except UserError as error:
            print(f"{point.range}: {error}; no record")
            continue
        environment = {**point.environment, "ncu": ncu, "cache_control": CACHE_CONTROL}
        yield Counters(**point.model_dump(include=shared), environment=environment, **fields)


if __name__ == "__main__":
    main()
