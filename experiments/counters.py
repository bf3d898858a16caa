"""The command line: ``python -m experiments.counters experiment=counters out=DIR``.

It takes the arguments of ``experiments.run``, calls every point once under Nsight Compute, and
writes the sums over the counters of its launches into ``counters.jsonl`` below ``out``, in place of
its records of the same kernels, shapes and cards. ``ncu.csv`` beside it is ncu's own table.
ncu runs all points once for each of its passes, and their output comes as often. A kernel of which
it can make no table, because another pass launches others, has to be left out of ``kernel=``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.data.records import COUNTERS, Counters, Record, read_records, write_records
from experiments.errors import UserError, command
from experiments.profile.ncu import find_ncu, read_launches, remarks, run_ncu, summed, version
from experiments.profile.profiling import LIST, Profiled

CACHE_CONTROL = "none, L2 flushed before the call"  # older records: all, before each launch
KINDS = ("recorded", "without kernels", "unsupported", "failed")
SHARED = set(Record.model_fields) | {"gpu", "model_reads", "model_writes"}


def main() -> None:
    """Collects, and turns errors into one line and an exit status."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    sys.exit(command(lambda: collect(arguments)))


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
    listed, log = out / LIST, out / "ncu.csv"
    listed.unlink(missing_ok=True)  # of an earlier run
    words = [sys.executable, "-m", "experiments.profile", *arguments, f"out={out}"]
    status, text = run_ncu(ncu, words, log)
    points = list(read_records(listed, Profiled)) if listed.exists() else []
    launches, wrong = read_launches(text), remarks(text)
    if wrong and launches.empty:
        raise UserError(f"ncu: {wrong[0]} (see {log})")
    if not points:
        return status  # a dry run, or the command itself has printed what is wrong
    records, statuses = [], Counter[str]()
    release = version(ncu)
    for point in points:
        if point.status != "profiled":
            statuses[point.status] += 1
            continue
        try:
            mine = launches[launches["range"] == point.range]
            if mine.empty:
                raise UserError("ncu saw no kernel, as of a copy by the driver")
            fields = summed(mine)
        except UserError as error:
            statuses["without kernels"] += 1
            print(f"{point.range}: {error}; no record")
            continue
        statuses["recorded"] += 1
        environment = {**point.environment, "ncu": release, "cache_control": CACHE_CONTROL}
        shared = point.model_dump(include=SHARED)
        records.append(Counters(**shared, environment=environment, **fields))
    path = out / COUNTERS
    kept = list(read_records(path, Counters)) if path.exists() else []
    points_of = {(r.gpu, r.kernel, r.rows, r.cols, r.dtype): r for r in [*kept, *records]}
    write_records(path, points_of.values())
    counted = ", ".join(f"{statuses[kind]} {kind}" for kind in KINDS)
    print(f"{len(points)} points: {counted} -> {path}")
    for complaint in wrong:
        print(f"ncu: {complaint}", file=sys.stderr)
    return 1 if wrong or statuses["failed"] else 0


if __name__ == "__main__":
    main()
